"""Results of an earlier run, by the digest of their cell: an unchanged cell is not run again.

The digest of a cell says what was run and nothing of what came of it. So a line is sealed, and a result is reused
only where everything it says of its cell is true; whatever else stands there is run again. A seal has no key: it
finds a line that was edited or cut, not one that somebody wrote on purpose. Keep the file where only the CI writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from planner.gate.cells import Cell
from planner.gate.codes import GATE_CODES
from planner.values.digest import digest
from planner.values.gate import CellResult
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.wire.dump import dump_record
from planner.wire.parse import parse_record

Run = Callable[[Iterable[Cell]], Iterator[CellResult]]


_SEAL = b',"seal":"'
_SEALED = len(_SEAL) + 64 + len(b'"}')


def read_results(path: Path) -> dict[str, CellResult]:
    """Read the JSON lines of an earlier run; a line whose seal does not hold is none, and its cell runs again.

    So are lines of one cell that contradict each other. Raises PlannerFault file_not_readable.
    """
    found: dict[str, CellResult] = {}
    doubted: set[str] = set()
    try:
        with path.open("rb") as lines:
            for line in lines:
                result = _unsealed(line.rstrip(b"\n"))
                if result is None:
                    continue
                if found.setdefault(result.digest, result) != result:
                    doubted.add(result.digest)
    except OSError:
        raise PlannerFault("file_not_readable", "the earlier results cannot be read") from None
    return {name: result for name, result in found.items() if name not in doubted}


def result_line(result: CellResult) -> bytes:
    """Return a result as one JSON line; `seal` is the sha256 of the line without it."""
    body = dump_record(result)
    return body[:-1] + _SEAL + digest(body).encode() + b'"}\n'


def _unsealed(line: bytes) -> CellResult | None:
    body, seal = line[:-_SEALED] + b"}", line[-_SEALED:]
    if seal != _SEAL + digest(body).encode() + b'"}':
        return None
    try:
        return parse_record(CellResult, body)
    except RefusalSignal:
        return None


def _is_of(result: CellResult, cell: Cell) -> bool:
    """Tell whether a result says of its cell what is true, and a verdict that goes with its reasons."""
    said = (result.sample_id, result.family, result.bundle_id, result.bundle_digest, result.tier)
    true = (cell.sample.id, cell.sample.family, cell.bundle_id, cell.bundle_digest, cell.tier)
    codes = {reason.code for reason in result.reasons}
    return said == true and result.verdict == ("block" if codes else "pass") and codes <= GATE_CODES.keys()


def with_earlier(cells: Iterable[Cell], earlier: dict[str, CellResult], run: Run) -> Iterator[tuple[CellResult, bool]]:
    """Give each cell's result in order, and whether it was taken from the earlier run."""
    known: list[tuple[int, CellResult]] = []
    count = 0

    def missing() -> Iterator[Cell]:
        nonlocal count
        for cell in cells:
            found = earlier.get(cell.digest)
            if found is None or not _is_of(found, cell):
                yield cell
            else:
                known.append((count, found))
            count += 1

    given = 0
    for result in run(missing()):
        while known and known[0][0] == given:
            yield known.pop(0)[1], True
            given += 1
        yield result, False
        given += 1
    while known:
        yield known.pop(0)[1], True
