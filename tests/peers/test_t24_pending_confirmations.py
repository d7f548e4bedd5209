"""ADK #4740: a pending confirmation was compacted away, or one unanswered call blocked compaction for ever."""

from __future__ import annotations

from planner.ledger.ledger import Ledger
from planner.values.compaction import CompactionPlan
from planner.values.turn import Message, ToolCall
from tests.compactor.support import CHAT, Script, compactor, fill, kept_turns, plan


def _frozen(ledger: Ledger) -> CompactionPlan:
    found = compactor(ledger, tail_turns=1).propose(replace_active=True)
    assert isinstance(found, CompactionPlan)
    return found


def test_T24_an_open_turn_and_a_pending_confirmation_are_no_source(ledger: Ledger) -> None:
    """What waits for an answer or a confirmation is in no run, wherever it stands."""
    fill(ledger, 3)
    ledger.append(CHAT, "asks", [Message("user", "u-asks", "Pay the bill."),
                                 Message("assistant", "a-asks", tool_calls=(ToolCall("c1", "pay", {}),))])  # fmt: skip
    fill(ledger, 4, start=3)
    ledger.protect(CHAT, "u4", "pending-confirmation")
    runs = _frozen(ledger).runs
    assert [["t0", "t1", "t2"], ["t3"], ["t5"]] == [list(run.turn_ids) for run in runs]


def test_T24_a_cancelled_call_blocks_nothing(ledger: Ledger) -> None:
    """Closed as cancelled, the turn with an unanswered call leaves the prompt and later turns are compacted."""
    fill(ledger, 2)
    ledger.append(CHAT, "asks", [Message("user", "u-asks", "Pay the bill."),
                                 Message("assistant", "a-asks", tool_calls=(ToolCall("c1", "pay", {}),))])  # fmt: skip
    ledger.cancel(CHAT, "asks")
    fill(ledger, 5, start=2)
    covered = [name for run in _frozen(ledger).runs for name in run.turn_ids]
    assert [f"t{number}" for number in range(6)] == covered
    compactor(ledger, tail_turns=1).run(Script())
    answer = plan(ledger)
    assert "turn/asks" not in answer.receipt.kept
    assert ("turn/asks", "cancelled") in [(entry.id, entry.reason) for entry in answer.receipt.removed]
    assert [f"t{number}" for number in range(7)] == kept_turns(answer)
