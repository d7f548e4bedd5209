"""Planning from a ledger: the same bytes as with every turn sent, and nothing of an old generation is written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active
from planner.prepare import LedgerConversation
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message, MustPreserve, OpenItem
from planner.wire.dump import dump_plan_file, dump_receipt
from tests.compactor.support import (
    CHAT,
    POLICY,
    Script,
    compactor,
    fill,
    kept_summaries,
    kept_turns,
    plan,
    request,
    toy,
)

CANARY = "canary-2b9c"


def cold(ledger: Ledger, wanted: Any) -> Any:
    """Plan the same request with every turn and current summary sent."""
    view = ledger.view(CHAT, active=Active(POLICY))
    sent = replace(
        wanted, conversation_id=CHAT, generation=view.generation, revision=view.revision, summaries=view.summaries,
        turns=tuple(ledger.turns(CHAT)),
    )  # fmt: skip
    return toy().plan(sent)


def same(ours: Any, theirs: Any) -> None:
    """Both answers are the same, byte for byte; the ledger also tells of summaries that were not sent."""
    assert ours.accepted == theirs.accepted
    sent = {entry.id for entry in theirs.receipt.summaries}
    unsent = {f"summary/{entry.id}" for entry in ours.receipt.summaries if entry.id not in sent}
    receipt = replace(
        ours.receipt,
        summaries=tuple(entry for entry in ours.receipt.summaries if entry.id in sent),
        removed=tuple(entry for entry in ours.receipt.removed if entry.id not in unsent),
    )
    assert dump_receipt(receipt) == dump_receipt(theirs.receipt)
    if ours.accepted:
        assert list(ours.ids) == list(theirs.ids)
        if not unsent:
            assert dump_plan_file(ours.plan_file) == dump_plan_file(theirs.plan_file)


class Walk:
    """One random conversation in a ledger, changed step by step."""

    def __init__(self, ledger: Ledger, data: st.DataObject) -> None:
        self.ledger, self.data, self.count = ledger, data, 0
        self.completed: list[str] = []

    def step(self) -> None:
        """Do one random thing; what the ledger refuses changes nothing."""
        moves: list[Callable[[], object]] = [self.append, self.append, self.append, self.compact]
        if self.completed:
            moves += [self.edit, self.withdraw, self.protect, self.supersede, self.generation]
        self.data.draw(st.sampled_from(moves))()

    def append(self) -> None:
        number, self.count = self.count, self.count + 1
        marks = [MustPreserve(f"C{number}", "keep the plate")] if self.data.draw(st.integers(0, 5)) == 0 else []
        items = [OpenItem(f"i{number}", "pending")] if self.data.draw(st.integers(0, 7)) == 0 else []
        state: Any = self.data.draw(st.sampled_from(("completed",) * 5 + ("open", "cancelled")))
        messages = [
            Message("user", f"u{number}", f"Please use paint {number}."),
            Message("assistant", f"a{number}", "Yes. " * 9),
        ]
        self.ledger.append(CHAT, f"t{number}", messages, must_preserve=marks, open_items=items)
        if state == "cancelled":
            self.ledger.cancel(CHAT, f"t{number}")
        elif state == "completed":
            self.ledger.set_state(CHAT, f"t{number}", "completed")
            self.completed.append(f"t{number}")

    def any_turn(self) -> str:
        return self.data.draw(st.sampled_from(self.completed))

    def edit(self) -> None:
        number = self.any_turn()[1:]
        self.ledger.edit(
            CHAT, f"u{number}", Message("user", f"u{number}", f"Please use paint {number} and {self.count}.")
        )

    def withdraw(self) -> None:
        turn = self.any_turn()
        self.completed.remove(turn)
        self.ledger.withdraw(CHAT, turn)

    def protect(self) -> None:
        self.ledger.protect(CHAT, f"u{self.any_turn()[1:]}", self.data.draw(st.sampled_from(("audit-evidence", None))))

    def supersede(self) -> None:
        live = ledger_constraints(self.ledger)
        if live:
            self.append()
            newest = f"t{self.count - 1}"
            try:
                self.ledger.supersede(CHAT, newest, [self.data.draw(st.sampled_from(live))])
            except RefusalSignal:
                return

    def generation(self) -> None:
        self.ledger.new_generation(CHAT)

    def compact(self) -> None:
        if self.count:
            compactor(self.ledger, tail_turns=1).run(Script())


def ledger_constraints(ledger: Ledger) -> list[str]:
    """Return the ids of live constraints."""
    return [entry.id for entry in ledger.view(CHAT).constraints]


@given(data=st.data())
def test_a_plan_from_a_ledger_equals_the_plan_with_everything_sent(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Ids, receipt and plan file are equal after every kind of change, warm and cold, in wide and tight windows."""
    path = tmp_path_factory.mktemp("walk") / "chat.db"
    with Ledger.open(path) as ledger:
        walk = Walk(ledger, data)
        walk.append()
        chat = toy().ledger_conversation(ledger, CHAT)
        for _ in range(data.draw(st.integers(1, 6))):
            for _ in range(data.draw(st.integers(1, 4))):
                walk.step()
            wanted = request(data.draw(st.sampled_from((400, 700, 1_200, 60_000))))
            answer = chat.plan(wanted, record=False)
            same(answer, cold(ledger, wanted))


def test_R55_a_plan_of_an_older_generation_is_neither_written_nor_given_out(ledger: Ledger) -> None:
    """A caller of an old generation is refused before planning, and a switch while planning refuses the record."""
    fill(ledger, 3)
    ledger.new_generation(CHAT)
    with pytest.raises(PlannerFault) as caught:
        plan(ledger, generation=1)
    assert "stale_generation" == caught.value.code

    class Switching(LedgerConversation):
        def _plan(self, *args: Any) -> Any:
            answer = super()._plan(*args)
            ledger.new_generation(CHAT)
            return answer

    chat = Switching(ledger, CHAT, toy().encoder())
    with pytest.raises(PlannerFault) as caught:
        chat.plan(request())
    assert "stale_generation" == caught.value.code
    with ledger._store.read("test") as connection:
        assert [] == connection.execute("SELECT plan_id FROM receipt").fetchall()


def test_the_receipt_and_the_canonical_request_are_stored(ledger: Ledger) -> None:
    """What replay needs is there under the plan's id and the request's digest; planning again adds nothing."""
    fill(ledger, 3)
    answer = plan(ledger)
    receipt = answer.receipt
    assert dump_receipt(receipt) == ledger.receipt(CHAT, receipt.plan_id)
    assert receipt.request_digest is not None
    assert b'"policyVersion":"v1"' in ledger.part(CHAT, "canonical_request", receipt.request_digest)
    before = ledger.head(CHAT)
    plan(ledger)
    assert before == ledger.head(CHAT)


def test_two_broken_requests_are_two_refusals_and_leave_no_record(ledger: Ledger) -> None:
    """A request that breaks a rule is answered each time; it has no digest, so nothing is stored for it."""
    fill(ledger, 2)
    for wrong in (replace(request(), policy_version="a b"), replace(request(), now="yesterday")):
        assert "invalid-input" == plan(ledger, wrong).receipt.reason
    with ledger._store.read("test") as connection:
        assert 0 == connection.execute("SELECT count(*) FROM receipt").fetchone()[0]


def test_a_request_with_turns_of_its_own_is_refused(ledger: Ledger) -> None:
    """A ledger brings its own turns; two sources of truth are none."""
    fill(ledger, 2)
    sent = replace(request(), turns=tuple(ledger.turns(CHAT)))
    answer = plan(ledger, sent)
    assert ("invalid-input", False) == (answer.receipt.reason, answer.accepted)


def test_a_revoked_citation_sends_its_summary_back_to_raw_turns(ledger: Ledger) -> None:
    """What a summary rests on must still be allowed; nothing else makes it stale (X39)."""
    words = "Please use paint 7, as the sheet says."
    ledger.append(
        CHAT,
        "t0",
        [Message("user", "u0", words, citation_ids=("sheet",)), Message("assistant", "a0", "Yes. " * 200)],
        state="completed",
    )
    fill(ledger, 5, start=1)
    compactor(ledger).run(Script())
    assert kept_summaries(plan(ledger, request(2_200)))
    answer = plan(ledger, request(2_200), revoked=frozenset({"sheet"}), record=False)
    assert [] == kept_summaries(answer)
    assert "stale-source" in [entry.reason for entry in answer.removed if entry.id.startswith("summary/")]  # type: ignore[union-attr]


def test_each_stale_summary_gets_one_invalidation_receipt(ledger: Ledger) -> None:
    """Planning finds it, and records it once, however often it plans and in whatever process (R154)."""
    fill(ledger, 6)
    compactor(ledger).run(Script())
    ledger.edit(CHAT, "u0", Message("user", "u0", "Other words."))
    chat = toy().ledger_conversation(ledger, CHAT)
    for _ in range(3):
        chat.plan(request())
    plan(ledger)
    found = ledger.invalidations(CHAT)
    assert [("source_changed", "u0")] == [(one.staleness.cause, one.staleness.causing_id) for one in found]


def test_R187_receipt_contains_no_text(ledger: Ledger) -> None:
    """Receipts, plan files and refusals of a ledger hold no word of it, in its tables neither."""
    _speak_canaries(ledger)
    compactor(ledger, goal=f"The goal {CANARY}.").run(Script())
    for window in (60_000, 1_000, 120):
        answer = plan(ledger, request(window))
        assert CANARY.encode() not in dump_receipt(answer.receipt)
        if isinstance(answer, Plan):
            assert CANARY.encode() not in dump_plan_file(answer.plan_file)
        assert CANARY not in repr(answer)
    with ledger._store.read("test") as connection:
        assert not [row for row in connection.execute("SELECT body FROM receipt") if CANARY.encode() in bytes(row[0])]


def test_R188_logs_never_copy_sensitive_dialogue(ledger: Ledger, caplog: Any, capfd: Any) -> None:
    """Neither logs at the lowest level nor diagnostics of rejected, stale and failed summaries hold a message."""
    _speak_canaries(ledger)
    with caplog.at_level(logging.DEBUG):
        made = compactor(ledger)
        made.run(Script(spoil=lambda text: text[:-5]))
        made.run(Script(before=lambda: ledger.edit(CHAT, "u0", Message("user", "u0", f"{CANARY} edited"))))
        plan(ledger)
    assert CANARY not in caplog.text
    assert CANARY not in "".join(capfd.readouterr())
    with ledger._store.read("test") as connection:
        for table in ("rejection", "invalidation", "plan", "event", "touch"):
            shown = [str(row) for row in connection.execute(f"SELECT * FROM {table}")]
            assert not [row for row in shown if CANARY in row], table
        assert not [row for row in connection.execute("SELECT diagnostics FROM summary") if CANARY in str(row[0])]


def test_a10_logs_hold_no_full_sensitive_message(ledger: Ledger, caplog: Any) -> None:
    """The same said by the pre-launch list: planning and compacting log no message."""
    test_text = f"My card is {CANARY}."
    ledger.append(
        CHAT, "t0", [Message("user", "u0", test_text), Message("assistant", "a0", "Noted.")], state="completed"
    )
    fill(ledger, 4, start=1)
    with caplog.at_level(logging.DEBUG):
        compactor(ledger).run(Script())
        plan(ledger)
    assert CANARY not in caplog.text


def _speak_canaries(ledger: Ledger) -> None:
    ledger.append(
        CHAT, "t0",
        [Message("user", "u0", f"Please use paint 5 {CANARY}."), Message("assistant", "a0", f"Yes {CANARY}. " * 20)],
        state="completed", must_preserve=[MustPreserve("K", f"never {CANARY}")],
    )  # fmt: skip
    fill(ledger, 6, start=1)


def test_a_plan_from_a_read_only_ledger_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """With record off nothing is written, and a read-only file plans the same."""
    fill(ledger, 3)
    with Ledger.open(tmp_path / "chat.db", read_only=True) as read_only:
        same(plan(read_only, record=False), plan(ledger, record=False))
        with pytest.raises(PlannerFault) as caught:
            plan(read_only)
        assert "ledger_read_only" == caught.value.code
    assert ["t0", "t1", "t2"] == kept_turns(plan(ledger))
