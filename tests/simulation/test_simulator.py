"""The deterministic simulator: power losses, failing calls, late answers, in one thread (threats.md §1.2 row 7)."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.support import FULL, tell
from tests.simulation.machine import Machine, Rates

SEEDS, OPERATIONS = (10_000, 300) if FULL else (40, 60)
# A short run draws its faults five times as often, so that it meets all kinds.
RATES = Rates() if FULL else Rates(power=0.05, error=0.03)
FOUND = (("20261130/8", 60), ("3/29", 60))
"""Seeds that found a fault once, with their number of operations."""


def simulate(folder: Path, seed: str, operations: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Counter[str]]:
    """Run one seed; return the digest of its log and what happened."""
    folder.mkdir()
    with monkeypatch.context() as patch:
        machine = Machine(folder / "ledger", seed, RATES, patch)
        try:
            digest = machine.run(operations)
        except BaseException:
            print(f"seed {seed} after {dict(machine.counts)} {machine.disk.injected}")
            raise
        finally:
            machine.disk.close()
    shutil.rmtree(folder)
    return digest, Counter(machine.counts) + Counter(machine.disk.injected)


def test_no_seed_loses_or_doubles_anything(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged survives every power loss; nothing is there twice or half; late summaries stay out."""
    tell(seed, "tests/simulation/test_simulator.py", PLANNER_FULL=int(FULL))
    total: Counter[str] = Counter()
    for number in range(SEEDS):
        total += simulate(tmp_path / str(number), f"{seed}/{number}", OPERATIONS, monkeypatch)[1]
    print(f"{SEEDS} seeds: {dict(sorted(total.items()))}")
    wanted = ("power", "lost", "faults", "forget sync", "plans", "answer accepted", "answer stale-source")
    assert [] == [name for name in wanted if not total[name]], "a run without these proves little"


def test_a_seed_gives_the_same_log_twice(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every choice comes from the seed: the same one gives the same events, another one others."""
    tell(seed, "tests/simulation/test_simulator.py")
    runs = [
        simulate(tmp_path / str(place), f"{seed}/{number}", OPERATIONS, monkeypatch)[0]
        for place, number in enumerate((0, 0, 1, 1, 2, 2))
    ]
    assert runs[::2] == runs[1::2]
    assert 3 == len(set(runs))


@pytest.mark.parametrize(("found", "operations"), FOUND)
def test_a_seed_that_found_a_fault_finds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, operations: int
) -> None:
    """Seeds of faults that are repaired."""
    simulate(tmp_path / "found", found, operations, monkeypatch)
