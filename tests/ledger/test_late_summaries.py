"""Hostile and late summaries H14..H17 at the door of the store, where no check before it is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.turn import MustPreserve
from tests.ledger.summary_support import ACTIVE, CHAT, current_ids, deliver, edit, fill, freeze, summary_of, turns_of
from tests.ledger.support import fault


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with four turns, the first of which marks a constraint."""
    with Ledger.open(tmp_path / "ledger") as opened:
        fill(opened, 1, must_preserve=(MustPreserve("C1", "Only read."),))
        fill(opened, 2, 3, 4)
        yield opened


def test_H14_an_invented_constraint_id_is_an_invalid_summary(ledger: Ledger) -> None:
    """H14, R100: an id that the run does not mark would raise a statement to a constraint."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    invented = replace(record, required_constraint_ids=("C1", "C-invented"))
    assert "invalid-summary" == fault(lambda: deliver(ledger, invented))
    assert () == ledger.summaries(CHAT, ACTIVE)


def test_H15_a_missing_constraint_id_is_an_invalid_summary(ledger: Ledger) -> None:
    """H15, R99: a mark of the covered turns that the summary lacks refuses it."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    assert ("C1",) == record.required_constraint_ids
    assert "invalid-summary" == fault(lambda: deliver(ledger, replace(record, required_constraint_ids=())))
    assert [] == current_ids(ledger)


def test_H16_a_summary_of_an_edited_source_comes_too_late(ledger: Ledger) -> None:
    """H16, P4: `stale-source` with the edited message as its cause, however long ago the edit was."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    edit(ledger, 2)
    edit(ledger, 2, "Question")
    fill(ledger, 5, 6)
    saved = deliver(ledger, record)
    assert ("stale-source", "source_changed", "u2") == (saved.status, saved.cause, saved.causing_id)
    assert "Question 2?" == turns_of(ledger)[1].messages[0].text, "edited back, and the version tells"


def test_H17_a_summary_for_the_generation_before_comes_too_late(ledger: Ledger) -> None:
    """H17, X11: an answer that was under way when the generation changed is never taken."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    ledger.new_generation(CHAT)
    saved = deliver(ledger, record)
    assert ("stale-source", "other_generation") == (saved.status, saved.cause)
    forged = deliver(ledger, replace(record, id="s2", source_generation=2))
    assert ("stale-source", "other_generation") == (forged.status, forged.cause)
    assert [] == current_ids(ledger)
