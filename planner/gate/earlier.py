"""Results of an earlier run, by the digest of their cell: an unchanged cell is not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from planner.gate.cells import Cell
from planner.values.gate import CellResult
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.wire.dump import dump_record
from planner.wire.parse import parse_record

Run = Callable[[Iterable[Cell]], Iterator[CellResult]]


def read_results(path: Path) -> dict[str, CellResult]:
    """Read the JSON lines of an earlier run; a line that is none is passed over and its cell runs again.

    Raises PlannerFault file_not_readable.
    """
    found: dict[str, CellResult] = {}
    try:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    result = parse_record(CellResult, line)
                except RefusalSignal:
                    continue
                found[result.digest] = result
    except OSError:
        raise PlannerFault("file_not_readable", "the earlier results cannot be read") from None
    return found


def result_line(result: CellResult) -> bytes:
    """Return a result as one JSON line."""
    return dump_record(result) + b"\n"


def with_earlier(cells: Iterable[Cell], earlier: dict[str, CellResult], run: Run) -> Iterator[tuple[CellResult, bool]]:
    """Give each cell's result in order, and whether it was taken from the earlier run."""
    known: list[tuple[int, CellResult]] = []
    count = 0

    def missing() -> Iterator[Cell]:
        nonlocal count
        for cell in cells:
            found = earlier.get(cell.digest)
            if found is None:
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
