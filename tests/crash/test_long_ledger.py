"""A ledger of 20,000 messages is planned from like one of 1,000 (threats.md §1.2 row 8, P9)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.plan import Plan
from planner.values.turn import Message
from tests.crash.support import CHAT, FULL, said, synchronous
from tests.crash.toy_planner import plan_of
from tests.ledger.test_view import _counted

SMALL, LARGE = 1_000, 100_000 if FULL else 20_000
PAGE = 64


def build(path: Path, messages: int) -> Ledger:
    """Return an open ledger of about that many messages, four a turn, whose last page of turns is full."""
    with synchronous("normal", 1):
        ledger = Ledger.open(path)
        turns = -(-messages // 4 // PAGE) * PAGE
        # As many digits in both, so that as many turns fit.
        for number in range(10**5, 10**5 + turns):
            more = [Message(one.role, f"{one.id}b", one.text) for one in said(number, 200)]
            ledger.append(CHAT, f"t{number}", [*said(number, 200), *more], state="completed")
    return ledger


def plan(ledger: Ledger) -> None:
    """Plan with room for some forty turns."""
    assert isinstance(plan_of(ledger, CHAT, record=False, window=20_000), Plan)


def append(ledger: Ledger) -> None:
    """Append one turn; a turn of this name is not there."""
    ledger.append(CHAT, "new", said(10**6), state="completed")


def peak_bytes(call: Callable[[], object]) -> int:
    """Return how much memory of Python a call needs at most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, Ledger]:
    """A small ledger and a large one."""
    folder = tmp_path_factory.mktemp("long")
    return build(folder / "small", SMALL), build(folder / "large", LARGE)


def test_planning_does_not_grow_with_the_ledger(ledgers: tuple[Ledger, Ledger]) -> None:
    """Steps of SQLite's machine are those of the small one give or take a tenth, memory within a megabyte."""
    small, large = ledgers
    plan(small)  # what a first plan keeps for ever is no part of the comparison
    steps = [_counted(ledger, plan)[0] for ledger in ledgers]
    assert steps[1] <= steps[0] * 1.1, steps
    memory = [peak_bytes(lambda ledger=ledger: plan(ledger)) for ledger in (small, large)]  # type: ignore[misc]
    assert abs(memory[1] - memory[0]) < 2**20, memory
    print(f"steps {steps}, peak bytes {memory}")


def test_appending_does_not_grow_with_the_ledger(ledgers: tuple[Ledger, Ledger]) -> None:
    """An append needs the same steps, and the -wal stays below its bound after all of them."""
    steps = [_counted(ledger, append)[0] for ledger in ledgers]
    assert steps[1] <= steps[0] * 1.2, steps
    log = ledgers[1]._store.path.with_name("large-wal")
    assert log.stat().st_size < 64 * 2**20
