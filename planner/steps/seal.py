"""Close a plan or a refusal with its receipt: ids, numbers, reasons and digests, never text (R185, R187)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, get_args

from planner.encoding.assemble import Assembled
from planner.steps.fit import Fitted
from planner.steps.frame import Framed
from planner.steps.frame_blocks import NOTICE_KEY
from planner.steps.window import Resolved
from planner.values.account import Account
from planner.values.admission import NOTHING_ADMITTED, Admission
from planner.values.bundle import Manifest
from planner.values.digest import (
    PLANNER_VERSION,
    canonical,
    digest,
    final_input_digest,
    ids_bytes,
    keyed_digest,
)
from planner.values.field_rules import is_id, is_instant, is_version, is_whole
from planner.values.plan import FileItem
from planner.values.reasons import outcome_of
from planner.values.receipt import ConcessionUse, FormUse, Receipt
from planner.values.request import Mode, Options, PlanRequest
from planner.values.rung import Layered, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Sealing:
    """What every receipt of one request shares."""

    request: PlanRequest
    manifest: Manifest | None
    request_digest: str | None
    digest_key: bytes | None = field(default=None, repr=False)
    admission: Admission = NOTHING_ADMITTED


def plan_id(sealing: Sealing) -> str:
    """Return the id of a planning call: the same request and bundle give the same id (R44)."""
    bundle = sealing.manifest.digest if sealing.manifest is not None else ""
    return "p-" + digest(f"{PLANNER_VERSION}\0{bundle}\0{sealing.request_digest}".encode())[:32]


def base_receipt(sealing: Sealing, outcome: str, reason: str | None, **more: Any) -> Receipt:
    """Return the receipt of a call: without `more` that of a refusal, which has no prompt."""
    request, manifest = sealing.request, sealing.manifest
    if sealing.request_digest is None:
        request = sayable(request)
    runtime = manifest.runtime if manifest is not None else None
    return Receipt(
        plan_id=plan_id(sealing),
        outcome=outcome,
        reason=reason,
        model_bundle_id=request.model_bundle_id,
        bundle_digest=manifest.digest if manifest is not None else None,
        request_digest=sealing.request_digest,
        planner_version=PLANNER_VERSION,
        conversation_id=request.conversation_id,
        candidate_id=request.candidate_id,
        app_version=request.app_version,
        now=request.now,
        mode=request.options.mode,
        template_entry=manifest.template_entry if manifest is not None else None,
        template_version=manifest.template_version if manifest is not None else None,
        template_digest=manifest.template_digest if manifest is not None else None,
        template_fallback=manifest.template_fallback if manifest is not None else None,
        runtime=runtime.name if runtime is not None else "none",
        runtime_version=runtime.version if runtime is not None else None,
        policy_version=request.policy_version,
        generation=request.generation,
        revision=request.revision,
        excluded=dict(sealing.admission.excluded),
        **more,
    )


def sayable(request: PlanRequest) -> PlanRequest:
    """Return a request that broke a rule with nothing left in its header but what keeps the rules.

    A field that is wrong may hold any text, and a receipt holds none (R187).
    """
    found: dict[str, Any] = {
        name: value if is_id(value) else None
        for name in ("conversation_id", "candidate_id")
        for value in (getattr(request, name),)
    }
    found["model_bundle_id"] = request.model_bundle_id if is_id(request.model_bundle_id) else "invalid"
    found["policy_version"] = request.policy_version if is_version(request.policy_version) else "invalid"
    found["app_version"] = request.app_version if is_version(request.app_version) else None
    found["now"] = request.now if type(request.now) is str and is_instant(request.now) else None
    for name in ("generation", "revision"):
        value = getattr(request, name)
        found[name] = value if is_whole(value) else 0
    if type(request.options) is not Options or request.options.mode not in get_args(Mode):
        found["options"] = Options()
    return replace(request, **found)


def refusal_receipt(sealing: Sealing, reason: str, account: Account | None, resolved: Resolved | None) -> Receipt:
    """Return the receipt of a refusal (R184: no ids of tokens)."""
    receipt = replace(base_receipt(sealing, outcome_of(reason), reason), account=account)
    if resolved is None:
        return receipt
    return replace(receipt, flags=resolved.flags, defaults=resolved.defaults)


_FILE_LAYERS = {
    "policy": "immutable_policy",
    "scope": "immutable_policy",
    "schema": "output_schema",
    "tool": "tools",
    "request": "required_request",
    "preference": "required_request",
    "parameter": "required_request",
    "conflict": "required_evidence",
    "constraint": "immutable_policy",
    "notice": "summarizable",
}


def listed(layered: Layered, selection: Selection, framed: Framed) -> tuple[FileItem, ...]:
    """List what is in the prompt, in the order of the parts, as the plan file writes it (X16)."""
    keys = [f"policy/{item.id}" for item in layered.policy]
    keys += [f"scope/{item.id}" for item in layered.data_scope]
    if layered.output_schema is not None:
        keys.append(f"schema/{layered.output_schema.id}")
    keys += [f"tool/{tool.id}" for tool in layered.tools]
    keys += [f"constraint/{entry.id}" for entry in selection.constraints]
    if selection.notice:
        keys.append(NOTICE_KEY)
    out = _plain_items(keys)
    turns: list[FileItem] = [part.file_item for _, part in framed.turns]
    own = turns.pop()
    if layered.summaries:
        shown = iter(turns)
        out += [
            (f"summary/{entry.id}", "summarizable", entry.covers_to)
            if isinstance(entry, SummaryRecord)
            else next(shown)
            for entry in selection.history
        ]
    else:
        out += turns
    pinned = layered.pinned_passages if selection.passages else frozenset()
    for passage in selection.passages:
        layer = "required_evidence" if passage.citation_id in pinned else "evictable"
        out.append((f"passage/{passage.citation_id}", layer, None))
    keys = [one.key for one in selection.conflicts]
    keys += [f"preference/{item.id}" for item in layered.preferences]
    keys += [f"parameter/{item.id}" for item in layered.request.required_parameters]
    out += _plain_items(keys)
    out.append(own)
    out += _plain_items([f"request/{layered.request.id or layered.open_turn.id}"])
    return tuple(out)


def _plain_items(keys: Sequence[str]) -> list[FileItem]:
    return [(key, _FILE_LAYERS[key.partition("/")[0]], None) for key in keys]


def front_tokens(assembled: Assembled) -> int:
    """Return how many ids stand before the first run of anything that changes per turn."""
    return len(assembled.ids) if assembled.front is None else assembled.front


def cache_key(sealing: Sealing, ids: array[int], front: int) -> str:
    """Return the key of a runtime's cache of the front: runtime, bundle, switches and those ids."""
    manifest, options = sealing.manifest, sealing.request.template_options
    runtime, bundle = (_runtime_label(manifest), manifest.digest) if manifest is not None else (None, None)
    head = _key_head(runtime, bundle) if not options else canonical(_key_fields(runtime, bundle, options))
    return digest(head + b"\0" + ids_bytes(ids[:front]))


def _runtime_label(manifest: Manifest) -> str | None:
    return None if manifest.runtime is None else manifest.runtime.label


def _key_fields(runtime: str | None, bundle: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"runtime": runtime, "bundle": bundle, "options": dict(options)}


@lru_cache(maxsize=64)
def _key_head(runtime: str | None, bundle: str | None) -> bytes:
    """Return the first bytes of a key without switches, the same for every plan of a bundle."""
    return canonical(_key_fields(runtime, bundle, {}))


def plan_receipt(
    sealing: Sealing,
    account: Account,
    framed: Framed,
    assembled: Assembled,
    extra: Mapping[str, Any],
) -> Receipt:
    """Return the receipt of an accepted plan; `extra` holds the fields the pipeline worked out apart."""
    ids = assembled.ids
    front = front_tokens(assembled)
    values = dict(extra)
    flags = [*values.pop("flags", ()), *sorted(framed.flags)]
    return base_receipt(
        sealing,
        "accepted",
        None,
        account=account,
        concessions=tuple(ConcessionUse(name, messages) for name, messages in sorted(framed.used.items())),
        aliased_call_ids=framed.aliased,
        flags=tuple(dict.fromkeys(flags)),
        final_input_digest=final_input_digest(sealing.manifest.digest if sealing.manifest else "", ids),
        cache_key=cache_key(sealing, ids, front),
        front_tokens=front,
        item_digests=_item_digests(sealing, framed),
        **values,
    )


def _item_digests(sealing: Sealing, framed: Framed) -> dict[str, str]:
    if sealing.digest_key is None:
        return {}
    texts: dict[str, list[str]] = {}
    fixed = [leaf for leaf in framed.inputs.leaves if not leaf.turn]
    for leaf in (*fixed, *(leaf for _, part in framed.turns for leaf in part.leaves)):
        texts.setdefault(leaf.item, []).append(leaf.text)
    return {item: keyed_digest(sealing.digest_key, "\0".join(parts)) for item, parts in texts.items()}


def forms_used(layered: Layered, selection: Selection) -> tuple[FormUse, ...]:
    """List what stands in the prompt in a shorter form: results by their turns, then passages, then the open turn's."""
    if not selection.forms:
        return ()
    out: list[FormUse] = []
    keys = [f"turn/{entry.id}" for entry in selection.history]
    keys += [f"passage/{entry.citation_id}" for entry in selection.passages]
    keys.append(f"turn/{layered.open_turn.id}")
    turns = {f"turn/{one.id}": one for one in (*selection.history, layered.open_turn) if isinstance(one, Turn)}
    for key in keys:
        for place, form in selection.forms.get(key, ()):
            turn = turns.get(key)
            result = turn.messages[place].tool_result if turn is not None else None
            out.append(FormUse(
                key, form.name, form.tokens, result.call_id if result is not None else None,
                turn.sequence_of(place) if turn is not None else None,
            ))  # fmt: skip
    return tuple(out)


def carriers(layered: Layered, fitted: Fitted) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return which kept items carry live constraints: raw turns, summaries and the constraints' own texts (X24)."""
    if not layered.constraints:
        return ()
    of_turn: dict[str, list[str]] = {}
    for one in layered.constraints:
        of_turn.setdefault(one.turn_id, []).append(one.id)
    live = {entry.id for entry in layered.constraints}
    out: list[tuple[str, tuple[str, ...]]] = []
    selection = fitted.measured.selection
    for entry in (*selection.history, layered.open_turn):
        if isinstance(entry, SummaryRecord):
            ids = tuple(name for name in entry.required_constraint_ids if name in live)
            out += [(f"summary/{entry.id}", ids)] if ids else []
        elif entry.id in of_turn:
            out.append((f"turn/{entry.id}", tuple(of_turn[entry.id])))
    out += [(f"constraint/{one.id}", (one.id,)) for one in selection.constraints]
    return tuple(out)
