"""Close a plan or a refusal with its receipt: ids, numbers, reasons and digests, never text (R185, R187)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.encoding.runs import Assembled
from planner.steps.fit import Fitted
from planner.steps.frame import Framed
from planner.values.account import Account
from planner.values.bundle import Manifest
from planner.values.digest import (
    PLANNER_VERSION,
    canonical,
    digest,
    final_input_digest,
    ids_bytes,
    keyed_digest,
)
from planner.values.plan import PlanFile, PlanFileItem
from planner.values.reasons import outcome_of
from planner.values.receipt import ConcessionUse, HistoryReduced, Prefix, Receipt, Removal
from planner.values.request import PlanRequest, Previous
from planner.values.rung import Ladder, Layered
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Sealing:
    """What every receipt of one request shares."""

    request: PlanRequest
    manifest: Manifest | None
    request_digest: str | None
    digest_key: bytes | None = field(default=None, repr=False)


def plan_id(sealing: Sealing) -> str:
    """Return the id of a planning call: the same request and bundle give the same id (R44)."""
    bundle = sealing.manifest.digest if sealing.manifest is not None else ""
    return "p-" + digest(f"{PLANNER_VERSION}\0{bundle}\0{sealing.request_digest}".encode())[:32]


def base_receipt(sealing: Sealing, outcome: str, reason: str | None) -> Receipt:
    """Return the receipt of a call without its prompt: the whole of it for a refusal."""
    request, manifest = sealing.request, sealing.manifest
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
        runtime=(manifest.runtime or "none") if manifest is not None else "none",
        policy_version=request.policy_version,
        generation=request.generation,
        revision=request.revision,
    )


def refusal_receipt(sealing: Sealing, reason: str, account: Account | None, flags: Sequence[str]) -> Receipt:
    """Return the receipt of a refusal (R184: no ids of tokens)."""
    outcome = outcome_of(reason)
    return replace(base_receipt(sealing, outcome, reason), account=account, flags=tuple(flags))


def removals(layered: Layered, steps: Ladder, fitted: Fitted) -> tuple[Removal, ...]:
    """List everything of the request that is not in the prompt, once, turns as ranges."""
    turns = layered.history.turns
    reasons: dict[str, str] = {}
    begin = 0
    for move in steps.moves[: fitted.moves_made]:
        begin = max(begin, move.through)
        reasons.update(dict.fromkeys(move.leaves, move.reason))
    out = [*layered.history.left_out, *steps.gone]
    pinned = frozenset(layered.history.pinned)
    kept = {entry.id for entry in fitted.measured.selection.history if isinstance(entry, Turn)}
    first_known = max(begin, steps.gone_through)
    out += _ranges(
        [
            (index, "over_budget")
            for index in range(steps.gone_through, begin)
            if index not in pinned and turns[index].id not in kept
        ],
        turns,
    )
    out += _ranges(
        [
            (index, reasons.get(f"turn/{turns[index].id}", "over_budget"))
            for index in range(first_known, len(turns))
            if turns[index].id not in kept
        ],
        turns,
    )
    shown = {entry.id for entry in fitted.measured.selection.history if isinstance(entry, SummaryRecord)}
    for summary in layered.summaries:
        if summary.id not in shown:
            out.append(Removal(f"summary/{summary.id}", reasons.get(f"summary/{summary.id}", "not_needed")))
    cited = {passage.citation_id for passage in fitted.measured.selection.passages}
    for passage in layered.passages:
        if passage.citation_id not in cited and not _already(out, f"passage/{passage.citation_id}"):
            key = f"passage/{passage.citation_id}"
            out.append(Removal(key, reasons.get(key, "over_budget")))
    return tuple(out)


def _already(removed: Sequence[Removal], key: str) -> bool:
    return any(entry.id == key for entry in removed)


def _ranges(found: Sequence[tuple[int, str]], turns: Sequence[Turn]) -> list[Removal]:
    out: list[Removal] = []
    last = -2
    for index, reason in found:
        key = f"turn/{turns[index].id}"
        if out and index == last + 1 and out[-1].reason == reason:
            out[-1] = replace(out[-1], last_id=key, count=out[-1].count + 1)
        else:
            out.append(Removal(key, reason))
        last = index
    return out


def history_reduced(
    layered: Layered, removed: Sequence[Removal], sequences: Mapping[str, int]
) -> HistoryReduced | None:
    """Say how many turns of the history are missing and over which sequences (R147)."""
    ranges: list[tuple[int, int]] = []
    count = 0
    for entry in removed:
        if entry.id.startswith("turn/") and entry.reason not in (
            "cancelled",
            "superseded",
            "replaced_by_summary",
        ):
            count += entry.count
            ranges.append((sequences[entry.id], sequences[entry.last_id or entry.id]))
    return HistoryReduced(count, tuple(ranges)) if count else None


def kept_ids(layered: Layered, fitted: Fitted) -> tuple[str, ...]:
    """List what is in the prompt, in the order of the parts."""
    out = [f"policy/{item.id}" for item in layered.policy]
    out += [f"scope/{item.id}" for item in layered.data_scope]
    if layered.output_schema is not None:
        out.append(f"schema/{layered.output_schema.id}")
    out += [f"tool/{tool.id}" for tool in layered.tools]
    for entry in fitted.measured.selection.history:
        kind = "summary" if isinstance(entry, SummaryRecord) else "turn"
        out.append(f"{kind}/{entry.id}")
    out += [f"passage/{passage.citation_id}" for passage in fitted.measured.selection.passages]
    out += [f"preference/{item.id}" for item in layered.preferences]
    out += [f"parameter/{item.id}" for item in layered.request.required_parameters]
    out.append(f"turn/{layered.open_turn.id}")
    out.append(f"request/{layered.request.id or layered.open_turn.id}")
    return tuple(out)


def prefix(
    previous: Previous, ids: array[int], assembled: Assembled, first_kept: str | None
) -> Prefix | None:
    """Report what this prompt shares with the previous one and what ended it; None without its ids."""
    if previous.ids is None:
        return None
    held = previous.ids if previous.generated_ids is None else (*previous.ids, *previous.generated_ids)
    common = common_length(ids, held)
    return Prefix(
        previous.plan_id, common, _broken_by(previous, common, len(previous.ids), assembled, first_kept)
    )


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many leading ids are equal.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    most = min(len(left), len(right))
    low = 0
    step = 512
    while low < most:
        high = min(most, low + step)
        if list(left[low:high]) != list(right[low:high]):
            for index in range(low, high):
                if left[index] != right[index]:
                    return index
        low = high
    return most


def _broken_by(
    previous: Previous, common: int, planned: int, assembled: Assembled, first_kept: str | None
) -> str:
    if common >= planned:
        return "appended"
    section = "history"
    best = -1
    for item, start in assembled.starts.items():
        if best < start <= common:
            best, section = start, assembled.labels[item].section
    if section == "policy":
        return "policy_changed"
    if section == "tool":
        return "tools_changed"
    if previous.first_kept_turn_id is not None and previous.first_kept_turn_id != first_kept:
        return "cut_moved"
    summaries = tuple(item.partition("/")[2] for item in assembled.starts if item.startswith("summary/"))
    if summaries != previous.summary_ids:
        return "summary_changed"
    if section == "retrieval":
        return "passages_changed"
    return "template_rewrote"


def front_tokens(assembled: Assembled) -> int:
    """Return how many ids stand before the first run of anything that changes per turn."""
    moving = [
        start
        for item, start in assembled.starts.items()
        if assembled.labels[item].section in ("history", "request", "retrieval")
    ]
    return min(moving, default=len(assembled.ids))


def cache_key(sealing: Sealing, ids: array[int], front: int) -> str:
    """Return the key of a runtime's cache of the front: runtime, bundle, switches and those ids."""
    manifest = sealing.manifest
    head = canonical(
        {
            "runtime": manifest.runtime if manifest is not None else None,
            "bundle": manifest.digest if manifest is not None else None,
            "options": dict(sealing.request.template_options),
        }
    )
    return digest(head + b"\0" + ids_bytes(ids[:front]))


def plan_receipt(
    sealing: Sealing,
    account: Account,
    framed: Framed,
    assembled: Assembled,
    kept: tuple[str, ...],
    removed: tuple[Removal, ...],
    extra: Mapping[str, Any],
) -> Receipt:
    """Return the receipt of an accepted plan; `extra` holds the fields the pipeline worked out apart."""
    ids = assembled.ids
    front = front_tokens(assembled)
    flags = [*extra.get("flags", ()), *sorted(framed.flags)]
    values = {name: value for name, value in extra.items() if name != "flags"}
    return replace(
        base_receipt(sealing, "accepted", None),
        account=account,
        kept=kept,
        removed=removed,
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
    for leaf in framed.inputs.leaves:
        texts.setdefault(leaf.item, []).append(leaf.text)
    return {item: keyed_digest(sealing.digest_key, "\0".join(parts)) for item, parts in texts.items()}


def plan_file(
    request: PlanRequest,
    layered: Layered,
    account: Account,
    kept: tuple[str, ...],
    removed: Sequence[Removal],
    sequences: Mapping[str, int],
    kinds: Mapping[str, str],
) -> PlanFile:
    """Return the file of the structural gate; its items and reserve add up to the real prompt (R197, X23)."""
    items: list[PlanFileItem] = []
    for key in kept:
        items.append(
            PlanFileItem(
                id=key,
                layer=_file_layer(key, kinds),
                tokens=account.items.get(key, 0),
                sequence=sequences.get(key),
            )
        )
    items.append(PlanFileItem("framing/framing", "framing", account.framing_tokens))
    ids: list[str] = []
    for entry in removed:
        ids.append(entry.id)
        if entry.last_id is not None:
            ids.append(entry.last_id)
    required = [key for key in kept if key.startswith(("policy/", "scope/"))]
    return PlanFile(
        max_input_tokens=account.input_limit - account.safety_margin_tokens,
        reserved_output_tokens=account.reserved_output_tokens,
        generation=request.generation,
        required_policy_ids=tuple(required),
        required_constraint_ids=(),
        items=tuple(items),
        removed_ids=tuple(dict.fromkeys(ids)),
    )


def _file_layer(key: str, kinds: Mapping[str, str]) -> str:
    kind = key.partition("/")[0]
    return {
        "policy": "immutable_policy",
        "scope": "immutable_policy",
        "schema": "output_schema",
        "tool": "tools",
        "request": "required_request",
        "preference": "required_request",
        "parameter": "required_request",
        "passage": "evictable",
        "summary": "summarizable",
    }.get(kind) or kinds.get(key, "summarizable")
