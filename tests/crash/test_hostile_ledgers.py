"""H39 and H40 of threats.md §3: a cut log is a loss that is noticed, a flipped bit in a body is damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from tests.ledger.support import fill


def _code(path: Path) -> str:
    with pytest.raises(PlannerFault) as caught, Ledger.open(path) as ledger:
        list(ledger.turns("c"))
    return caught.value.code


def test_H39_a_log_cut_in_half_is_a_ledger_that_was_rolled_back(tmp_path: Path) -> None:
    """The file is sound to SQLite; only the anchor knows that acknowledged events are missing."""
    path = tmp_path / "ledger"
    ledger = Ledger.open(path)
    fill(ledger, 20)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger", "ledger-wal", "ledger-anchor"):
        data = (tmp_path / name).read_bytes()
        (copy / name).write_bytes(data[: len(data) // 2] if name == "ledger-wal" else data)
    ledger.close()
    assert "ledger_rolled_back" == _code(copy / "ledger")


def test_H40_one_flipped_bit_in_a_body_is_a_corrupt_ledger(tmp_path: Path) -> None:
    """A row is compared with its own digest when it is read, so no changed word is planned with."""
    path = tmp_path / "ledger"
    with Ledger.open(path) as ledger:
        fill(ledger, 20)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"question 7")
    data[place] ^= 1
    path.write_bytes(bytes(data))
    assert "ledger_corrupt" == _code(path)
