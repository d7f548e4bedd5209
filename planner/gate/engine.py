"""Running cells: in this process, or over local processes. The driver is the only writer (design.md §10).

Cells are pure, so the engine may not matter: every engine gives the same results in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context

from planner.gate.cells import Cell
from planner.values.gate import CellResult

Runner = Callable[[Cell], CellResult]
Opener = Callable[[], Runner]
"""Opens what cells need, once per process; it must be importable by name where processes are used."""

_AHEAD = 4
_runner: Runner | None = None


def run_here(cells: Iterable[Cell], opener: Opener) -> Iterator[CellResult]:
    """Run cells one by one in this process."""
    runner = opener()
    for cell in cells:
        yield runner(cell)


def run_in_processes(cells: Iterable[Cell], opener: Opener, jobs: int) -> Iterator[CellResult]:
    """Run cells over `jobs` processes and give the results in the order of the cells.

    At most `jobs` x 4 cells are under way, so a million of them stream. A pool that lost a process is made anew and
    the cells that had no result run again: none is lost and none is given twice.
    """
    waiting = iter(cells)
    queue: deque[tuple[Cell, Future[CellResult] | None]] = deque()
    pool = _pool(opener, jobs)
    try:
        while True:
            for cell in islice(waiting, jobs * _AHEAD - len(queue)):
                queue.append((cell, pool.submit(_run, cell)))
            if not queue:
                return
            try:
                head, future = queue[0]
                result = (future or pool.submit(_run, head)).result()
            except BrokenProcessPool:
                pool.shutdown(wait=False)
                pool = _pool(opener, jobs)
                queue = deque((cell, _resubmitted(pool, cell, given)) for cell, given in queue)
                continue
            queue.popleft()
            yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _resubmitted(pool: ProcessPoolExecutor, cell: Cell, future: Future[CellResult] | None) -> Future[CellResult]:
    if future is not None and future.done() and future.exception() is None:
        return future
    return pool.submit(_run, cell)


def _pool(opener: Opener, jobs: int) -> ProcessPoolExecutor:
    # A fork would copy threads of the tokenizer in an unknown state.
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_open, initargs=(opener,))


def _open(opener: Opener) -> None:
    global _runner  # noqa: PLW0603 - one per worker process, set before its first cell
    _runner = opener()


def _run(cell: Cell) -> CellResult:
    if _runner is None:
        raise RuntimeError("a worker got a cell before it was opened")
    return _runner(cell)
