"""The frame of a conversation's requests: everything of a request but its history and its question.

It is stored beside the conversation, so that a plan can be asked for without a file. Bytes are those of a request
whose `modelBundleId` may be absent: then whoever plans names the bundle.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from planner.ledger.ledger import Ledger
from planner.values.digest import canonical, digest
from planner.values.field_rules import invalid
from planner.values.request import PlanRequest
from planner.values.strict_json import load_strict
from planner.wire.dump import dump_request
from planner.wire.parse import parse_request

UNVERSIONED = "unversioned"
_UNNAMED = "unnamed"
_OF_ONE_CALL = (
    "request", "conversation_id", "generation", "revision", "now", "turns", "summaries", "passages", "citations",
    "claims", "previous",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """A request without history and question. `names_bundle` is false where its bundle is only a place holder.

    `generation` is what the bytes named, None where they named none: a request alone cannot tell.
    """

    request: PlanRequest
    names_bundle: bool = True
    generation: int | None = None


def read_frame(data: bytes, base: Path | None = None) -> Frame:
    """Read a request whose bundle may be absent.

    base  folder below which `previous` may name files of ids. Raises RefusalSignal `invalid-input`.
    """
    tree = load_strict(data)
    if type(tree) is not dict:
        invalid("$", "expected an object")
    generation = tree.get("generation")
    named = "modelBundleId" in tree
    if not named:
        data = json.dumps({**tree, "modelBundleId": _UNNAMED}, ensure_ascii=False).encode()
    request = parse_request(data, base)
    return Frame(request, named, generation if type(generation) is int else None)


def frame_of(request: PlanRequest, *, names_bundle: bool = True) -> Frame:
    """Return what of a request does not belong to one call, with a version for its policy."""
    defaults = {one.name: _default(one) for one in fields(PlanRequest) if one.name in _OF_ONE_CALL}
    return Frame(versioned(replace(request, **defaults)), names_bundle)


def versioned(request: PlanRequest) -> PlanRequest:
    """Return a request whose policy has a version: without `policyVersion` one made of its own words.

    So another policy is another version, and the same words are the same wherever they come from (X13, R126).
    """
    if request.policy_version != UNVERSIONED:
        return request
    words = [[item.id, item.text] for item in (*request.policy, *request.data_scope)]
    return replace(request, policy_version=f"words-{digest(canonical(words))[:32]}")


def empty_frame() -> Frame:
    """Return the frame of a history that came without a policy."""
    return frame_of(PlanRequest(_UNNAMED), names_bundle=False)


def dump_frame(frame: Frame) -> bytes:
    """Return the bytes that `read_frame` reads; a place holder for the bundle is left out."""
    tree: dict[str, Any] = json.loads(dump_request(frame.request))
    if not frame.names_bundle:
        del tree["modelBundleId"]
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def stored_frame(ledger: Ledger, conversation_id: str) -> Frame | None:
    """Return the frame stored with a conversation, its policy versioned, None where there is none."""
    data = ledger.policy(conversation_id)
    if data is None:
        return None
    frame = read_frame(data)
    return replace(frame, request=versioned(frame.request))


def _default(one: Any) -> Any:
    return one.default if one.default is not MISSING else one.default_factory()
