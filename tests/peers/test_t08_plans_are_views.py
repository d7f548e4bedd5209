"""deer-flow #1430: compaction overwrote the stored conversation, and the screen lost it."""

from __future__ import annotations

from planner.ledger.ledger import Ledger
from planner.values.turn import Turn
from tests.compactor.support import CHAT, Script, compactor, fill, plan, request


def test_T08_the_ledger_gives_back_every_original(ledger: Ledger) -> None:
    """After any number of plans and summaries every message is there, as it was written."""
    written: list[Turn] = []
    for number in range(5):
        fill(ledger, 4, start=4 * number)
        written = [*written, *list(ledger.turns(CHAT))[len(written) :]]
        compactor(ledger).run(Script())
        for window in (1_400, 2_200, 60_000):
            plan(ledger, request(window))
    assert written == list(ledger.turns(CHAT))
    assert 20 == len(written)
    assert len(compactor(ledger).versions()) > 2
