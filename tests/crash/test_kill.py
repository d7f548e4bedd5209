"""A writer that is killed at any moment loses nothing that it acknowledged (threats.md §1.2 row 1, P1)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from planner.ledger.store import Store
from tests.crash.support import (
    CAUGHT,
    FULL,
    check_after,
    forked,
    kill,
    last_number,
    read_all,
    synchronous,
    tell,
    write_forever,
)

KILLS = 500 if FULL else 12
SIZES = (400, 4096)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that is to be killed is made by fork")


def kill_once(path: Path, rng: random.Random, size: int) -> tuple[int, int]:
    """Let a child write, kill it after a random number of acknowledgements and a random while; check what is left.

    Returns how many turns were acknowledged and how many were found.
    """
    child, reading = forked(lambda out: write_forever(path, out, size))
    seen = b""
    wanted = rng.randrange(1, 25)
    while seen.count(b"\n") < wanted:
        got = os.read(reading, 4096)
        assert got, "the writer ended by itself"
        seen += got
    # A few more microseconds of spinning land the kill inside a write, not only between two of them.
    for _ in range(rng.randrange(20_000)):
        pass
    assert 9 == kill(child), "the writer ended by itself"
    acknowledged = last_number(seen + read_all(reading))
    return acknowledged + 1, check_after(path, acknowledged, size)


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path, seed: int) -> None:
    """Half of the writers have synchronous FULL, half NORMAL: a kill is no power loss, so neither loses a row."""
    tell(seed, "tests/crash/test_kill.py", PLANNER_FULL=int(FULL))
    rng = random.Random(seed)
    acknowledged = found = 0
    for number in range(KILLS):
        path, size = tmp_path / f"ledger-{number}", SIZES[number // 2 % 2]
        with synchronous(*(("normal", 1) if number % 2 else ("full", 2))):
            one, two = kill_once(path, rng, size)
        acknowledged, found = acknowledged + one, found + two
        for left in tmp_path.glob(f"{path.name}*"):
            left.unlink()
    print(f"{KILLS} kills, {acknowledged} acknowledged, {found} found, 0 lost")
    assert acknowledged >= KILLS


def test_an_acknowledgement_before_the_commit_is_caught(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug of P1: what is kept back and committed with a later write is lost by a kill, and the row sees it."""
    commit = Store._commit

    def late(self: Store, tx: object) -> None:
        self.fail("before_commit")
        if tx.event % 4 == 0:  # type: ignore[attr-defined]
            tx.connection.execute("ROLLBACK")  # type: ignore[attr-defined]
            return
        commit(self, tx)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "_commit", late)
    with pytest.raises(CAUGHT):
        kill_once(tmp_path / "ledger", random.Random(seed), 400)
