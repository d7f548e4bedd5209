"""The four parts of evidence beside the structure; an absent one reads "not evidenced", never a pass (R195).

A part is one JSON file named after it: `{"schemaVersion", "candidateId", "cases", "failed"}`, written by whoever ran
those tests. The gate reads numbers only, and only of its own candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.gate.reading import found_bytes
from planner.values.candidate import EVIDENCE_PARTS, Candidate, Evidence, EvidencePart
from planner.values.digest import digest
from planner.values.gate import Reason
from planner.values.reasons import RefusalSignal
from planner.wire.parse import parse_record

DEVICE = "device_receipts"


@dataclass(frozen=True, slots=True)
class Part:
    """What a file of evidence says: how many cases were run for a candidate, and how many of them failed."""

    candidate_id: str
    cases: int
    failed: int
    schema_version: str = "1.0"


def read_evidence(
    folder: Path | None, candidate: Candidate, device_receipts: int
) -> tuple[tuple[Evidence, ...], list[Reason]]:
    """Return the four parts in their order, and what is wrong with them.

    device_receipts  how many sound receipts of executed calls were handed in.
    """
    found: list[Evidence] = []
    reasons: list[Reason] = []
    for name in EVIDENCE_PARTS:
        if name == DEVICE:
            shown = f"{device_receipts} receipts, counts as planned" if device_receipts else "not evidenced"
            found.append(Evidence(name, detail=shown, cases=device_receipts))
            continue
        path = None if folder is None else folder / f"{name}.json"
        if path is None or not (path.exists() or path.is_symlink()):
            found.append(Evidence(name))
            continue
        try:
            data = found_bytes(path)
        except OSError:
            found.append(Evidence(name))
            reasons.append(Reason("receipt_unreadable", name))
            continue
        wrong = list(_problems(data, name, candidate))
        reasons += wrong
        found.append(Evidence(name) if wrong else _sound(name, data))
    return tuple(found), reasons


def _problems(data: bytes, name: str, candidate: Candidate) -> Iterator[Reason]:
    try:
        part = parse_record(Part, data)
    except RefusalSignal:
        yield Reason("receipt_unreadable", name)
        return
    if part.candidate_id != candidate.candidate_id:
        yield Reason("receipt_of_other_candidate", name)
    elif part.failed != 0 or part.cases < 1:
        yield Reason("evidence_failed", name)


def _sound(name: EvidencePart, data: bytes) -> Evidence:
    part = parse_record(Part, data)
    return Evidence(name, digest(data), f"{part.cases} cases, none failed", part.cases)
