"""Damage beside the bit flips and cuts of tests/ledger/test_upkeep.py: -wal, -shm, header, pages (row 9, P6)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger import checks
from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from tests.crash.support import CAUGHT, FULL, check_alone, tell
from tests.ledger.support import fill
from tests.ledger.test_upkeep import _all, _copy, _rich

CODES = {
    "ledger_corrupt", "ledger_rolled_back", "ledger_forked", "ledger_foreign", "ledger_newer", "ledger_io",
}  # fmt: skip
TIMES = {"flip": 200, "cut": 200, "header": 100, "pages": 100, "shm": 100} if FULL else dict.fromkeys(
    ("flip", "cut", "header", "pages", "shm"), 12
)  # fmt: skip


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, Path, object]:
    """Return a ledger with a full -wal, as files in a folder, a place for copies, and what it says."""
    path = tmp_path / "ledger"
    ledger = Ledger.open(path)
    _rich(ledger)
    fill(ledger, 1, conversation="d")
    ledger._store.checkpoint()
    fill(ledger, 6, conversation="d", start=1)
    kept = _copy(path, tmp_path / "kept")
    whole = _all(ledger)
    ledger.close()
    return kept, tmp_path / "copy", whole


def flip(path: Path, rng: random.Random) -> None:
    """Flip one bit of the -wal."""
    log = path.with_name("ledger-wal")
    data = bytearray(log.read_bytes())
    place = rng.randrange(len(data) * 8)
    data[place // 8] ^= 1 << place % 8
    log.write_bytes(data)
    path.with_name("ledger-shm").unlink()


def cut(path: Path, rng: random.Random) -> None:
    """Cut the -wal anywhere."""
    log = path.with_name("ledger-wal")
    data = log.read_bytes()
    log.write_bytes(data[: rng.randrange(len(data))])
    path.with_name("ledger-shm").unlink()


def header(path: Path, rng: random.Random) -> None:
    """Write another byte into the first hundred of the file."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(100)
    data[place] = (data[place] + rng.randrange(1, 256)) % 256
    path.write_bytes(data)


def pages(path: Path, rng: random.Random) -> None:
    """Swap two pages of the file."""
    data = path.read_bytes()
    count = len(data) // 4096
    first, second = sorted(rng.sample(range(1, count), 2))
    parts = [data[number * 4096 : (number + 1) * 4096] for number in range(count)]
    parts[first], parts[second] = parts[second], parts[first]
    path.write_bytes(b"".join(parts))


def shm(path: Path, rng: random.Random) -> None:
    """Fill the -shm with what is none, cut it, or take it away: it is made again from the -wal."""
    index = path.with_name("ledger-shm")
    choice = rng.randrange(3)
    if choice == 0:
        index.unlink()
    else:
        index.write_bytes(rng.randbytes(32_768) if choice == 1 else b"")


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip, "cut": cut, "header": header, "pages": pages, "shm": shm,
}  # fmt: skip


def answer(kept: Path, place: Path, damage: str, rng: random.Random) -> tuple[str, Any]:
    """Return how a damaged copy is answered: a code, or what it says."""
    copy = _copy(kept, place)
    DAMAGES[damage](copy, rng)
    try:
        with Ledger.open(copy) as ledger:
            report = ledger.verify()
            if not report.sound:
                return report.problems[0][0], None
            return "sound", _all(ledger)
    except PlannerFault as fault:
        check_alone(fault)
        return fault.code, None


def check_damage(damaged: tuple[Path, Path, object], damage: str, seed: object) -> Counter[str]:
    """Damage copies and assert that each is named, or says what the whole one says."""
    kept, place, whole = damaged
    found: Counter[str] = Counter()
    for number in range(TIMES[damage]):
        code, said = answer(kept, place, damage, random.Random(f"{seed}/{damage}/{number}"))
        found[code] += 1
        assert code in CODES or (code == "sound" and said == whole), (damage, number, code)
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_or_changes_no_answer(damaged: tuple[Path, Path, object], damage: str, seed: int) -> None:
    """Any damage of file, -wal or -shm: a code, or exactly the same answers; never others."""
    tell(seed, "tests/crash/test_damage.py", PLANNER_FULL=int(FULL))
    found = check_damage(damaged, damage, seed)
    print(damage, dict(found))
    if damage == "shm":
        assert {"sound"} == set(found), "the -shm is made again from the -wal"
    elif damage != "header":
        assert found.total() > found["sound"], "nothing was damaged"


def test_an_index_with_entries_of_another_is_found(damaged: tuple[Path, Path, object]) -> None:
    """SQLite does not count the entries of a partial index: `verify` does, for views read hidden turns by one."""
    kept, place, whole = damaged
    other = apsw.Connection(str(_copy(kept, place)))
    roots = dict(other.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").fetchall())
    other.close()
    for name in ("message_unclassified", "turn_hidden"):
        for stranger in ("message", "message_id", "turn", "turn_id"):
            copy = _copy(kept, place)
            data = bytearray(copy.read_bytes())
            first, second = (slice((roots[one] - 1) * 4096, roots[one] * 4096) for one in (name, stranger))
            data[first], data[second] = data[second], data[first]
            copy.write_bytes(data)
            try:
                with Ledger.open(copy) as ledger:
                    assert not ledger.verify().sound or whole == _all(ledger), (name, stranger)
            except PlannerFault as fault:
                check_alone(fault)


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_ledger_that_does_not_look_at_its_anchor_is_caught(
    damaged: tuple[Path, Path, object], damage: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug of P6: SQLite calls a ledger sound that lost its tail, and without the anchor so does everything."""
    from planner.ledger import verify

    monkeypatch.setattr(checks, "check_anchor", lambda *_: None)
    monkeypatch.setattr(verify, "check_anchor", lambda *_: None)
    with pytest.raises(CAUGHT):
        check_damage(damaged, damage, seed)
