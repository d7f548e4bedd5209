"""Results of an earlier run, by the digest of their cell: an unchanged cell is not run again.

The digest of a cell says what was run and nothing of what came of it. So a line is sealed, and a result is reused
only where everything it says of its cell is true; whatever else stands there is run again. A seal has no key: it
finds a line that was edited or cut, not one that somebody wrote on purpose. Keep the file where only the CI writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from planner.gate.cells import Cell
from planner.gate.codes import GATE_CODES
from planner.gate.engine import Given, Taken, Work
from planner.values.digest import digest
from planner.values.gate import CellResult
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.wire.dump import dump_record
from planner.wire.parse import parse_record

Run = Callable[[Iterable[Work]], Iterator[Given]]

_SEAL = b',"seal":"'
_SEALED = len(_SEAL) + 64 + len(b'"}')
_DIGEST = re.compile(rb'"digest":"([0-9a-f]{64})"')
_DOUBTED = -1


class Known(Protocol):
    """Results by the digest of their cell; a mapping is one."""

    def get(self, name: str, /) -> CellResult | None:
        """Return a result, None where there is none."""


class Earlier:
    """The JSON lines of an earlier run, of any length: what is held is where each line begins.

    A line whose seal does not hold is none, and its cell runs again. So are lines of one cell that contradict each
    other.
    """

    def __init__(self, path: Path) -> None:
        """Read the file once. Raises PlannerFault file_not_readable."""
        # A quarter of a digest tells a million cells apart; a line is compared with the whole of it when it is read.
        self._begins: dict[int, int] = {}
        try:
            self._lines: BinaryIO = path.open("rb")
            with path.open("rb") as lines:
                begin = 0
                for line in lines:
                    self._index(line, begin)
                    begin += len(line)
        except OSError:
            raise _unreadable() from None

    def __enter__(self) -> Self:
        """Hold the file open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._lines.close()

    def get(self, name: str, /) -> CellResult | None:
        """Return the result of a cell. Raises PlannerFault file_not_readable."""
        begin = self._begins.get(_short(name), _DOUBTED)
        if begin == _DOUBTED:
            return None
        try:
            result = _unsealed(self._line(begin))
        except OSError:
            raise _unreadable() from None
        return result if result is not None and result.digest == name else None

    def _index(self, line: bytes, begin: int) -> None:
        found = _DIGEST.search(line)
        if found is None or not _holds(line.rstrip(b"\n")):
            return
        short = _short(found[1])
        before = self._begins.setdefault(short, begin)
        if before not in (begin, _DOUBTED) and self._line(before).rstrip(b"\n") != line.rstrip(b"\n"):
            self._begins[short] = _DOUBTED

    def _line(self, begin: int) -> bytes:
        self._lines.seek(begin)
        return self._lines.readline()


def _short(name: bytes | str) -> int:
    return int(name[:16], 16)


def _unreadable() -> PlannerFault:
    return PlannerFault("file_not_readable", "the earlier results cannot be read")


def result_line(result: CellResult) -> bytes:
    """Return a result as one JSON line; `seal` is the sha256 of the line without it."""
    body = dump_record(result)
    return body[:-1] + _SEAL + digest(body).encode() + b'"}\n'


def _holds(line: bytes) -> bool:
    return line[-_SEALED:] == _SEAL + digest(line[:-_SEALED] + b"}").encode() + b'"}'


def _unsealed(line: bytes) -> CellResult | None:
    line = line.rstrip(b"\n")
    try:
        return parse_record(CellResult, line[:-_SEALED] + b"}") if _holds(line) else None
    except RefusalSignal:
        return None


def _is_of(result: CellResult, cell: Cell) -> bool:
    """Tell whether a result says of its cell what is true, and a verdict that goes with its reasons."""
    said = (result.sample_id, result.family, result.bundle_id, result.bundle_digest, result.tier)
    true = (cell.sample.id, cell.sample.family, cell.bundle_id, cell.bundle_digest, cell.tier)
    codes = {reason.code for reason in result.reasons}
    return said == true and result.verdict == ("block" if codes else "pass") and codes <= GATE_CODES.keys()


def with_earlier(cells: Iterable[Cell], earlier: Known, run: Run) -> Iterator[tuple[CellResult, bool]]:
    """Give each cell's result in order, and whether it was taken from the earlier run."""
    for given in run(_work(cells, earlier)):
        yield (given.result, True) if isinstance(given, Taken) else (given, False)


def _work(cells: Iterable[Cell], earlier: Known) -> Iterator[Work]:
    for cell in cells:
        found = earlier.get(cell.digest)
        yield cell if found is None or not _is_of(found, cell) else Taken(found)
