"""Ledgers of past schemas open for ever, and the committed one is what its tool makes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.schema import migrations
from planner.ledger.stored import Active
from planner.values.constraint import Constraint
from planner.values.receipt import Removal
from planner.values.turn import Message
from tests.ledger.support import chat

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "fixtures" / "ledgers"


@pytest.mark.parametrize("name", sorted(path.name for path in STORED.glob("*.db")))
def test_a_ledger_of_a_past_schema_opens_and_goes_on(tmp_path: Path, name: str) -> None:
    """Its turns, constraints and borders read as they were written, it verifies, and new turns follow."""
    path = tmp_path / "ledger"
    shutil.copy(STORED / name, path)
    with Ledger.open(path) as ledger:
        assert (("desk", "old"), ("anchor_missing",)) == (ledger.conversations()[:2], ledger.warnings)
        view = ledger.view("desk")
        assert ("try", 2, ["t0", "t1", "t2", "t4", "t5", "t7"]) == (
            view.branch, view.generation, [turn.id for turn in view.turns],
        )  # fmt: skip
        assert ((2, 5), (), (Removal("turn/t3", "superseded"),)) == (tuple(view.pinned), view.constraints, view.hidden)
        assert "Question one?" == view.turns[1].messages[0].text
        assert {"q": "hall", "limit": 3} == view.turns[3].messages[1].tool_calls[0].arguments
        assert [("Question 1?", 1), ("Question one?", 2)] == [
            (entry.text, entry.version) for entry in ledger.versions("desk", "u1")
        ]
        assert ["t0", "t1", "t2", "t3", "t4", "t5", "t6"] == [turn.id for turn in ledger.turns("desk", branch="main")]
        assert (["t2"], 1) == ([turn.id for turn in ledger.view("old").turns], ledger.view("old").boundary)
        assert b"Answer briefly." in (ledger.policy("desk") or b"")
        ledger.append("desk", "t7", [Message("assistant", "a7", "done")], state="completed")
        ledger.withdraw("desk", "t5")
        ledger.append("desk", "t8", chat(8), state="completed")
        assert (Constraint("C1", "t4", "Only read the selected files."),) == ledger.view("desk").constraints
        assert () == ledger.verify().problems
        if "bolts" in ledger.conversations():
            assert ["6"] == [one.value for one in ledger.resolutions("bolts")]
            assert ["fact_resolved"] == [one.cause for one in ledger.view("bolts", active=Active("v1")).stale]


def test_there_is_one_stored_ledger_a_schema() -> None:
    """Every schema has its file, so that no migration is ever untried."""
    assert [f"schema_{number}.db" for number in range(1, len(migrations()) + 1)] == sorted(
        path.name for path in STORED.glob("*.db")
    )


def test_the_stored_ledger_is_what_its_tool_makes() -> None:
    """Row by row, with salts from a counter; run tools/ledger_fixture/make.py where the schema is still unreleased."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "ledger_fixture" / "make.py"), "--check"],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert ("", 0) == (done.stderr, done.returncode)


def test_migrations_are_numbered_without_a_gap() -> None:
    """A file of the folder is a schema, in the order of its number."""
    names = sorted(path.name for path in (ROOT / "planner" / "ledger" / "migrations").glob("*.sql"))
    assert [f"{number:04}" for number in range(1, len(names) + 1)] == [name[:4] for name in names]
