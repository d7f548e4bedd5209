"""What a plan needs of purged turns: said by somebody, or a refusal that names it (R143, R146, R147, X41)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.plan import Plan, Refusal
from planner.values.request import Options
from planner.values.turn import Message, MustPreserve, OpenItem
from planner.wire.dump import dump_receipt
from planner.wire.parse import parse_receipt
from tests.compactor.support import CHAT, Script, compactor, fill, kept_summaries, kept_turns, plan, request

PENDING = [OpenItem("i1", "pending")]


def said(name: str) -> list[Message]:
    """Return a question and its answer."""
    return [Message("user", f"u{name}", f"Order part {name}."), Message("assistant", f"a{name}", "Fine.")]


def add(ledger: Ledger, name: str, **fields: Any) -> None:
    """Append a completed turn."""
    ledger.append(CHAT, name, said(name), state="completed", **fields)


def refused(answer: Plan | Refusal) -> str:
    """Return the detail of a refusal because of what was purged."""
    assert isinstance(answer, Refusal), answer
    assert ("unrecoverable_history", "unrecoverable_history") == (answer.outcome, answer.reason)
    assert not hasattr(answer, "ids")
    return answer.detail


def test_an_unfinished_item_of_a_purged_turn_is_named(ledger: Ledger) -> None:
    """Nothing says any more what was to be done; naming it again in a new turn, or ending it there, is the way on."""
    add(ledger, "t1", open_items=PENDING)
    fill(ledger, 3, start=2)
    assert isinstance(plan(ledger), Plan)
    ledger.retain(CHAT, 2, "days")
    assert "turns up to sequence 0 were purged, and with them item/i1" == refused(plan(ledger))
    add(ledger, "t9", open_items=[OpenItem("i1", "done")])
    assert "t9" in kept_turns(plan(ledger))


def bordered(ledger: Ledger, **first: Any) -> str:
    """Make a conversation whose first turns are gone and have a summary; return its id."""
    add(ledger, "t1", **first)
    fill(ledger, 5, start=2)
    (done,) = compactor(ledger, tail_turns=4).run(Script())
    assert isinstance(done, Saved)
    ledger.retain(CHAT, 4, "days")
    return done.summary_id


def test_an_item_that_a_summary_of_the_purged_turns_echoes_is_not_lost(ledger: Ledger) -> None:
    """The declared border carries it and stays at any window; where it falls, the plan is refused (R143)."""
    name = bordered(ledger, open_items=PENDING)
    for window in (60_000, 2_600, 1_900):
        assert [name] == kept_summaries(plan(ledger, request(window)))
    other = replace(request(), policy_version="v2")
    assert refused(plan(ledger, other)).endswith("item/i1")
    ledger.append(CHAT, "t9", said("t9"), state="completed", open_items=[OpenItem("i1", "done")])
    assert [] == kept_summaries(plan(ledger, request(1_900)))


def test_R146_the_border_of_the_history_is_in_the_prompt(ledger: Ledger) -> None:
    """A summary whose turns are gone stands before the oldest turn, and is the first of the history to leave (X41)."""
    name = bordered(ledger)
    whole = plan(ledger)
    assert isinstance(whole, Plan)
    assert [f"summary/{name}", "turn/t3"] == [key for key in whole.kept if key.startswith(("summary/", "turn/"))][:2]
    assert "Order part t1." in str(whole.prompt)
    chain = [[name, *kept_turns(whole)[at:]] if not at else kept_turns(whole)[at - 1 :] for at in range(6)]
    sizes: dict[int, int] = {}
    seen = []
    for window in range(len(whole.ids) + 65, 300, -7):
        answer = plan(ledger, request(window))
        if not isinstance(answer, Plan):
            break
        found = [*kept_summaries(answer), *kept_turns(answer)]
        at = chain.index(found)
        sizes[at] = len(answer.ids)
        assert all(size > window - 65 for earlier, size in sizes.items() if earlier < at), "a fuller one fits"
        seen.append(at)
        assert answer.receipt.history_reduced is not None
        assert 2 == answer.receipt.history_reduced.purged_through
        fates = {use.id: use.fate for use in answer.receipt.summaries}
        assert {name: "over_budget" if at else "used"} == fates
        assert (f"summary/{name}" in {entry.id for entry in answer.removed}) == bool(at)
    assert sorted(seen) == seen
    assert {0, 1, 2, 3} <= set(seen)


def test_a_border_stays_where_history_may_not_be_evicted(ledger: Ledger) -> None:
    """As every turn does; what does not fit is a refusal and never the history without its beginning."""
    name = bordered(ledger)
    options = Options(allow_history_eviction=False)
    assert [name] == kept_summaries(plan(ledger, request(options=options)))
    found = [plan(ledger, request(window, options=options)) for window in range(600, 4_600, 250)]
    assert {True, False} == {isinstance(one, Plan) for one in found}
    assert {"raw_history_overflow"} == {one.reason for one in found if isinstance(one, Refusal)} - {
        "context_policy_overflow"
    }
    assert all([name] == kept_summaries(one) for one in found if isinstance(one, Plan))


def test_a_border_that_says_what_is_unfinished_needs_its_place(ledger: Ledger) -> None:
    """Before a turn that no user opens there is none: then the plan is refused, not made without it."""
    add(ledger, "t1", open_items=PENDING)
    add(ledger, "t2")
    ledger.append(CHAT, "t3", [Message("assistant", "a3", "By the way, it rains.")], state="completed")
    fill(ledger, 3, start=4)
    (done,) = compactor(ledger, tail_turns=4).run(Script())
    assert isinstance(done, Saved)
    ledger.retain(CHAT, 4, "days")
    assert f"no place for summary {done.summary_id} of purged turns" == refused(plan(ledger))


def test_a_constraint_in_force_whose_words_went_is_named(ledger: Ledger) -> None:
    """Marked without words, its turn was all that carried it; marked again it is carried again."""
    add(ledger, "t1", must_preserve=[MustPreserve("C1"), MustPreserve("C2", "Stay brief.")])
    fill(ledger, 2, start=2)
    ledger.retain(CHAT, 2, "days")
    assert refused(plan(ledger)).endswith("with them constraint/C1")
    add(ledger, "t9", must_preserve=[MustPreserve("C1", "Order nothing twice.")])
    answer = plan(ledger)
    assert isinstance(answer, Plan)
    assert "Stay brief." in str(answer.prompt)


def test_a_constraint_that_comes_back_after_its_words_went_is_named(ledger: Ledger) -> None:
    """Withdrawn when retention ran, in force again because the withdrawal was withdrawn: it must not be lost."""
    add(ledger, "t1", must_preserve=[MustPreserve("C1", "Order nothing twice.")])
    fill(ledger, 2, start=2)
    add(ledger, "t8", supersedes=["C1"])
    ledger.retain(CHAT, 2, "days")
    assert isinstance(plan(ledger), Plan)
    ledger.withdraw(CHAT, "t8")
    assert refused(plan(ledger)).endswith("with them constraint/C1")


def test_a_plan_says_up_to_where_the_history_is_gone(ledger: Ledger) -> None:
    """The receipt names the boundary although nothing was left out for room; it reads back the same."""
    fill(ledger, 4)
    assert plan(ledger).receipt.history_reduced is None
    ledger.retain(CHAT, 3, "days")
    receipt = plan(ledger).receipt
    assert receipt.history_reduced is not None
    assert (0, (), 2) == (
        receipt.history_reduced.removed, receipt.history_reduced.ranges, receipt.history_reduced.purged_through,
    )  # fmt: skip
    assert receipt == parse_receipt(dump_receipt(receipt))


def naive(turns: list[dict[str, Any]], purged: set[str]) -> set[str]:
    """Return what is lost, by asking each id of each purged turn one after another."""
    found = set()
    alive = [turn for turn in turns if turn["state"] != "superseded"]
    for place, turn in enumerate(alive):
        later = alive[place + 1 :]
        if turn["id"] not in purged:
            continue
        for mark, words in turn["marks"]:
            again = any(mark in {name for name, _ in other["marks"]} or mark in other["ends"] for other in later)
            if not again and words is None:
                found.add(f"constraint/{mark}")
        for item, status in turn["items"]:
            again = any(item in {name for name, _ in other["items"]} for other in later)
            if not again and status == "pending":
                found.add(f"item/{item}")
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_is_lost_is_what_a_slow_reader_finds(tmp_path: Path, seed: int) -> None:
    """Random marks, withdrawals and items, one retention run, then turns withdrawn and added."""
    draw = random.Random(seed)
    turns: list[dict[str, Any]] = []
    with Ledger.open(tmp_path / "chats") as ledger:

        def more() -> None:
            marked = [name for turn in turns for name, _ in turn["marks"]]
            marks = [(f"C{draw.randrange(3)}", draw.choice((None, "Words.")))] if draw.random() < 0.4 else []
            ends = {draw.choice(marked)} - {name for name, _ in marks} if marked and draw.random() < 0.3 else set()
            items = [(f"i{draw.randrange(2)}", draw.choice(("pending", "done")))] if draw.random() < 0.4 else []
            name = f"t{len(turns)}"
            add(ledger, name, must_preserve=[MustPreserve(*mark) for mark in marks], supersedes=sorted(ends),
                open_items=[OpenItem(item, status) for item, status in items])  # type: ignore[arg-type]  # fmt: skip
            turns.append({"id": name, "marks": marks, "ends": ends, "items": items, "state": "completed"})

        for _ in range(7):
            more()
        border = draw.randrange(1, 6)
        ledger.retain(CHAT, 2 * border, "days")
        purged = {turn["id"] for turn in turns[:border]}
        # Words that were not in force when retention ran are gone; the others stay.
        for place, turn in enumerate(turns[:border]):
            over = {name for other in turns[place + 1 :] for name in (*other["ends"], *dict(other["marks"]))}
            turn["marks"] = [(name, None if name in over else words) for name, words in turn["marks"]]
        for _ in range(3):
            if draw.random() < 0.5:
                victim = draw.choice(turns[border:])
                if victim["state"] == "completed":
                    ledger.withdraw(CHAT, victim["id"])
                    victim["state"] = "superseded"
            more()
            lost = naive(turns, purged)
            assert lost == set(ledger.view(CHAT).lost)
            assert bool(lost) == isinstance(plan(ledger, request(options=Options())), Refusal)


def test_compaction_goes_on_where_a_purged_constraint_was_withdrawn(ledger: Ledger) -> None:
    """X56: the turn that marked it is gone, the one that took it back is summarised like any other."""
    add(ledger, "t1", must_preserve=[MustPreserve("C9", "no red")])
    fill(ledger, 2, start=2)
    ledger.append(CHAT, "t8", said("8"), state="completed", supersedes=["C9"])
    fill(ledger, 3, start=9)
    ledger.retain(CHAT, 2, "days")
    (done,) = compactor(ledger, tail_turns=2).run(Script())
    assert isinstance(done, Saved)
    assert "accepted" == done.status
    assert [done.summary_id] == kept_summaries(plan(ledger, request(2_400)))
    assert () == ledger.verify().problems
