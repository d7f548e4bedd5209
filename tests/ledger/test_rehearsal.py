"""A rehearsal of retention says which summaries end and what plans will lack, and leaves no trace (R146, X34, X41)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import RefusalSignal
from planner.values.turn import OpenItem
from tests.ledger.summary_support import ACTIVE, CHAT, current_ids, deliver, dump, fill, freeze, summary_of


@pytest.mark.parametrize("border", range(14))
def test_a_rehearsal_says_what_the_run_does_and_writes_nothing(ledger: Ledger, path: Path, border: int) -> None:
    """Counts, voided summaries and what is lost are those of the run that follows; the file is what it was."""
    fill(ledger, 6, open_items=[OpenItem("i1", "pending")])
    fill(ledger, 7)
    plan = freeze(ledger, "p1", ("t1", "t2"), ("t4", "t5"))
    for run in (0, 1):
        deliver(ledger, summary_of(plan, f"s{run}", run))
    current = current_ids(ledger)
    before = dump(path)
    told = ledger.retain(CHAT, border, "days", rehearse=True)
    assert before == dump(path)
    done = ledger.retain(CHAT, border, "days")
    assert told == replace(done, event=None, cleared=True)
    assert tuple(name for name in current if name not in current_ids(ledger)) == done.voided
    assert ledger.view(CHAT, active=ACTIVE).lost == done.lost
    assert () == ledger.verify().problems


def test_a_rehearsal_refuses_what_the_run_refuses(ledger: Ledger, path: Path) -> None:
    """A protected turn stops it, too, and nothing was written."""
    ledger.protect(CHAT, "u2", "audit-evidence")
    before = dump(path)
    with pytest.raises(RefusalSignal, match="takes in a protected message"):
        ledger.retain(CHAT, 6, "days", rehearse=True)
    assert before == dump(path)
