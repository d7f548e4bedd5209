"""Which platforms were looked at again for a candidate, as a file says it: `planner gate run --integration`.

Such a file is the word of whoever wrote it. The gate repeats it as checked or not checked and proves nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.values.candidate import Candidate
from planner.values.gate import Reason
from planner.values.integration import RECHECK, PlatformCheck
from planner.values.reasons import RefusalSignal
from planner.wire.parse import parse_record


@dataclass(frozen=True, slots=True)
class Integration:
    """The file: a candidate and its platforms."""

    candidate_id: str
    platforms: tuple[PlatformCheck, ...]
    schema_version: str = "1.0"


def read_integration(path: Path, candidate: Candidate) -> tuple[tuple[PlatformCheck, ...], list[Reason]]:
    """Return the platforms, and why the file does not count; then it has none."""
    try:
        found = parse_record(Integration, path.read_bytes())
    except (OSError, RefusalSignal):
        return (), [Reason("receipt_unreadable", path.name)]
    wrong = list(_problems(found, candidate, path.name))
    return (() if wrong else found.platforms), wrong


def _problems(found: Integration, candidate: Candidate, name: str) -> Iterator[Reason]:
    known = {item.id for item in RECHECK}
    named = [one.platform for one in found.platforms]
    if found.candidate_id != candidate.candidate_id:
        yield Reason("receipt_of_other_candidate", name)
    elif len(set(named)) != len(named) or not all(
        one.platform.strip() and one.documentation.strip() and set(one.checked) <= known for one in found.platforms
    ):
        yield Reason("receipt_unreadable", name)
