"""R16, R17, R145, R151, R153, X34, X44, X56, X61: rules, items and withdrawals survive what leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.pipeline import Reading, run_view
from planner.steps.recall import recall
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, SectionBounds, Sections
from planner.values.turn import MustPreserve, OpenItem, Turn
from planner.wire.dump import dump_plan_file, dump_receipt
from tests.laws.common import said, toy, with_room
from tests.plan_summaries.common import ask, asking, plan, protected, summed, talk, turns_of
from tests.support.views import view_of

RULE = "read only the listed files"


def _marked(number: int, name: str = "k", text: str | None = RULE, **fields: object) -> Turn:
    return talk(number, must_preserve=(MustPreserve(name, text),), **fields)


def test_R16_scope_and_confirmation_survive() -> None:
    """A narrowing rule and a pending confirmation are each there by themselves, at every window that plans."""
    waiting = protected(talk(2, "send it? " * 9), "pending-confirmation")
    request = summed(asking(_marked(1), waiting, *(talk(number) for number in range(3, 8))), (3, 5))
    plans = 0
    for room in range(150, 2_000, 90):
        answer = ask(request, room)
        if isinstance(answer, Plan):
            plans += 1
            assert "turn/t2" in answer.kept
            assert ("turn/t1" in answer.kept) != ("constraint/k" in answer.kept)
            assert 1 == said(answer).count(RULE) + ("turn/t1" in answer.kept)
    assert plans > 10


def test_R17_traceability_is_the_quality_measure() -> None:
    """Whatever the window: each rule and item is on an item of the plan file, named by its id."""
    item = talk(2, open_items=(OpenItem("o", "pending"),))
    request = summed(asking(_marked(1), item, *(talk(number) for number in range(3, 8))), (2, 4))
    for room in (600, 900, 2_000):
        answer = plan(request, room)
        file = answer.plan_file
        assert ("k",) == file.required_constraint_ids
        assert ["k"] == [name for one in file.items for name in one.constraint_ids]
        assert "turn/t2" in answer.kept or "summary/s1" in answer.kept
        assert RULE.encode() not in dump_plan_file(file) + dump_receipt(answer.receipt)


def test_R145_protected_never_dropped_for_budget() -> None:
    """Where the protected turn does not fit there is no plan, and the code says why."""
    answer = ask(asking(protected(talk(1)), talk(2)), 200)
    assert isinstance(answer, Refusal)
    assert ("context_policy_overflow", "protected_history_overflow") == (answer.outcome, answer.reason)


def test_R151_supersedes_from_new_turn() -> None:
    """A later turn withdraws the rule: it is required no more; withdrawing the withdrawal brings it back."""
    turns = (_marked(1), talk(2, supersedes=("k",)), talk(3))
    answer = plan(asking(*turns), 300)
    assert () == answer.plan_file.required_constraint_ids
    assert RULE not in said(answer)
    back = plan(asking(turns[0], replace(turns[1], state="superseded"), turns[2]), 480)
    assert ("k",) == back.plan_file.required_constraint_ids
    assert "constraint/k" in back.kept


@pytest.mark.parametrize(
    ("marks", "names"),
    [((), ("k",)), ((), ("j",)), ((MustPreserve("x", "y"),), ("x",))],
    ids=["unknown", "later", "own"],
)
def test_a_withdrawal_needs_an_earlier_mark(marks: tuple[MustPreserve, ...], names: tuple[str, ...]) -> None:
    """X56: an unknown, a later and the turn's own target are refused with their path."""
    turns = (talk(1), talk(2, must_preserve=marks, supersedes=names), _marked(3, "j"))
    answer = ask(asking(*turns), 5_000)
    assert isinstance(answer, Refusal)
    assert "invalid-input" == answer.reason
    assert answer.detail.startswith("$.turns[1].supersedes[0]: ")


def test_R153_no_string_replace_in_summary() -> None:
    """A summary that names a withdrawn rule is out whole: its text is in no prompt, changed or not."""
    whole = summed(
        asking(_marked(1), talk(2), *(talk(number) for number in range(3, 7))), (1, 2), text="lake and " + RULE
    )
    assert "summary/s1" in plan(whole, 1_300).kept
    turns = (*whole.turns[:4], replace(whole.turns[4], supersedes=("k",)), whole.turns[5])
    answer = plan(replace(whole, turns=turns), 1_300)
    assert "summary/s1" not in answer.kept
    assert "lake" not in said(answer)
    assert [("stale-source", "constraint_changed", ("k",))] == [
        (use.fate, use.cause, use.ids) for use in answer.receipt.summaries
    ]


def test_R152_withdrawn_constraint_excluded_next_plan() -> None:
    """At the very next plan the rule is neither required nor carried, whether its own turn is raw or gone."""
    marked = talk(1, must_preserve=(MustPreserve("C", "never touch the plate"),))
    before = asking(marked, talk(2), talk(3))
    after = asking(marked, talk(2), talk(3, supersedes=("C",)))
    for room in (100_000, 700):
        assert ("C",) == plan(before, room).constraint_ids
        answer = plan(after, room)
        assert () == answer.constraint_ids
        assert "constraint/C" not in answer.kept
        assert "never touch the plate" not in (answer.prompt or "")
    assert "constraint/C" in plan(before, 700).kept


def test_a_withdrawn_rule_never_stands_alone() -> None:
    """X44: where the turn that made it is protected, the turn that withdraws it stays with it."""
    turns = (protected(_marked(1)), talk(2, supersedes=("k",)), talk(3), talk(4))
    answer = plan(asking(*turns), 780)
    assert ["turn/t1", "turn/t2", "turn/t4"] == turns_of(answer)
    refused = ask(asking(*turns), 400)
    assert isinstance(refused, Refusal)
    assert "raw_history_overflow" == refused.reason


def test_a_summary_that_tells_of_a_withdrawal_is_not_taken_by_the_maximum() -> None:
    """X44: the turn that made the rule is older and raw, so what withdrew it stays as long."""
    request = summed(asking(_marked(1), *(talk(n) for n in (2, 3)), talk(4, supersedes=("k",)), talk(5)), (2, 4))
    tight = replace(request, options=Options(sections=Sections(summary=SectionBounds(max=0))))
    answer = plan(tight, 650)
    assert ["summary/s1", "turn/t5"] == turns_of(answer)
    plain = replace(request, turns=(talk(1), *request.turns[1:3], talk(4), talk(5)), summaries=())
    other = replace(summed(plain, (2, 4)), options=tight.options)
    assert ["turn/t1", "turn/t5"] == turns_of(plan(other, 650))


def test_an_open_item_keeps_its_turn_or_its_summary() -> None:
    """X34: a turn with a waiting item does not leave for room; a summary that echoes it may stand, and then stays."""
    turns = (talk(1, open_items=(OpenItem("o", "blocked"),)), *(talk(number) for number in range(2, 6)))
    raw = plan(asking(*turns), 560)
    assert ["turn/t1", "turn/t5"] == turns_of(raw)
    summary = plan(summed(asking(*turns), (1, 2)), 560)
    assert ["summary/s1", "turn/t5"] == turns_of(summary)
    least = ask(summed(asking(*turns), (1, 2)), 180)
    assert isinstance(least, Refusal)
    assert "raw_history_overflow" == least.reason
    done = (replace(turns[0], open_items=(OpenItem("o", "done"),)), *turns[1:])
    assert ["turn/t4", "turn/t5"] == turns_of(plan(asking(*done), 560))
    later = (*turns[:4], replace(turns[4], open_items=(OpenItem("o", "done"),)))
    assert ["turn/t4", "turn/t5"] == turns_of(plan(asking(*later), 560)), "the later word on an item counts"


def test_a_rule_without_words_keeps_its_turn() -> None:
    """X61: nothing can be carried, so the turn is raw at every window."""
    answer = plan(asking(_marked(1, text=None), *(talk(number) for number in range(2, 6))), 560)
    assert ["turn/t1", "turn/t5"] == turns_of(answer)
    assert () == tuple(key for key in answer.kept if key.startswith("constraint/"))


def test_a_rule_of_a_cancelled_turn_is_carried() -> None:
    """X37: its turn is never shown, so its words stand in the block; without words there is no plan."""
    stopped = _marked(1, state="cancelled")
    answer = plan(asking(stopped, talk(2)), 5_000)
    assert "constraint/k" in answer.kept
    refusal = ask(asking(_marked(1, text=None, state="cancelled"), talk(2)), 5_000)
    assert isinstance(refusal, Refusal)
    assert ("raw_history_overflow", "context_policy_overflow") == (refusal.reason, refusal.outcome)


def test_rules_too_large_to_carry_are_an_overflow_of_policy() -> None:
    """Carried rules are policy: where they do not fit beside the request, there is no shorter form."""
    refusal = ask(asking(_marked(1, text="must " * 200), talk(2)), 300)
    assert isinstance(refusal, Refusal)
    assert ("context_policy_overflow", "context_policy_overflow") == (refusal.reason, refusal.outcome)


def test_the_newest_mark_of_a_rule_counts() -> None:
    """A rule marked again has the newer words, and belongs to the newer turn."""
    answer = plan(asking(_marked(1), _marked(2, text="newer words"), talk(3), talk(4)), 700)
    assert ["turn/t4"] == turns_of(answer)
    assert 1 == said(answer).count("- newer words\n")
    assert RULE not in said(answer)


def test_a_message_may_name_a_rule_that_another_turn_makes() -> None:
    """Then its turn leaves like any other; a name that nobody made holds it."""
    named = replace(talk(2), messages=(replace(talk(2).messages[0], constraint_ids=("k",)), talk(2).messages[1]))
    assert ["turn/t4"] == turns_of(plan(asking(_marked(1), named, talk(3), talk(4)), 620))
    assert ["turn/t2", "turn/t4"] == turns_of(plan(asking(talk(1), named, talk(3), talk(4)), 620))


def test_the_front_is_stable_where_rules_are_carried() -> None:
    """Nothing that changes per turn stands before the history: the front of a cut plan is that of a whole one."""
    request = asking(_marked(1), *(talk(number) for number in range(2, 6)))
    whole, cut = plan(request, 5_000), plan(request, 620)
    assert "constraint/k" in cut.kept
    assert (whole.receipt.front_tokens, whole.receipt.cache_key) == (cut.receipt.front_tokens, cut.receipt.cache_key)


def test_a_revoked_citation_makes_a_summary_stale() -> None:
    """X39: the summary is out, from the wire and from a view; which citation it was, only the audit record says."""
    cited = replace(talk(1), messages=(replace(talk(1).messages[0], citation_ids=("c7",)), talk(1).messages[1]))
    request = with_room(summed(asking(cited, talk(2), talk(3), talk(4)), (1, 2)), 1_000)
    assert ["s1"] == [one.id for one in recall(request).summaries]
    revoked = recall(request, revoked=frozenset({"c7"}))
    assert () == revoked.summaries
    answer = run_view(replace(request, turns=()), view_of(request), toy().encoder(), Reading(revoked=frozenset({"c7"})))
    assert isinstance(answer, Plan), answer
    found = [(use.fate, use.cause, use.ids) for use in (*revoked.unused, *answer.receipt.summaries)]
    assert [("stale-source", "citation_revoked", ())] * 2 == found
    assert ["citation/c7"] == [entry.id for entry in answer.audit]
