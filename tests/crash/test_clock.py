"""No order, id or receipt depends on a clock (threats.md §1.2 row 10, P7)."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.ledger import transaction
from planner.ledger.ledger import Ledger
from planner.wire.dump import dump_receipt
from tests.crash.support import FULL, tell
from tests.crash.toy_planner import chat_of, request_of
from tests.ledger.summary_support import dump
from tests.ledger.test_model import Walk

ORDERS = 500 if FULL else 5
STEPS = 12
CHAT = "c"


def _from(start: float, step: float = 0.001) -> Callable[[], Iterator[float]]:
    return lambda: itertools.count(start, step)


# Name -> (zone, seconds of successive calls).
CLOCKS: dict[str, tuple[str, Callable[[], Iterator[float]]]] = {
    "now": ("UTC", _from(1_796_000_000)),
    "1970": ("UTC", _from(0)),
    "after 2038": ("UTC", _from(2**31 + 5)),
    "backwards an hour at each call": ("UTC", _from(1_796_000_000, -3_600)),
    "summer time begins": ("Europe/Berlin", _from(1_774_745_999.5)),
    "leap second": ("UTC", _from(1_483_228_799.9, 0)),
    "no data for the zone": ("Nowhere/Missing", _from(1_796_000_000)),
    "before 1970": ("America/New_York", _from(-86_400)),
}


def history(path: Path, seed: str, clock: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Do one random history and a plan under a clock; return every row of the file and the receipt."""
    zone, seconds = CLOCKS[clock]
    with monkeypatch.context() as patch:
        ticking = seconds()
        patch.setattr(time, "time", lambda: next(ticking))
        patch.setattr(time, "time_ns", lambda: int(next(ticking) * 1e9))
        patch.setenv("TZ", zone)
        time.tzset()
        salts = random.Random(f"salts/{seed}")
        patch.setattr(transaction.secrets, "token_bytes", salts.randbytes)
        with Ledger.open(path) as ledger:
            walk = Walk(ledger, random.Random(seed))
            walk._new()
            for _ in range(STEPS):
                walk.step()
            answer = chat_of(ledger, CHAT).plan(request_of(now="2026-11-30T08:00:00Z"))
    time.tzset()
    return {"rows": dump(path), "receipt": dump_receipt(answer.receipt), "ids": tuple(getattr(answer, "ids", ()))}


def test_every_clock_gives_the_same_rows_and_the_same_receipt(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same calls under eight clocks: every row of every table, the ids and the receipt are equal, bit by bit."""
    tell(seed, "tests/crash/test_clock.py", PLANNER_FULL=int(FULL))
    for order in range(ORDERS):
        found = {
            clock: history(tmp_path / f"{order}-{place}", f"{seed}/{order}", clock, monkeypatch)
            for place, clock in enumerate(CLOCKS)
        }
        wrong = [clock for clock, result in found.items() if result != found["now"]]
        assert [] == wrong
    assert os.environ.get("TZ") != "Nowhere/Missing"


def test_a_row_that_states_the_time_is_caught(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug of P7: a fact that holds the wall clock makes the rows differ between clocks."""
    record = transaction.Transaction.record

    def stamped(self: Any, kind: str, /, **fields: Any) -> int:
        if kind == "turn":
            fields["actor"] = f"{time.time():.0f}"
        return record(self, kind, **fields)

    monkeypatch.setattr(transaction.Transaction, "record", stamped)
    rows = [history(tmp_path / clock, f"{seed}/0", clock, monkeypatch)["rows"] for clock in ("now", "1970")]
    assert rows[0] != rows[1]
