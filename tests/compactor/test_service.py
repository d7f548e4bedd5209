"""The whole way of a summary over a real ledger: frozen, asked for, judged, stored, used (design.md §8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.compaction.call import Summariser
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.compaction import CompactionPlan, Rejected, Unplanned
from planner.values.plan import Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.switches import Switches
from planner.values.turn import Message
from tests.compactor.support import CHAT, Script, compactor, fill, kept_summaries, kept_turns, plan, question, request

TIGHT = 2_200


def frozen(ledger: Ledger, **choices: Any) -> CompactionPlan:
    """Return a plan that must be there."""
    found = compactor(ledger, **choices).propose()
    assert isinstance(found, CompactionPlan)
    return found


def rows(ledger: Ledger) -> dict[str, int]:
    """Count the rows of every table that holds facts."""
    with ledger._store.read("test") as connection:
        names = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: int(str(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0])) for name in names}


def test_R57_only_completed_is_summarised(ledger: Ledger) -> None:
    """An open turn, a cancelled and a superseded one are in no run, wherever they stand."""
    fill(ledger, 3)
    ledger.append(CHAT, "open", [Message("user", "uo", "And the bell?")])
    ledger.append(CHAT, "gone", [Message("user", "ug", "Never mind.")])
    ledger.cancel(CHAT, "gone")
    fill(ledger, 4, start=3)
    ledger.withdraw(CHAT, "t3")
    runs = frozen(ledger, tail_turns=1).runs
    assert ["t0", "t1", "t2", "t4", "t5"] == [turn for run in runs for turn in run.turn_ids]


def test_a_summary_takes_the_place_of_its_turns_where_they_do_not_fit(ledger: Ledger) -> None:
    """Proposed, answered and accepted, it stands before the tail; with room the raw turns are there instead."""
    fill(ledger, 8)
    done = compactor(ledger, tail_turns=2).run(Script())
    assert [("accepted", 1)] == [(one.status, one.summary_version) for one in done if isinstance(one, Saved)]
    tight = plan(ledger, request(TIGHT))
    assert ["t6", "t7"] == kept_turns(tight)
    assert [done[0].summary_id] == kept_summaries(tight)  # type: ignore[union-attr]
    assert [f"t{number}" for number in range(8)] == kept_turns(plan(ledger))


def test_R215_summary_call_is_planned_too(ledger: Ledger) -> None:
    """The call of the summariser has exact ids of its bundle, and they fit its window with the reserve (X66)."""
    fill(ledger, 8)
    made = compactor(ledger, window=9_000)
    found = made.propose()
    assert isinstance(found, CompactionPlan)
    prompts = made.prompts(found)
    assert prompts
    for prompt in prompts:
        assert 0 < len(prompt.ids) <= 9_000 - 256 - 1
        assert 256 <= prompt.max_output_tokens


def test_a_run_that_does_not_fit_the_summariser_is_split_and_a_lone_turn_stays_raw(ledger: Ledger) -> None:
    """Runs are halved at turn boundaries until each call fits; what fits no call alone is preserved (X66)."""
    fill(ledger, 6)
    ledger.append(
        CHAT, "huge", [Message("user", "uh", "x" * 9_000), Message("assistant", "ah", "ok")], state="completed"
    )
    fill(ledger, 4, start=6)
    found = compactor(ledger, window=7_000, tail_turns=2).propose()
    assert isinstance(found, CompactionPlan)
    covered = [turn for run in found.runs for turn in run.turn_ids]
    assert [f"t{number}" for number in range(8)] == covered
    assert len(found.runs) > 2
    assert {"uh", "ah"} <= set(found.preserved_ids)
    assert isinstance(compactor(ledger, window=700, tail_turns=2).propose(), Unplanned | CompactionPlan)


def test_a_plan_whose_sources_are_current_is_returned_again(ledger: Ledger) -> None:
    """Proposing twice is one plan; appended turns do not change that, `replace_active` does."""
    fill(ledger, 6)
    first = frozen(ledger)
    fill(ledger, 2, start=6)
    assert first == frozen(ledger)
    other = compactor(ledger).propose(replace_active=True)
    assert isinstance(other, CompactionPlan)
    assert first.plan_id != other.plan_id


def test_a_cut_answer_is_never_read(ledger: Ledger) -> None:
    """An answer that ran into the output limit is no summary, even where its text would pass (R59)."""
    fill(ledger, 6)
    done = compactor(ledger).run(Script(finish="length"))
    assert [Rejected("invalid-summary", "cut_off: $")] == list(done)
    assert [] == kept_summaries(plan(ledger, request(TIGHT)))


def test_the_same_sources_are_tried_twice_at_most(ledger: Ledger) -> None:
    """One retry a source fingerprint, over plans and processes; then the run stays raw."""
    fill(ledger, 6)
    script = Script(spoil=lambda text: text[:-1])
    assert ["invalid-summary"] == [one.reason for one in compactor(ledger).run(script) if isinstance(one, Rejected)]
    assert 2 == len(script.asked)
    again = Script()
    compactor(ledger).propose(replace_active=True)
    done = compactor(ledger).run(again)
    assert [Rejected("invalid-summary", "retry_spent: $")] == [one for one in done if isinstance(one, Rejected)]
    assert [] == again.asked
    assert ((0,), (0,)) == (compactor(ledger).status().waiting, compactor(ledger).status().spent)
    fill(ledger, 1, start=6)
    assert ["accepted"] == [one.status for one in compactor(ledger).run(again) if isinstance(one, Saved)]
    assert (1, ()) == (len(again.asked), compactor(ledger).status().spent)


@pytest.mark.parametrize(
    "written",
    [
        "<think>{ hm }</think>\n%s", "The template opened it. { hm }\n</think>\n\n%s", "<think>a</think> b</think>%s",
        "<think>x</think>\n```json\n%s\n```",
    ],
)  # fmt: skip
def test_reasoning_before_the_answer_is_not_the_answer(ledger: Ledger, written: str) -> None:
    """A model that thinks aloud first is read behind its thought, whoever hands its words over."""
    fill(ledger, 6)
    script = Script()
    answer = written.replace("%s", script(compactor(ledger).prompts(frozen(ledger))[0]).text)
    assert ("accepted",) == compactor(ledger).trial([answer]).verdicts
    found = compactor(ledger).accept(frozen(ledger).plan_id, 0, answer)
    assert isinstance(found, Saved), found
    assert "accepted" == found.status


@pytest.mark.parametrize("place", ["decisions", "questions", "evidence"])
def test_no_answer_can_keep_a_conversation_from_being_planned(ledger: Ledger, place: str) -> None:
    """R212: a model that numbers its entries in words is taken or not, and plans with and without it are made."""
    fill(ledger, 6)

    def numbered(text: str) -> str:
        tree = json.loads(text)
        tree[place] = [{"text": "Paint it.", "sources": ["m1"], "id": f"{place} no. 1"}]
        return json.dumps(tree)

    compactor(ledger).run(Script(spoil=numbered))
    assert [f"t{number}" for number in range(6)] == kept_turns(plan(ledger))
    assert ["t4", "t5"] == kept_turns(plan(ledger, request(TIGHT)))


@pytest.mark.parametrize(
    ("given", "path"),
    [({"goal": "\ud800"}, "$.goal"), ({"goal": "Go.", "goal_from": "a b"}, "$.goalFrom"),
     ({"fact_keys": ("price", "the price")}, "$.factKeys[1]"), ({"policy_version": "a b"}, "$.policyVersion")],
)  # fmt: skip
def test_choices_that_break_a_rule_are_refused_at_once(ledger: Ledger, given: dict[str, Any], path: str) -> None:
    """What a prompt or a record would carry is checked before anything is frozen."""
    with pytest.raises(RefusalSignal) as caught:
        compactor(ledger, **given)
    assert ("invalid-input", path) == (caught.value.reason, caught.value.detail.partition(":")[0])


@pytest.mark.parametrize("name", ["./models/tiny", "tiny@1", ""])
def test_a_summariser_has_an_id(name: str) -> None:
    """Its records name it; with another name every answer would be paid for and then refused."""
    with pytest.raises(RefusalSignal, match=r"^invalid-input: \$\.modelBundleId"):
        Summariser(name)


def test_a_run_that_cannot_be_planned_is_not_an_empty_one(ledger: Ledger) -> None:
    """Nothing to compact is an answer; a wrong setting is none."""
    fill(ledger, 2)
    assert () == compactor(ledger, tail_turns=5).run(Script())
    with pytest.raises(RefusalSignal, match=r"invalid-input: \$\.tailTurns"):
        compactor(ledger, tail_turns=0).run(Script())


def test_reasoning_marks_within_an_answer_are_words_of_it(ledger: Ledger) -> None:
    """A conversation may be about such marks: what begins as an answer is taken as it is."""
    ledger.append(CHAT, "t", [Message("user", "u", "Keep 7 </think> marks."), Message("assistant", "a", "I will.")],
                  state="completed")  # fmt: skip
    fill(ledger, 5)
    done = compactor(ledger).run(Script())
    assert ["accepted"] == [one.status for one in done if isinstance(one, Saved)]
    assert "Keep 7 </think> marks." in ledger.view(CHAT).summaries[0].summary_text


def test_what_is_appended_while_the_model_works_stays_and_the_summary_stands(ledger: Ledger) -> None:
    """A model call holds no transaction: appends go on, and they make nothing stale (R117, R122)."""
    fill(ledger, 6)
    later = iter(range(6, 99))
    done = compactor(ledger).run(Script(before=lambda: fill(ledger, 1, start=next(later))))
    assert ["accepted"] == [one.status for one in done if isinstance(one, Saved)]
    answer = plan(ledger, request(TIGHT))
    assert kept_summaries(answer)
    assert "t6" in kept_turns(answer)


def test_what_is_edited_while_the_model_works_makes_the_answer_stale(ledger: Ledger) -> None:
    """The ledger is read again when the model returns (R113); a stale answer leaves its cause and no text (R116)."""
    fill(ledger, 6)
    edited = Message("user", "u0", "Use no paint at all.")
    done = compactor(ledger).run(Script(before=lambda: ledger.edit(CHAT, "u0", edited)))
    assert [("stale-source", ("u0",))] == [(one.reason, one.ids) for one in done if isinstance(one, Rejected)]
    assert [] == kept_summaries(plan(ledger, request(TIGHT)))


def test_the_goal_of_the_task_stands_in_for_a_run_that_states_none(ledger: Ledger) -> None:
    """A run without a goal inherits the application's with the id of its record (X52)."""
    fill(ledger, 6)

    def without_goal(text: str) -> str:
        return json.dumps({**json.loads(text), "goal": ""})

    made = compactor(ledger, goal="Repaint the customer's frame.", goal_from="task-7")
    made.run(Script(spoil=without_goal))
    record = made.versions()[0].record
    assert record is not None
    assert ("Repaint the customer's frame.", "task-7") == (record.state.goal, record.state.goal_from)


def test_R126_read_only_trial_mode(ledger: Ledger) -> None:
    """A trial says what would be compacted and how an answer would be judged; no table changes."""
    fill(ledger, 6)
    before = rows(ledger)
    made = compactor(ledger, window=60_000)
    found = made.trial()
    assert isinstance(found.plan, CompactionPlan)
    answer = Script()(found.prompts[0]).text
    assert ("accepted",) == made.trial([answer]).verdicts
    assert ("invalid-summary: malformed_output: $: is not JSON at character 0",) == made.trial(["ok"]).verdicts
    assert before == rows(ledger)


def test_a10_unmet_item_forces_read_only_trial(ledger: Ledger, tmp_path: Path) -> None:
    """Without a named policy version, or on a read-only ledger, nothing is written; the trial still works."""
    fill(ledger, 6)
    made = compactor(ledger, policy_version="unversioned")
    assert ("policy_version_missing",) == made.unmet()
    before = rows(ledger)
    for call in (made.propose, lambda: made.accept("c-1", 0, "{}")):
        with pytest.raises(PlannerFault) as caught:
            call()
        assert ("compaction_read_only", "policy_version_missing") == (caught.value.code, caught.value.detail)
    assert isinstance(made.trial().plan, CompactionPlan)
    assert before == rows(ledger)
    with Ledger.open(tmp_path / "chat.db", read_only=True) as read_only:
        assert ("ledger_read_only",) == compactor(read_only).unmet()
        assert isinstance(compactor(read_only).trial().plan, CompactionPlan)


def test_R149_status_and_recovery_notice_exposed(ledger: Ledger) -> None:
    """A screen polls ids, intervals, codes and what waits; after a purge it shows the boundary (R125, R146)."""
    fill(ledger, 8)
    made = compactor(ledger)
    made.propose()
    assert (0,) == made.status().waiting
    made.run(Script())
    status = made.status()
    assert ((), ((0, 10),)) == (status.waiting, status.covers)
    assert 1 == len(status.current)
    assert status.current[0].endswith("@1")
    ledger.edit(CHAT, "u0", Message("user", "u0", "Something else."))
    status = made.status()
    assert ("summary_stale",) == status.notices
    assert [("source_changed", "u0")] == [(one.cause, one.causing_id) for one in status.stale]
    ledger.retain(CHAT, 6, "privacy-7d")
    status = made.status()
    assert "history_purged" in status.notices
    assert status.boundary is not None
    assert "privacy-7d" in [one.reason for one in ledger.retentions(CHAT)]


@pytest.mark.parametrize("off", ["store", "model", "status"])
def test_R212_steps_revert_independently(ledger: Ledger, off: str) -> None:
    """Each part off alone leaves plans from raw turns possible and every row where it is; on again, all is back."""
    fill(ledger, 8)
    compactor(ledger).run(Script())
    before = rows(ledger)
    switches = Switches(**{off: False})
    made = compactor(ledger, switches=switches)
    chat = toy_chat(ledger, switches)
    assert [f"t{number}" for number in range(8)] == kept_turns(chat.plan(request(), record=False))
    summaries = kept_summaries(chat.plan(request(TIGHT), record=False))
    assert (off == "status") is bool(summaries)
    assert (off != "status") is made.status().on
    if off != "status":
        with pytest.raises(PlannerFault) as caught:
            made.run(Script())
        assert "compaction_off" == caught.value.code
    assert before == rows(ledger)
    assert kept_summaries(plan(ledger, request(TIGHT), record=False))


def test_the_conservative_mode_uses_a_summary_only_while_nothing_changed(ledger: Ledger) -> None:
    """By name any revision takes a summary out of use, an append too; by default it stands (R117, R120)."""
    fill(ledger, 8)
    compactor(ledger).run(Script())
    strict = toy_chat(ledger, Switches(reuse="any_revision"))
    assert kept_summaries(strict.plan(request(TIGHT), record=False))
    fill(ledger, 1, start=8)
    assert [] == kept_summaries(strict.plan(request(3_000), record=False))
    assert kept_summaries(plan(ledger, request(3_000), record=False))
    assert () == ledger.invalidations(CHAT)


def toy_chat(ledger: Ledger, switches: Switches) -> Any:
    """Return the ledger's conversation with some parts off."""
    from tests.compactor.support import toy

    return toy().ledger_conversation(ledger, CHAT, switches=switches)


def test_readopt_makes_a_new_version_of_an_older_generation(ledger: Ledger) -> None:
    """A stored summary is verified again in full and gets a new version; an edited source is told instead (X11)."""
    fill(ledger, 8)
    made = compactor(ledger)
    first = made.run(Script())[0]
    assert isinstance(first, Saved)
    ledger.new_generation(CHAT)
    again = made.readopt(first.summary_id)
    assert isinstance(again, Saved)
    assert again.status == "accepted"
    assert kept_summaries(plan(ledger, request(TIGHT)))
    ledger.edit(CHAT, "u0", question(99)[0].__class__("user", "u0", "Other words."))
    ledger.new_generation(CHAT)
    stale = made.readopt(first.summary_id)
    assert not isinstance(stale, Saved)


def test_a_refusal_for_raw_history_names_the_three_exits(ledger: Ledger) -> None:
    """Pause, narrow, compact more: what a user can do where raw turns may not leave and do not fit (R144)."""
    for number in range(8):
        ledger.append(CHAT, f"t{number}", question(number), state="completed")
        ledger.protect(CHAT, f"u{number}", "audit-evidence")
    answer = plan(ledger, request(1_000))
    assert isinstance(answer, Refusal)
    assert "context_policy_overflow" == answer.outcome
