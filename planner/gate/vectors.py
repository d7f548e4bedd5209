"""Vectors: what a port of the planner in another language must answer, as plain JSON (R44, R218).

A vector is one request with its bundle, the answer our planner gives, and the digests on the way to it. It holds no
ledger: a plan of a lifecycle sample is written with the turns and summaries the ledger held when it was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, get_args, get_type_hints

from planner.gate.lifecycle import play
from planner.gate.limits import AS_ASKED, Planning, has_own_limit, request_of
from planner.gate.numbers import fragile_numbers
from planner.values import digest as digests
from planner.values.bundle import Bundle, Manifest
from planner.values.digest import canonical
from planner.values.fingerprint import fingerprint, protected_fingerprint
from planner.values.gate import FAMILIES, Sample
from planner.values.plan import Plan, Refusal
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn
from planner.values.wire_names import REQUEST_CLASSES, SCHEMA_VERSION, wire_fields
from planner.wire.dump import dump_plan, dump_refusal, dump_request

KIT_FILE = "kit.json"
_OF_PLAN = ("account", "constraintIds", "ids", "kept", "maxOutputTokens", "prompt", "removed")
_OF_RECEIPT = (
    "aliasedCallIds", "concessions", "defaults", "disputes", "excluded", "finalInputDigest", "flags", "forms",
    "frontTokens", "generation", "hiddenCharacters", "historyReduced", "neutralised", "outcome", "parts", "planId",
    "reason", "requestDigest", "revision", "summaries", "summaryVersions", "toolDetailLost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ported:
    """A bundle the kit is written for; `others` and `plans` are the kit's bundles by id, to switch to."""

    bundle: Bundle
    plan: Planning
    others: Mapping[str, Bundle]
    plans: Mapping[str, Planning]

    @property
    def smallest_tier(self) -> str:
        """The tier for samples that name no limit; as asked where none is approved."""
        tiers = sorted(self.bundle.manifest.tiers, key=lambda tier: tier.max_input_tokens)
        return tiers[0].id if tiers else AS_ASKED


def vectors_of(samples: Sequence[Sample], ported: Ported) -> Iterator[dict[str, Any]]:
    """Give the vectors of one bundle; a sample that does not fit whole into it where it must gives none.

    Raises PlannerFault for a bundle that cannot be used.
    """
    bundle_id = ported.bundle.manifest.id
    for sample in samples:
        tier = AS_ASKED if has_own_limit(sample) else ported.smallest_tier
        request = request_of(sample, tier, ported.plan, model_bundle_id=bundle_id)
        if isinstance(request, Refusal):
            request = replace(sample.request, model_bundle_id=bundle_id)
        if request is None:
            continue
        if not sample.events:
            yield vector(sample, sample.id, request, ported.plan(request), ported.bundle.manifest)
            continue
        played, _ = play(sample, request, ported)
        for number, one in enumerate(played, 1):
            # Planned from the request alone: a ledger also knows of turns that were withdrawn.
            manifest = one.bundle.manifest
            answer = ported.plans[manifest.id](one.request)
            yield vector(sample, f"{sample.id}.{number}", one.request, answer, manifest)


def vector(
    sample: Sample, name: str, request: PlanRequest, answer: Plan | Refusal, manifest: Manifest
) -> dict[str, Any]:
    """Return one vector as plain JSON."""
    asked = json.loads(dump_request(request))
    return {
        "schemaVersion": SCHEMA_VERSION,
        "id": name,
        "family": sample.family,
        "bundle": manifest.id,
        "request": asked,
        "fragileNumbers": fragile_numbers(asked),
        "expected": expected_of(answer),
        "fingerprints": fingerprints_of(request),
    }


def expected_of(answer: Plan | Refusal) -> dict[str, Any]:
    """Return what a port must answer: decisions, account, ids and digests, in the names of the wire."""
    accepted = isinstance(answer, Plan)
    tree = json.loads(dump_plan(answer) if isinstance(answer, Plan) else dump_refusal(answer))
    found = {name: tree["receipt"][name] for name in _OF_RECEIPT}
    if accepted:
        return found | {name: tree[name] for name in _OF_PLAN}
    return found | {"account": tree["account"], "tokensMissing": tree["tokensMissing"]}


def fingerprints_of(request: PlanRequest) -> dict[str, Any]:
    """Return the digests of a request's turns: each alone, the chain, and what a summary of them rests on.

    `runs` holds for each summary the fingerprints of the turns it covers as they are now.
    """
    turns = sorted(request.turns, key=lambda turn: turn.sequence)
    return {
        "turns": [{"id": turn.id, "digest": digests.turn_digest(turn).hex()} for turn in turns],
        "turnChain": digests.chain_of(turns).value(),
        "source": fingerprint(turns),
        "protected": protected_fingerprint(turns),
        "runs": [_run(summary, turns) for summary in request.summaries],
    }


def _run(summary: SummaryRecord, turns: Sequence[Turn]) -> dict[str, Any]:
    covered = [turn for turn in turns if summary.covers_from <= turn.sequence <= summary.covers_to]
    return {
        "summary": summary.id,
        "turns": [turn.id for turn in covered],
        "source": fingerprint(covered),
        "protected": protected_fingerprint(covered),
    }


def bundle_row(manifest: Manifest) -> dict[str, Any]:
    """Return what a port must know to load the same bundle: digests of its files, control tokens, how it is cut."""
    return {
        "id": manifest.id,
        "digest": manifest.digest,
        "tokenizerFormat": manifest.tokenizer_format,
        "encodeMode": manifest.encode_mode,
        "prefixSpace": manifest.prefix_space,
        "templateDigest": manifest.template_digest,
        "templateEntry": manifest.template_entry,
        "variables": dict(manifest.variables),
        "controlTokens": [{"text": token.text, "id": token.id} for token in manifest.control_tokens],
        "files": [{"path": one.path, "sizeBytes": one.size_bytes, "sha256": one.sha256} for one in manifest.files],
    }


def kit_head(manifests: Sequence[Manifest], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the head of a kit; the caller adds `files`.

    `shapes` are the fields of what is digested, in the order in which they are written: name there, name on the
    wire, the default of one that may be absent, the shape it holds, whether it is a double, and whether it is an
    application's own JSON.
    """
    return {
        "schemaVersion": SCHEMA_VERSION,
        "plannerVersion": digests.PLANNER_VERSION,
        "bundles": [bundle_row(manifest) for manifest in manifests],
        "families": {name: sum(one.family == name for one in samples) for name in FAMILIES},
        "shapes": {kind.__name__: list(_shape(kind)) for kind in REQUEST_CLASSES},
        "requestDigest": {
            "own": list(digests.SMALL_FIELDS),
            "defaults": json.loads(canonical(dict(zip(digests.SMALL_FIELDS, digests.DEFAULTS, strict=True)))),
            "digested": list(digests.LARGE_FIELDS),
        },
        "canonicalExamples": [{"value": value, "canonical": canonical(value).decode()} for value in _EXAMPLES],
    }


def _shape(kind: type) -> Iterator[dict[str, Any]]:
    wire = {one.name: one for one in wire_fields(kind)}
    hints = get_type_hints(kind)
    for one in fields(kind):
        there = wire[one.name]
        row: dict[str, Any] = {"name": one.name, "wire": there.alias}
        if there.default is not MISSING:
            row["default"] = json.loads(canonical([there.default]))[0]
        inner = [found.__name__ for found in _classes(hints[one.name]) if found in REQUEST_CLASSES]
        yield row | {"holds": inner[0] if inner else None, "double": there.is_float, "own": there.is_free}


def _classes(hint: Any) -> Iterator[type]:
    """Give every class a type hint is made of."""
    if isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from _classes(argument)


_EXAMPLES: tuple[Any, ...] = (
    {"b": 1, "a": [True, None]},
    {"text": 'a "quoted" \\ line\n', "zh": "电梯", "slash": "/", "del": "\x7f", "bell": "\x07"},
)
