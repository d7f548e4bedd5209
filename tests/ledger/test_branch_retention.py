"""Retention in a conversation with a branch: what an ancestor said after the branch point is not the branch's."""

from __future__ import annotations

from pathlib import Path

from planner.ledger.ledger import Ledger
from tests.ledger.summary_support import ACTIVE, CHAT, current_ids, deliver, fill, freeze, summary_of


def test_a_preserved_turn_beyond_the_branch_point_is_not_missed_by_the_branch(tmp_path: Path) -> None:
    """A plan that preserved turns after the one it covered, a branch that left before them, and all of them purged."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        fill(ledger, 1, 2, 3)
        deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t1"))))
        ledger.branch(CHAT, "b", at_turn_id="t1")
        ledger.retain(CHAT, 10**6, "policy-30-days")
        ledger.switch(CHAT, "b")
        assert () == tuple(ledger.view(CHAT, active=ACTIVE).turns)
        assert [] == [one for one in current_ids(ledger) if one != "s1"]
        assert () == ledger.verify().problems
