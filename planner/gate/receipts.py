"""Device receipts as evidence: of this candidate, this bundle, really executed, and counted as planned (R192..R195).

A file holds `{"receipt": .., "observation": ..}` as `Planner.observe` gives them; anything less proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.gate.checks_receipt import is_counted, plan_id_of
from planner.gate.identity import states
from planner.gate.reading import found_bytes
from planner.values.candidate import Candidate, MatrixCell
from planner.values.digest import canonical, digest
from planner.values.gate import Reason
from planner.values.observation import Observation
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.values.strict_json import Bounds, load_strict
from planner.wire.parse import parse_receipt, parse_record

_BOUNDS = Bounds(total_bytes=16 * 1024 * 1024, field_bytes=1024 * 1024, list_items=1_000_000)


_SHARED = (
    "plan_id", "model_bundle_id", "bundle_digest", "candidate_id", "generation", "conversation_id", "runtime",
    "runtime_version",
)  # fmt: skip
"""What an observation repeats of its receipt."""


def check_receipts(folder: Path, candidate: Candidate) -> tuple[int, list[Reason]]:
    """Return how many receipts may count as evidence, and what is wrong with the others, by file name."""
    sound, reasons = read_receipts(folder, candidate)
    return len(sound), reasons


def read_receipts(folder: Path, candidate: Candidate) -> tuple[list[Observation], list[Reason]]:
    """Return the observations that may count as evidence, and what is wrong with the other files."""
    sound: dict[str, Observation] = {}
    reasons: list[Reason] = []
    for path in sorted(folder.glob("*.json")):
        try:
            observation, receipt = _parts(load_strict(found_bytes(path, _BOUNDS.total_bytes), _BOUNDS))
        except (RefusalSignal, OSError):
            reasons.append(Reason("receipt_unreadable", path.name))
            continue
        found = list(_check(observation, receipt, candidate, path.name))
        reasons += found
        if not found:
            # The same call handed in twice, under whichever names, is one.
            sound[digest(canonical((observation, receipt)))] = observation
    return list(sound.values()), reasons


def measured(matrix: Iterable[MatrixCell], sound: Iterable[Observation]) -> tuple[MatrixCell, ...]:
    """Return the matrix with `measured` only where a device receipt of that bundle and runtime was handed in (R211).

    A receipt does not say on which system it was made: that stays the word of the matrix.
    """
    versions = {(one.bundle_digest, one.runtime, one.runtime_version) for one in sound}
    return tuple(
        one
        if one.status != "measured"
        or (one.bundle_digest, one.runtime, one.runtime_version) in versions
        or (one.bundle_digest, one.runtime, None) in versions
        else replace(one, status="uncovered")
        for one in matrix
    )


def _check(observation: Observation, receipt: Receipt, candidate: Candidate, name: str) -> Iterator[Reason]:
    if (receipt.candidate_id, receipt.app_version) != (candidate.candidate_id, candidate.app_version):
        yield Reason("receipt_of_other_candidate", name)
    if receipt.bundle_digest not in candidate.bundle_digests:
        yield Reason("receipt_of_other_bundle", name)
    if receipt.template_version is not None and not states(candidate, "template_version", receipt.template_version):
        yield Reason("identity_differs", name)
    if not is_counted(receipt):
        yield Reason("count_not_exact", name)
    if plan_id_of(receipt) != receipt.plan_id:
        # Whoever writes another digest into an old receipt does not have the id that a plan for it has.
        yield Reason("plan_id_differs", name)
    account = receipt.account
    if account is None or receipt.final_input_digest is None or _of_other_call(observation, receipt):
        yield Reason("receipt_unreadable", name)
    elif observation.evidence != "executed":
        yield Reason("receipt_simulated", name)
    elif observation.verdict != "exact" or observation.prompt_tokens != observation.planned_tokens:
        yield Reason("runtime_count_differs", name)
    elif observation.planned_tokens < account.input_tokens:
        # The runtime may add what the bundle declares; it cannot have been given less than the plan.
        yield Reason("runtime_count_differs", name)


def _of_other_call(observation: Observation, receipt: Receipt) -> bool:
    same = all(getattr(observation, name) == getattr(receipt, name) for name in _SHARED)
    return not same or receipt.outcome != "accepted"


def _parts(tree: Any) -> tuple[Observation, Receipt]:
    if not isinstance(tree, dict) or tree.keys() != {"receipt", "observation"}:
        raise RefusalSignal("invalid-input", "$: is no receipt with its observation")
    return parse_record(Observation, canonical(tree["observation"])), parse_receipt(canonical(tree["receipt"]))
