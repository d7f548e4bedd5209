"""What a platform does to an app between two calls, on a real ledger and in real processes (R181, R208, X11, X12)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.turn import Message
from tests.compactor.support import CHAT as SUMMARISED
from tests.compactor.support import Script, compactor, fill, kept_summaries, kept_turns, plan, toy
from tests.compactor.support import request as wanted
from tests.gate import killed_app
from tests.gate.killed_app import CHAT, request, said
from tests.support.toy import ToyBundle

ROOT = Path(__file__).resolve().parents[2]
WIDE, TIGHT = 2_000, 420
TIGHT_SUMMARY = 2_200
SWITCHED = 1_150
"""Tokens of the other bundle in which the last two turns fit beside the summary, and all eight turns do not."""


def app(path: Path, window: int, what: str) -> dict[str, Any]:
    """Let an app plan in a process of its own, and kill it while it has the ledger open."""
    command = [sys.executable, "-m", "tests.gate.killed_app", str(path), "reference", str(window), what]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.kill()
        child.wait()
    assert child.returncode != 0, "it ended by itself"
    told: dict[str, Any] = json.loads(line)
    return told


def planned(path: Path, window: int = TIGHT, bundle: str = "reference") -> dict[str, Any]:
    """Open the ledger anew in this process, plan, and close it."""
    with Ledger.open(path) as ledger:
        return said(Planner(bundle).ledger_conversation(ledger, CHAT).plan(request(bundle, window)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger that an app has written and closed."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        killed_app.write(ledger)
    return tmp_path / "chat.db"


def test_life_process_rebuild(tmp_path: Path) -> None:
    """Killed with SIGKILL while the ledger was open: the next process plans the same ids under the same generation."""
    path = tmp_path / "chat.db"
    before = app(path, TIGHT, "write")
    after = app(path, TIGHT, "read")
    assert before == after
    assert before == planned(path)
    assert 0 < len([key for key in before["kept"] if key.startswith("turn/")]) < killed_app.TURNS


def test_life_rotation(path: Path) -> None:
    """A rotation closes the screen and opens it again: no new generation, no other prompt (X11, X12)."""
    with Ledger.open(path) as ledger:
        generation = ledger.head(CHAT).generation
    first = planned(path)
    for _ in range(3):
        with Ledger.open(path) as ledger:
            assert generation == ledger.head(CHAT).generation
        assert first == planned(path)
    with Ledger.open(path) as ledger:
        assert generation < ledger.new_generation(CHAT), "the other direction: a new generation is told apart"
    assert first["ids"] == planned(path)["ids"]
    assert first["generation"] < planned(path)["generation"]


def test_life_background_restore(path: Path) -> None:
    """An answer that comes back after a restore still counts; after a resend its generation is gone."""
    with Ledger.open(path) as ledger:
        begun = ledger.head(CHAT).generation
        ledger.append(CHAT, "t9", (Message("user", "u9", "And lift 9?"),), generation=begun)
    with Ledger.open(path) as ledger:  # in the background meanwhile, and back
        late = Message("assistant", "a9", "It is on floor 9.")
        ledger.append(CHAT, "t9", (late,), state="completed", generation=begun)
        assert "turn/t9" in said(Planner("reference").ledger_conversation(ledger, CHAT).plan(
            request("reference", WIDE)))["kept"]  # fmt: skip
        now = ledger.resend(CHAT, "t9")
        assert begun < now
        with pytest.raises(PlannerFault, match="stale_generation"):
            ledger.append(CHAT, "late", (late,), generation=begun)
    kept = planned(path, WIDE)
    assert (now, False) == (kept["generation"], "turn/t9" in kept["kept"])


def test_life_offline_model_switch(path: Path) -> None:
    """The other bundle of the device counts anew by its own tokenizer; ledger and generation stay as they are."""
    with Ledger.open(path) as ledger:
        turns = tuple(ledger.turns(CHAT))
        asked = request(toy().bundle_id, 4 * TIGHT)
        ours = Planner("reference").ledger_conversation(ledger, CHAT)
        theirs = toy().ledger_conversation(ledger, CHAT)
        first, other = ours.plan(request("reference", TIGHT)), theirs.plan(asked)
        back = ours.plan(request("reference", TIGHT))
        assert turns == tuple(ledger.turns(CHAT))
    assert isinstance(first, Plan)
    assert isinstance(other, Plan)
    assert isinstance(back, Plan)
    assert first.ids == back.ids
    assert first.receipt.generation == other.receipt.generation == back.receipt.generation
    assert first.receipt.bundle_digest == back.receipt.bundle_digest != other.receipt.bundle_digest
    assert toy().encoder().bundle.manifest.digest == other.receipt.bundle_digest
    # Counted afresh: what a planner that never saw the first bundle gets from the same ledger.
    with Ledger.open(path) as ledger:
        alone = Planner(ToyBundle(context_tokens=200_000)).ledger_conversation(ledger, CHAT).plan(asked)
    assert isinstance(alone, Plan)
    assert (alone.ids, alone.account) == (other.ids, other.account)


def test_R181_lifecycle_survival(tmp_path: Path) -> None:
    """Rebuild, rotation, restore and model switch keep ledger, generation and summary; what changes them says so."""
    path = tmp_path / "chat.db"
    with Ledger.open(path) as ledger:
        fill(ledger, 8)
        (done,) = compactor(ledger, tail_turns=2).run(Script())
        assert isinstance(done, Saved)
        first = plan(ledger, wanted(TIGHT_SUMMARY))
    assert ["t6", "t7"] == kept_turns(first)
    assert [done.summary_id] == kept_summaries(first)
    for _ in ("rebuild", "rotation", "restore"):
        with Ledger.open(path) as ledger:
            again = plan(ledger, wanted(TIGHT_SUMMARY))
            assert isinstance(first, Plan)
            assert isinstance(again, Plan)
            assert (first.ids, first.receipt) == (again.ids, again.receipt)
    with Ledger.open(path) as ledger:
        switched = (
            Planner("reference")
            .ledger_conversation(ledger, SUMMARISED)
            .plan(replace(wanted(SWITCHED), model_bundle_id="reference"))
        )
        assert [done.summary_id] == kept_summaries(switched), "a summary is text: another tokenizer may read it"
        # Correctly invalidated: a source of the summary changed while the app was away.
        ledger.edit(SUMMARISED, "u0", Message("user", "u0", "Please use paint 17 for frame 0."))
        stale = plan(ledger, wanted(TIGHT_SUMMARY))
        assert [] == kept_summaries(stale)
        assert 1 == len(ledger.invalidations(SUMMARISED))
