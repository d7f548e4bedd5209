"""Histories that come again: cut, grown, exported, over a boundary of retention, with what is in force in them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.adapters.ledger_files import export_turns, import_history, import_records, left_behind
from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message, MustPreserve, OpenItem, Turn, TurnState
from tests.adapters.histories import lines, plain

CANARY = "canary-7f3a"


def test_every_turn_before_a_cut_line_is_stored(tmp_path: Path) -> None:
    """R11: a file whose last line was cut gives all that stands before it, and the whole file gives the rest.

    A message that came late waits for the turns before it, which may be on that line.
    """
    data = lines(plain(4)).getvalue()
    with Ledger.open(tmp_path / "chat.db") as ledger:
        with pytest.raises(RefusalSignal, match="line 4: "):
            import_history(ledger, "c1", io.BytesIO(data[:-30]))
        assert plain(3) == list(ledger.turns("c1"))
        done = import_history(ledger, "c1", io.BytesIO(data))
        assert (4, 3) == (done.turns, done.known)
    first, second = plain(2)
    late = replace(first, messages=(*first.messages, Message("user", "late", "And?", sequence=9)))
    data = lines([late, second]).getvalue()
    with Ledger.open(tmp_path / "late.db") as ledger:
        with pytest.raises(RefusalSignal, match="line 2: "):
            import_history(ledger, "c1", io.BytesIO(data[:-30]))
        assert 2 == import_history(ledger, "c1", io.BytesIO(data)).turns
        assert [late, second] == list(ledger.turns("c1"))


def test_a_cancelled_turn_comes_as_its_terminal_record(tmp_path: Path) -> None:
    """Its words are not exported; id, place, state and what is in force on it are, and an import stores them (X37)."""
    with Ledger.open(tmp_path / "a") as ledger, Ledger.open(tmp_path / "b") as other:
        import_history(ledger, "c1", lines(plain(2)))
        mark = MustPreserve("C1", "No lead.")
        ledger.append(
            "c1", "x", [Message("user", "ux", CANARY)], must_preserve=[mark], open_items=[OpenItem("i1", "pending")]
        )
        ledger.cancel("c1", "x")
        ledger.append("c1", "y", [Message("user", "uy", "Lead is fine.")])
        exported = b"".join(export_turns(ledger, "c1"))
        assert CANARY.encode() not in exported
        for known in (0, 4):
            done = import_history(other, "c1", io.BytesIO(exported))
            assert (4, known, 0) == (done.turns, done.known, done.empty)
        assert list(ledger.turns("c1")) == list(other.turns("c1"))
        assert ledger.view("c1").constraints == other.view("c1").constraints != ()
        assert other.verify().sound


@pytest.mark.parametrize("state", ["cancelled", "superseded"])
def test_a_terminal_record_may_be_the_last_of_a_conversation(tmp_path: Path, state: TurnState) -> None:
    """Its sequence counts although no message has it: the head that is made again from the facts is the same."""
    with Ledger.open(tmp_path / "a") as ledger:
        import_history(ledger, "c1", lines([*plain(1), Turn("x", 9, state, ())]))
        assert (9, 2) == (ledger.head("c1").last_sequence, ledger.head("c1").turns)
        assert () == ledger.verify().problems
        assert ledger.verify(rebuild=True).rebuilt
        assert 9 == ledger.head("c1").last_sequence
        assert (10,) == ledger.append("c1", "y", [Message("user", "uy", "And?")]).sequences
        assert () == ledger.verify().problems


def test_a_withdrawn_constraint_of_a_cancelled_turn_can_be_imported(tmp_path: Path) -> None:
    """A later turn takes back what a cancelled one marked: the import of an export knows the mark."""
    with Ledger.open(tmp_path / "a") as ledger, Ledger.open(tmp_path / "b") as other:
        ledger.append("c1", "x", [Message("user", "ux", "No lead.")], must_preserve=[MustPreserve("C1", "No lead.")])
        ledger.cancel("c1", "x")
        ledger.append("c1", "y", [Message("user", "uy", "Lead is fine.")], supersedes=["C1"])
        import_history(other, "c1", io.BytesIO(b"".join(export_turns(ledger, "c1"))))
        assert () == ledger.view("c1").constraints == other.view("c1").constraints


def test_an_export_after_retention_can_be_imported_and_names_what_it_leaves(tmp_path: Path) -> None:
    """A constraint in force whose turn was purged is named, and a withdrawal of such a one stops no import (R146)."""
    with Ledger.open(tmp_path / "a") as ledger, Ledger.open(tmp_path / "b") as other:
        for number, turn in enumerate(plain(4, 0)):
            marks = [MustPreserve(f"C{number}", "No lead.")] if number < 2 else []
            taken_back = ["C1"] if number == 3 else []
            ledger.append("c1", turn.id, turn.messages, state="completed", must_preserve=marks, supersedes=taken_back)
        assert () == left_behind(ledger, "c1")
        ledger.retain("c1", 4, "30-days")
        import_history(other, "c1", io.BytesIO(b"".join(export_turns(ledger, "c1"))))
        assert ["t2", "t3"] == [turn.id for turn in other.turns("c1")]
        assert ("C0",) == left_behind(ledger, "c1")
        ledger.mark("c1", "t3", [MustPreserve("C0", "No lead.")])
        assert () == left_behind(ledger, "c1")
        ledger.withdraw("c1", "t3")
        assert "C0" in (left_behind(ledger, "c1") or ()), "a turn that was taken back carries nothing"
        ledger.branch("c1", "b", at_turn_id="t2")
        assert None is left_behind(ledger, "c1", "b")


def test_a_history_that_grew_is_imported_after_retention(tmp_path: Path) -> None:
    """The same file with more turns, over a boundary: what was purged stays so, the rest is taken (R146)."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        import_history(ledger, "c1", lines(plain(3)))
        ledger.retain("c1", 4, "30-days")
        done = import_history(ledger, "c1", lines(plain(5)))
        assert (4, 2, 1) == (done.turns, done.known, done.purged)
        assert plain(5)[1:] == list(ledger.turns("c1"))
        with pytest.raises(PlannerFault, match="used in another turn"):
            import_history(ledger, "c1", lines([replace(plain(1)[0], id="never-here")]))
        assert ledger.verify().sound


def test_old_records_that_were_purged_are_not_brought_back(tmp_path: Path) -> None:
    """Their ids are known, their words are gone: a file with them and newer ones is imported all the same."""
    trees = [{"id": f"r{at}", "role": "user" if at % 2 else "assistant", "source": "app", "text": CANARY}
             for at in range(1, 7)]  # fmt: skip
    data = [json.dumps(tree).encode() + b"\n" for tree in trees]
    with Ledger.open(tmp_path / "chat.db") as ledger:
        import_records(ledger, "c1", io.BytesIO(b"".join(data[:4])))
        ledger.retain("c1", 2, "30-days")
        done = import_records(ledger, "c1", io.BytesIO(b"".join(data)))
        assert (6, 4) == (done.records, done.known)
        assert ["r3", "r5"] == [turn.id for turn in ledger.turns("c1")]
        assert ledger.verify().sound


def test_an_open_turn_without_a_message_is_counted_and_left_out(tmp_path: Path) -> None:
    """There is nothing of it to store; a completed one is refused."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        done = import_history(ledger, "c1", lines([*plain(1, 0), Turn("o", 9, "open", ())]))
        assert (1, 1, ["t0"]) == (done.turns, done.empty, [turn.id for turn in ledger.turns("c1")])
        with pytest.raises(RefusalSignal, match="is empty, and the turn is new"):
            ledger.append("c1", "n", [], state="completed")
