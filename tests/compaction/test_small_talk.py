"""A task that is told between sixty turns of small talk: its state lets the work go on (R88, R91)."""

from __future__ import annotations

from planner.compaction.accept import Judged, judge
from planner.compaction.prompt import SummaryPrompt, build_prompt
from planner.compaction.propose import propose
from planner.compaction.strategy import Settings
from planner.values.check_summary import SummaryFrame, summary_problem
from planner.values.compaction import Accepted, CompactionPlan
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn
from tests.compaction.chats import live, material
from tests.support.extractive import summarise

CHATTER = (
    ("Hello again, how are you?", "Hello! Fine, thanks."),
    ("What weather, 30 degrees on the balcony!", "Lovely weather indeed."),
    ("Lunch was good, thanks for asking.", "Glad you liked lunch."),
    ("Did you see the football? It was 3 to 2.", "I do not watch football, thanks."),
    ("Have a nice weekend!", "A nice weekend to you too."),
)
REPORT = "Query done. " + "row of the stock list without meaning, " * 12 + "ref inv/2207"


def _talk(number: int) -> Turn:
    ask, reply = CHATTER[number % len(CHATTER)]
    return _turn(number, ask, reply)


def _turn(number: int, ask: str, reply: str, **fields: object) -> Turn:
    sequence = number * 10
    messages = (
        Message("user", id=f"u{number}", text=ask, sequence=sequence),
        Message("assistant", id=f"a{number}", text=reply, sequence=sequence + 1),
    )
    return Turn(**{"id": f"t{number}", "sequence": sequence, "state": "completed", "messages": messages, **fields})  # type: ignore[arg-type]


def _conversation() -> tuple[Turn, ...]:
    turns = {number: _talk(number) for number in range(1, 71)}
    turns[3] = _turn(3, "I want to repaint my bicycle frame.", "Good. Which colour do you want?")
    turns[17] = _turn(
        17, "I decided on matt blue.", "Noted.", must_preserve=(MustPreserve("no-lead", "No paint with lead."),)
    )
    turns[31] = _turn(
        31, "The budget is 40 euro, Nadia pays.", "I will order 2 tins.", open_items=(OpenItem("order", "pending"),)
    )
    turns[44] = Turn("t44", 440, "completed", (
        Message("user", id="u44", text="Is it in stock?", sequence=440),
        Message("assistant", id="c44", tool_calls=(ToolCall("k", "stock", {"item": "matt-7"}),), sequence=441),
        Message("tool", id="r44", tool_result=ToolResult("k", f"{REPORT}. 4 tins of matt-7 left."), sequence=442),
        Message("assistant", id="a44", text="Yes, it is.", sequence=443),
    ))  # fmt: skip
    turns[58] = _turn(58, "Do we need a primer on aluminium?", "I do not know that yet.")
    return tuple(turns.values())


TURNS = _conversation()
CONSTRAINTS = live(TURNS)


def _made() -> tuple[SummaryPrompt, SummaryRecord]:
    plan = propose(material(*TURNS), Settings("p1", 6))
    assert isinstance(plan, CompactionPlan)
    run = plan.runs[0]
    assert 64 == len(run.turn_ids)
    prompt = build_prompt(run, TURNS, CONSTRAINTS, risk="low")
    frame = SummaryFrame("chat", 1, "policy-1", constraints=CONSTRAINTS)
    found = judge(
        summarise(prompt.instructions, prompt.material), Judged(plan, run, TURNS, frame, "p1", "s1", risk="low")
    )
    assert isinstance(found, Accepted), found
    assert None is summary_problem(found.record, TURNS, frame)
    return prompt, found.record


PROMPT, RECORD = _made()


def test_R88_state_lets_task_resume() -> None:
    """After sixty turns of small talk the state says what is done, what must not change and what comes next."""
    state = RECORD.state
    assert "I want to repaint my bicycle frame." == state.goal
    assert ["I decided on matt blue."] == [entry.text for entry in state.decisions]
    assert ["No paint with lead."] == [entry.text for entry in state.constraints]
    assert [("pending", "order"), ("pending", None)] == sorted(
        ((entry.status or "", entry.id) for entry in state.open_actions), key=lambda pair: pair[1] is None
    )
    assert "Do we need a primer on aluminium?" in [entry.text for entry in state.questions]
    assert "The budget is 40 euro, Nadia pays." in [entry.text for entry in state.evidence]
    assert "4 tins of matt-7 left." in [entry.text for entry in state.evidence]


def test_R91_small_talk_is_shown_to_the_model_and_left_out_of_the_state() -> None:
    """The prompt holds it, the text of the summary does not, and is a small part of what it stands for."""
    for word in ("weather", "football", "weekend", "Lunch"):
        assert word in PROMPT.material
        assert word.lower() not in RECORD.summary_text.lower()
    assert len(RECORD.summary_text) * 5 < len(PROMPT.material)


def test_R74_of_the_long_result_only_conclusion_and_reference_are_left() -> None:
    """The result is in the prompt whole; the state keeps a sentence and the reference, not the rows."""
    assert REPORT in PROMPT.material
    assert "without meaning, row of the stock list without meaning, row" not in RECORD.summary_text


def test_the_scripted_summariser_is_never_refused() -> None:
    """Every corpus run, at both risks: sentences copied letter for letter pass each check."""
    from tests.compaction.corpus_runs import case_of, rows

    for row in rows("runs"):
        case = case_of(row["run"])
        prompt = build_prompt(case.run, case.turns, case.frame.constraints, risk=case.risk)
        found = judge(summarise(prompt.instructions, prompt.material), case)
        assert isinstance(found, Accepted), (row["run"], found)
