"""Cells by the thousand that cost nothing, and workers that can be found and killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from planner.gate.cells import Cell
from planner.gate.engine import Runner
from planner.values.gate import CellResult, Reason
from tests.gate.gate_support import candidate, sample


def cells(count: int) -> Iterator[Cell]:
    """Yield so many cells of one small sample, each for a bundle of other limits."""
    made, one = candidate(), sample()
    for number in range(count):
        yield Cell(one, "reference", made.bundle_digests[0], f"{number % 3}k", made, str(number))


def cheap(cell: Cell) -> CellResult:
    """Return what a runner might, without planning; every fiftieth cell blocks."""
    wrong = (Reason("outcome_differs", cell.limits),) if int(cell.limits) % 50 == 49 else ()
    return CellResult(
        cell.digest, cell.sample.id, cell.sample.family, cell.bundle_id, cell.bundle_digest, cell.tier,
        "block" if wrong else "pass", "accepted", wrong,
    )  # fmt: skip


def open_cheap() -> Runner:
    """Open a runner that does nothing."""
    return cheap


def open_known(folder: str) -> Runner:
    """Open a runner that leaves its process's number in a folder, and takes a little while."""
    Path(folder, str(os.getpid())).touch()

    def run(cell: Cell) -> CellResult:
        time.sleep(0.01)
        return cheap(cell)

    return run


def open_deadly() -> Runner:
    """Open a runner that dies of one of its cells."""

    def run(cell: Cell) -> CellResult:
        if cell.limits == "3":
            os.kill(os.getpid(), signal.SIGKILL)
        return cheap(cell)

    return run
