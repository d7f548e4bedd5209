"""`factResolved` in the ledger: idempotent, refused where it says nothing, seen by its line, checked (R156)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.resolution import FactDecision, FactResolution
from planner.values.summary import ConfirmedFact
from tests.ledger.summary_support import CHAT, causes, current_ids, deliver, dump, edit, freeze, summary_of

KEEP = FactDecision("colour", "keep", "user", "click-1", "green")
REPLACE = FactDecision("colour", "replace", "rule", "rule-1", "green", "It is green.", "sheet")


@pytest.fixture
def stated(ledger: Ledger) -> Ledger:
    """A ledger whose summary of the first two turns states that the colour is blue, as u1 says."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    fact = ConfirmedFact("e1", "It was asked.", "colour", "blue", ("u1",))
    assert "accepted" == deliver(ledger, summary_of(plan, confirmed_facts=(fact,))).status
    return ledger


def only(ledger: Ledger) -> FactResolution:
    """Return the one decision in force."""
    (found,) = ledger.resolutions(CHAT)
    return found


def test_what_is_in_force_has_the_value_and_everything_turned_down(stated: Ledger) -> None:
    """Keep keeps value and sentence; replace takes the application's; each adds what it turned down."""
    stated.resolve_fact(CHAT, KEEP)
    kept = only(stated)
    assert ("blue", "It was asked.", ("green",), ("u1",)) == (
        kept.value, kept.text, kept.rejected_values, kept.source_ids,
    )  # fmt: skip
    stated.resolve_fact(CHAT, REPLACE)
    done = only(stated)
    assert ("green", "It is green.", ("blue",), ("u1",), "sheet") == (
        done.value, done.text, done.rejected_values, done.source_ids, done.citation_id,
    )  # fmt: skip
    stated.resolve_fact(CHAT, FactDecision("colour", "replace", "user", "click-2", "red"))
    last = only(stated)
    assert ("red", "colour: red", ("blue", "green")) == (last.value, last.text, last.rejected_values)
    assert (9, frozenset()) == (last.through_sequence, last.edited_ids)
    edit(stated, 1)
    assert frozenset({"u1"}) == only(stated).edited_ids


def test_the_same_event_again_is_a_no_op_and_its_id_decides_nothing_else(stated: Ledger) -> None:
    """Nothing is written the second time, whatever happened in between; other fields are `duplicate_id`."""
    first = stated.resolve_fact(CHAT, KEEP)
    stated.resolve_fact(CHAT, REPLACE)
    again = stated.resolve_fact(CHAT, KEEP)
    assert (True, False, "green") == (first.changed, again.changed, only(stated).value)
    for other in (
        FactDecision("colour", "keep", "user", "click-1", "red"),
        FactDecision("colour", "keep", "rule", "click-1", "green"),
    ):  # fmt: skip
        with pytest.raises(PlannerFault, match="duplicate_id"):
            stated.resolve_fact(CHAT, other)


@pytest.mark.parametrize(("given", "where"), [
    (FactDecision("mass", "keep", "user", "c", "1"), "$.factKey: names no confirmed fact"),
    (FactDecision("colour", "keep", "user", "c", "blue"), "$.value: is the value that stands already"),
    (FactDecision("colour", "replace", "user", "c", "blue"), "$.value: is the value that stands already"),
    (FactDecision("colour", "keep", "user", "c", " "), "$.value: is blank"),
    (FactDecision("colour", "replace", "user", "c", "red", " "), "$.text: is blank"),
    (FactDecision("colour", "keep", "user", "c", "red", "Words."), "$.decision: keeps what stands"),
    (FactDecision("colour", "keep", "user", "c", "red", citation_id="s"), "$.decision: keeps what stands"),
    (FactDecision("colour", "keep", "planner", "c", "red"), "$.resolvedBy: is not user or rule"),  # type: ignore[arg-type]
    (FactDecision("colour", "forget", "user", "c", "red"), "$.decision: is not keep or replace"),  # type: ignore[arg-type]
    (FactDecision("", "keep", "user", "c", "red"), "$.factKey"),
    (FactDecision("colour", "keep", "user", "", "red"), "$.confirmationId"),
    (FactDecision("colour", "replace", "user", "c", "red", citation_id=""), "$.citationId"),
    (("colour", "keep"), "$: expected a FactDecision"),
])  # fmt: skip
def test_a_decision_that_says_nothing_is_refused(stated: Ledger, path: Path, given: Any, where: str) -> None:
    """The planner is no one who may decide, and a refusal writes nothing."""
    before = dump(path)
    with pytest.raises(RefusalSignal) as caught:
        stated.resolve_fact(CHAT, given)
    assert ("invalid-input", where) == (caught.value.reason, caught.value.detail[: len(where)])
    assert before == dump(path)


def test_only_summaries_that_rest_on_the_turn_are_stale(ledger: Ledger) -> None:
    """The touch names the key, and a summary of other turns stands."""
    plan = freeze(ledger, "p1", ("t1", "t2"), ("t3", "t4"))
    fact = ConfirmedFact("e1", "It was asked.", "colour", "blue", ("u1",))
    deliver(ledger, summary_of(plan, confirmed_facts=(fact,)))
    deliver(ledger, summary_of(plan, "s2", 1))
    ledger.resolve_fact(CHAT, KEEP)
    assert ({"s1": ("fact_resolved", "colour")}, ["s2"]) == (causes(ledger), current_ids(ledger))


def test_a_decision_is_seen_by_its_own_line(stated: Ledger) -> None:
    """On a branch it rules there alone; the other line's summary stands and its dispute is open."""
    stated.branch(CHAT, "try", at_turn_id="t4")
    stated.switch(CHAT, "try")
    stated.resolve_fact(CHAT, REPLACE)
    assert ("green", {"s1": ("fact_resolved", "colour")}) == (only(stated).value, causes(stated))
    stated.switch(CHAT, "main")
    assert ((), ["s1"]) == (stated.resolutions(CHAT), current_ids(stated))


def test_words_of_a_decision_go_with_the_turns_it_rests_on(ledger: Ledger, path: Path) -> None:
    """Retention of other turns leaves them; after it took the turn they are gone, and the ledger is sound."""
    fact = ConfirmedFact("e1", "It was asked.", "colour", "blue", ("u2",))
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t3")), confirmed_facts=(fact,)))
    ledger.resolve_fact(CHAT, REPLACE)
    ledger.retain(CHAT, 1, "days")
    assert ("green", ()) == (only(ledger).value, ledger.verify().problems)
    ledger.retain(CHAT, 3, "days")
    assert ((), ()) == (ledger.resolutions(CHAT), ledger.verify().problems)
    assert [] == [row for row in dump(path)["part"] if b"It is green." in row[4]]


def test_a_border_summary_of_purged_turns_cannot_be_decided_about(stated: Ledger) -> None:
    """It could never be built again, so it stays as it is (X41)."""
    stated.retain(CHAT, 4, "days")
    assert ["s1"] == current_ids(stated)
    with pytest.raises(RefusalSignal, match="originals were purged"):
        stated.resolve_fact(CHAT, KEEP)
    assert ["s1"] == current_ids(stated)


@pytest.mark.parametrize("sql", [
    "DELETE FROM touch WHERE cause = 'fact'",
    "DELETE FROM part WHERE kind = 'fact'",
    "UPDATE resolution SET decision = 'replace'",
    "UPDATE part SET body = x'7b7d' WHERE kind = 'fact'",
])  # fmt: skip
def test_damage_to_a_decision_is_found(stated: Ledger, path: Path, sql: str) -> None:
    """Row, words and touch: each is compared by verify."""
    stated.resolve_fact(CHAT, KEEP)
    assert () == stated.verify().problems
    stated.close()
    connection = apsw.Connection(str(path))
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(sql)
    connection.close()
    with Ledger.open(path, unchecked=True) as damaged:
        assert damaged.verify().problems
