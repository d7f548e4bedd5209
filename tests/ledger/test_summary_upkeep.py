"""What verify finds on the summary side, what rebuild makes again, what a view costs, what a failure tells."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from planner.ledger.ledger import Ledger
from planner.values.turn import Message
from tests.ledger.summary_support import (
    ACTIVE,
    CHAT,
    current_ids,
    deliver,
    dump,
    edit,
    fill,
    freeze,
    plan_of,
    summary_of,
)
from tests.ledger.test_save_failpoints import POINTS, Cut

CANARY = "CANARY-plum-orbit"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A ledger with five turns and summaries of every kind: current, replaced, stale, late, of a branch."""
    with Ledger.open(path) as opened:
        fill(opened, 1, 2, 3, 4, 5)
        plan = freeze(opened, "p1", ("t1", "t2"), ("t4", "t5"))
        deliver(opened, summary_of(plan, "s1"))
        deliver(opened, summary_of(plan, "s2", 1))
        deliver(opened, summary_of(freeze(opened, "p2", ("t1", "t3")), "s3"))
        late = summary_of(freeze(opened, "p3", ("t4", "t5")), "s4")
        edit(opened, 5)
        deliver(opened, late)
        opened.branch(CHAT, "b2", at_turn_id="t4")
        opened.switch(CHAT, "b2")
        deliver(opened, summary_of(freeze(opened, "p4", ("t4", "t4")), "s5"))
        opened.save_receipt(CHAT, b'{"planId": "q1"}', generation=2)
        yield opened


def damage(path: Path, *statements: str) -> None:
    """Change the file behind the ledger's back, with its triggers out of the way."""
    connection = apsw.Connection(str(path))
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM active_run WHERE covers_from = 0", "active summaries"),
        ("UPDATE active_run SET covers_to = covers_to + 1", "active summaries"),
        ("DELETE FROM active_plan", "active plan"),
        ("UPDATE active_plan SET plan = (SELECT min(event) FROM plan)", "active plan"),
        ("DELETE FROM summary_source WHERE position = 1", "sources of the summary"),
        ("UPDATE summary_source SET version = 7 WHERE position = 0", "sources of the summary"),
        ("UPDATE receipt SET generation = 1", "receipt of conversation"),
        ("UPDATE summary SET status = 'accepted' WHERE id = 's4'", "has no text"),
        ("UPDATE plan SET generation = 9", "plan of event"),
    ],
)
def test_verify_names_what_was_changed_behind_it(ledger: Ledger, path: Path, statement: str, named: str) -> None:
    """A pointer, an index row, a receipt or a version that was changed is found and named by numbers."""
    assert () == ledger.verify().problems
    damage(path, statement)
    found = [where for _, where in ledger.verify().problems]
    assert any(named in where for where in found), found


def test_rebuild_makes_the_pointers_again(ledger: Ledger, path: Path) -> None:
    """The pointers are derived: from the facts alone they come back as they were."""
    before = {name: dump(path)[name] for name in ("active_run", "active_plan")}
    damage(path, "DELETE FROM active_run", "DELETE FROM active_plan")
    assert () == ledger.verify(rebuild=True).problems
    assert before == {name: dump(path)[name] for name in ("active_run", "active_plan")}


def test_rebuild_makes_the_pointers_again_after_retention(ledger: Ledger, path: Path) -> None:
    """Retention takes the words of old versions, and what the pointer must be does not hang on them."""
    ledger.switch(CHAT, "main")
    ledger.retain(CHAT, next(turn for turn in ledger.turns(CHAT) if turn.id == "t4").sequence, "policy-30-days")
    assert ["s3"] == current_ids(ledger)
    before = dump(path)["active_run"]
    damage(path, "DELETE FROM active_run")
    assert () == ledger.verify(rebuild=True).problems
    assert before == dump(path)["active_run"]


def _steps(ledger: Ledger) -> int:
    """Count the steps of SQLite's machine that a view takes."""
    connection, steps = ledger._store.connection(), []
    connection.set_progress_handler(lambda: bool(steps.append(1)), 10)
    ledger.view(CHAT, active=ACTIVE)
    connection.set_progress_handler(None)
    return len(steps) * 10


def test_versions_of_another_policy_cost_a_view_nothing_but_their_rows(path: Path) -> None:
    """A view reads the words of versions that may be current, not of all that ever were."""
    with Ledger.open(path) as ledger:
        fill(ledger, *range(1, 9))
        plan = freeze(ledger, "p0", *((f"t{n}", f"t{n}") for n in range(1, 6)))
        for run in range(5):
            deliver(ledger, summary_of(plan, f"s0.{run}", run))
        before = _steps(ledger)
        for number in range(20):
            fill(ledger, 100 + number)
        assert _steps(ledger) < before * 1.2, "turns that no summary covers do not count"
        connection = ledger._store.connection()
        read = "SELECT * FROM summary WHERE conversation = 1 AND branch = 1 AND status = 'accepted' AND covers_to <= 9"
        query = " ".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {read}"))
        assert "USING INDEX" in query
        assert "SCAN" not in query


def test_R188_no_failure_of_a_save_shows_a_word_of_the_summary(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """One canary in every text of a summary and of its sources, an error at every step: none of it comes out."""
    caplog.set_level(logging.DEBUG)
    for number, point in enumerate(POINTS):
        with Ledger.open(tmp_path / f"ledger{number}") as ledger:
            messages = (Message("user", "u1", CANARY), Message("assistant", "a1", CANARY))
            ledger.append(CHAT, "t1", messages, state="completed")
            plan = plan_of(ledger, "p1", ("t1", "t1"))
            ledger.save_plan(plan)
            sound = summary_of(plan)
            record = replace(sound, summary_text=CANARY, state=replace(sound.state, goal=CANARY))

            def fail(name: str, at: str = point) -> None:
                if name == at or (at == "in_rollback" and name == "after_pointer"):
                    raise Cut

            ledger._store.fail = fail
            with pytest.raises(Cut) as caught:
                deliver(ledger, record)
            ledger._store.fail = lambda _: None
            shown = "".join(traceback.format_exception(caught.value))
            assert CANARY not in shown + repr(record) + repr(ledger.summaries(CHAT, ACTIVE)) + repr(plan)
            assert CANARY not in repr(deliver(ledger, record))
        tables = dump(tmp_path / f"ledger{number}")
        allowed = {name: repr(rows) for name, rows in tables.items() if CANARY in repr(rows)}
        assert {"message", "summary"} == allowed.keys()
    assert CANARY not in caplog.text + "".join(capsys.readouterr())
