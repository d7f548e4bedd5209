"""Running cells: in this process, or over local processes. The driver is the only writer (design.md §10).

Cells are pure, so the engine may not matter: every engine gives the same results in the same order. A cell may run
twice where a worker was lost; its result is given once.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from planner.gate.cells import Cell
from planner.values.gate import CellResult
from planner.values.reasons import PlannerFault

Runner = Callable[[Cell], CellResult]
Opener = Callable[[], Runner]
"""Opens what cells need, once per process; it must be importable by name where processes are used."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A result that is there already; it only keeps its place in the order."""

    result: CellResult


Work = Cell | Taken
Given = CellResult | Taken
AHEAD = 4
"""Cells under way for each worker: enough to keep it busy, few enough that a million of them stream."""
LOSSES = 3
"""How many times the same cell may stand first in the queue when a worker is lost, before it is at fault."""
_runner: Runner | None = None


def run_here(work: Iterable[Work], opener: Opener) -> Iterator[Given]:
    """Run cells one by one in this process."""
    runner: Runner | None = None
    for one in work:
        if isinstance(one, Taken):
            yield one
            continue
        runner = runner or opener()
        yield runner(one)


def run_in_processes(work: Iterable[Work], opener: Opener, jobs: int) -> Iterator[Given]:
    """Run cells over `jobs` processes and give the results in the order of the cells.

    A pool that lost a process is made anew and the cells that had no result run again: none is lost and none is
    given twice. Raises PlannerFault worker_lost where the same cell takes its process with it again and again.
    """
    waiting = iter(work)
    queue: deque[_Queued] = deque()
    pool = _Pool(opener, jobs)
    losses = 0
    try:
        while True:
            queue.extend(_Queued(one) for one in islice(waiting, jobs * AHEAD - len(queue)))
            if not queue:
                return
            try:
                for one in queue:
                    pool.start(one)
                given = queue[0].given()
            except BrokenProcessPool:
                losses += 1
                if losses > LOSSES:
                    raise _lost(queue[0].work) from None
                pool.renew()
                for one in queue:
                    one.forget()
                continue
            queue.popleft()
            losses = 0
            yield given
    finally:
        pool.stop()


class _Queued:
    """One piece of work in the queue of the driver, with what a process was asked to make of it."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.future: Future[CellResult] | None = None

    def given(self) -> Given:
        """Return the result, waiting for it. Raises BrokenProcessPool where its process went."""
        if isinstance(self.work, Taken):
            return self.work
        assert self.future is not None
        return self.future.result()

    def forget(self) -> None:
        """Let go of what a lost pool cannot give any more; a result that is there stays."""
        if self.future is not None and not (self.future.done() and self.future.exception() is None):
            self.future = None


class _Pool:
    """A process pool that is made with the first cell and can be made anew."""

    def __init__(self, opener: Opener, jobs: int) -> None:
        self._opener, self._jobs = opener, jobs
        self._pool: ProcessPoolExecutor | None = None

    def start(self, one: _Queued) -> None:
        """Hand a cell to a process, once. Raises BrokenProcessPool."""
        if one.future is None and not isinstance(one.work, Taken):
            if self._pool is None:
                # A fork would copy threads of the tokenizer in an unknown state.
                self._pool = ProcessPoolExecutor(
                    self._jobs, mp_context=get_context("spawn"), initializer=_open, initargs=(self._opener,)
                )
            with _interrupts_later():
                one.future = self._pool.submit(_run, one.work)

    def renew(self) -> None:
        """Let a broken pool go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def stop(self) -> None:
        """End, without what has not begun."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back: a process that starts meanwhile never hears it, and the driver hears it after."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _lost(work: Work) -> PlannerFault:
    name = work.sample.id if isinstance(work, Cell) else work.result.sample_id
    return PlannerFault("worker_lost", f"a process ended {LOSSES + 1} times at or behind sample {name}")


def _open(opener: Opener) -> None:
    global _runner  # noqa: PLW0603 - one per worker process, set before its first cell
    # Ctrl-C reaches every process of the terminal; the driver alone ends the work.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _runner = opener()


def _run(cell: Cell) -> CellResult:
    if _runner is None:
        raise RuntimeError("a worker got a cell before it was opened")
    return _runner(cell)
