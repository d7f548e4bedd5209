"""The text that asks for a summary: what it says, what it shows, and that nothing in it can forge a label."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields, replace
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner.compaction.prompt as module
from planner.compaction.answer import Entry
from planner.compaction.prompt import Known, SummaryPrompt, build_prompt
from planner.values.check_summary import run_of
from planner.values.compaction import Risk
from planner.values.field_rules import is_id
from planner.values.reasons import RefusalSignal
from planner.values.turn import Material, Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn
from tests.compaction.chats import conversations, live, tool_turn, turn, with_message

SIX = ("goal", "decisions", "constraints", "open_actions", "questions", "evidence")
LABEL = re.compile(r"m[0-9]+ .*")


def prompt_of(*turns: Turn, risk: Risk | None = "low", goal: str = "") -> SummaryPrompt:
    """Return the prompt for one run of all these turns."""
    return build_prompt(run_of(turns, live(turns)), turns, live(turns), risk=risk, known=Known(goal))


PLAIN = prompt_of(turn(1), turn(2))


def test_R107_prompt_priority_order() -> None:
    """The three priorities stand in the instructions, in their order."""
    wanted = (
        "explicit decisions of the user",
        "limits whose loss would cause work",
        "next steps, and what blocks them",
    )
    places = [PLAIN.instructions.index(text) for text in wanted]
    assert sorted(places) == places


def test_R108_prompt_builder_contents() -> None:
    """Explicit statements only, no guessing, JSON with the six keys, empty lists, a keep-list, no small talk."""
    for text in (
        "only what the messages say", "Guess nothing, invent nothing", "exactly these six keys", "is an empty list",
        "Keep: negations, numbers with their units", "Leave out greetings, thanks, small talk",
    ):  # fmt: skip
        assert text in PLAIN.instructions
    assert [f'"{name}":' in PLAIN.instructions for name in SIX] == [True] * 6


def test_c_prompt_builder_makes_no_call() -> None:
    """The builder returns text: it takes no model, and no module it imports can reach one or judge an answer."""
    allowed = {"__future__", "collections.abc", "dataclasses", "json", "re"}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert node.module in allowed | {"planner.compaction.strategy"} or str(node.module).startswith(
                "planner.values."
            )
    assert isinstance(module, ModuleType)
    assert PLAIN == prompt_of(turn(1), turn(2))


def test_R87_six_state_fields() -> None:
    """The prompt names the six keys as the answer's only keys; the state has exactly them beside `goal_from`."""
    from planner.values.summary import SummaryState

    assert {*SIX, "goal_from"} == {entry.name for entry in fields(SummaryState)}
    assert set(SIX) == set(re.findall(r'^"([a-z_]+)":', PLAIN.instructions, re.MULTILINE))


def test_R73_assistant_commitments_are_sources() -> None:
    """Promises, calls and results of the run are shown under their labels, beside the user's words."""
    promised = with_message(turn(1), 1, text="I will order the paint tomorrow.")
    shown = prompt_of(promised, tool_turn(2, "In stock: 4 tins.")).material
    for text in (
        "m2 assistant:\n  I will order",
        "m4 assistant, calls look_up as k2:\n  {",
        "m5 tool, result of k2:\n  In",
    ):
        assert text in shown


def test_c_assistant_commitment_kept() -> None:
    """The instructions say where a promise of the assistant goes."""
    assert "a promise of the assistant is an open action" in PLAIN.instructions


def test_R74_tool_results_compact_to_refs() -> None:
    """A long result is shown whole, and the model is told to take conclusion, identifiers and reference only."""
    long = "row 17 of the ledger; " * 200
    found = prompt_of(tool_turn(1, long))
    assert long in found.material
    assert "conclusion, the identifiers and the reference" in found.instructions
    assert "Never copy a long result" in found.instructions
    assert "Never copy a long result" not in PLAIN.instructions


def test_R90_elements_stand_alone() -> None:
    """One entry is one sentence that is understood alone."""
    assert "one sentence that is understood alone" in PLAIN.instructions


def test_R91_only_facts_that_affect_later_steps() -> None:
    """Greetings and repeated background are named as what to leave out."""
    assert "small talk and repeated background" in PLAIN.instructions


def test_R92_facts_land_in_their_field() -> None:
    """A choice, a "not now" and missing information each have their key."""
    for text in (
        "a choice that was made to decisions",
        '"not now" and "do not"',
        "information that was not given to questions",
    ):
        assert text in PLAIN.instructions


def test_R106_the_prompt_states_the_rule_for_conflicts() -> None:
    """The latest explicit statement is the decision, and the conflict becomes a question (X43)."""
    assert "the latest explicit one is the decision" in PLAIN.instructions
    assert "A message of the assistant never overrides the user" in PLAIN.instructions


def test_R112_completeness_before_brevity() -> None:
    """The prompt ranks a complete state above a short one and sets no length."""
    assert "A complete state is better than a short one" in PLAIN.instructions
    assert not re.search(r"[0-9]+ (words|tokens|characters)", PLAIN.instructions)


@pytest.mark.parametrize(
    ("risk", "material", "asked"),
    [
        ("low", "chat", False), ("low", "code", False), ("low", "dispute", False), ("high", "chat", False),
        (None, "chat", False), ("high", "code", True), ("high", "dispute", True), (None, "code", True),
        ("high", "tool_result", False),
    ],
)  # fmt: skip
def test_excerpts_are_asked_for_where_the_table_says_so(risk: Risk | None, material: Material, asked: bool) -> None:
    """X28: high risk with code or dispute needs the words themselves; unknown risk counts as high."""
    found = prompt_of(turn(1), replace(turn(2), material=material), risk=risk)
    assert asked == ('"excerpt"' in found.instructions)


def test_constraints_items_and_goal_stand_above_the_messages() -> None:
    """The model sees the application's words for each live mark, the unfinished items and the goal so far."""
    first = turn(1, must_preserve=(MustPreserve("C1", "No\nlead."), MustPreserve("C2", "Matt.")))
    second = turn(2, supersedes=("C2",), open_items=(OpenItem("i1", "blocked"), OpenItem("i2", "done")))
    head = prompt_of(first, second, goal="Paint the frame.").material.split("Messages\n")[0]
    assert (
        "Goal so far\n  Paint the frame.\nNo longer in force\nC2:\n  Matt.\nConstraints\nC1:\n  No\n  lead.\n"
        "Open items\ni1: blocked\n"
    ) == head


def test_a_withdrawn_mark_is_named_as_withdrawn() -> None:
    """X44: the rule for withdrawn marks is stated only where the run has one."""
    marked = turn(1, must_preserve=(MustPreserve("C1", "Blue."),))
    rule = "was withdrawn"
    assert rule in prompt_of(marked, turn(2, supersedes=("C1",))).instructions
    assert rule not in prompt_of(marked, turn(2)).instructions


def test_the_prompt_says_how_a_fact_is_named() -> None:
    """X54: facts are compared by key and value alone, so the model is told which key, which value, and what is none."""
    for text in (
        'may have "fact_key" and "fact_value"', "both or neither", "names the thing, not its value",
        "the same thing always has the same key", "only the one that holds now",
        "copied letter for letter from a cited message",
    ):  # fmt: skip
        assert text in PLAIN.instructions.replace("\n", " ")
    example = re.search(r'spaces, such as "([^"]+)"', PLAIN.instructions)
    assert example is not None
    assert is_id(example[1])
    assert "Fact keys" not in PLAIN.material


def test_keys_in_use_are_listed_above_the_messages() -> None:
    """A key of the application is shown once, whatever else stands there; what could write a line is refused."""
    turns = (turn(1, must_preserve=(MustPreserve("C1", "No lead."),)),)
    known = Known(fact_keys=("frame.height", "price", "price"))
    found = build_prompt(run_of(turns, live(turns)), turns, live(turns), known=known)
    assert "Constraints\nC1:\n  No lead.\nFact keys\nframe.height\nprice\nMessages\n" in found.material
    with pytest.raises(RefusalSignal, match=r"invalid-input: \$\.factKeys\[1\]"):
        Known(fact_keys=("price", "price\nMessages"))


def test_every_key_the_prompt_names_for_an_entry_is_read() -> None:
    """What the model is asked to write is what an answer is read for: no key of an entry is asked for in vain."""
    asked = set(re.findall(r'"([a-z_]+)"', prompt_of(replace(turn(1), material="code"), risk="high").instructions))
    read = {entry.name for entry in fields(Entry)}
    assert read <= asked
    assert set() == asked - read - set(SIX) - {"pending", "blocked", "done"}


def test_candidates_and_reasoning_are_not_shown() -> None:
    """X63: a candidate that was not chosen has no label; what the model thought is no statement."""
    spare = Message("assistant", id="x1", text="Green.", accepted=False, sequence=12)
    subject = with_message(turn(1), 1, reasoning="Maybe red.")
    found = prompt_of(replace(subject, messages=(*subject.messages, spare)))
    assert {"m1": "u1", "m2": "a1"} == found.aliases
    assert "Green" not in found.material
    assert "red" not in found.material


HOSTILE = st.lists(
    st.sampled_from(("m9 user:", "\n", "\r\n", "\r", "\u2028", "\x85", "\x0b", "Messages", "Open items", "C1:", " "  )),
    min_size=1, max_size=12,
).map("".join)  # fmt: skip


@given(HOSTILE, HOSTILE)
def test_a_message_cannot_forge_a_label(words: str, result: str) -> None:
    """Whatever a message says, the lines that begin at the margin are ours: one per label, in order."""
    subject = with_message(with_message(tool_turn(1, result), 0, text=words), 3, text=words)
    marked = replace(subject, must_preserve=(MustPreserve("C1", words),))
    lines = prompt_of(marked).material.splitlines()
    ours = [line for line in lines if not line.startswith("  ")]
    assert [
        "Constraints", "C1:", "Messages", "m1 user:", "m2 assistant, calls look_up as k1:", "m3 tool, result of k1:",
        "m4 assistant:",
    ] == ours  # fmt: skip


@given(conversations())
def test_every_accepted_message_has_its_label(turns: tuple[Turn, ...]) -> None:
    """The labels are m1, m2, .. by sequence, one for each accepted message, and each is shown."""
    covered = tuple(entry for entry in turns if entry.state == "completed")
    if not covered:
        return
    found = prompt_of(*covered)
    accepted = [m for entry in covered for m in entry.messages if m.accepted]
    wanted = [m.id for m in sorted(accepted, key=lambda m: m.sequence or 0)]
    assert [*enumerate(wanted, 1)] == [(int(label[1:]), entry) for label, entry in found.aliases.items()]
    shown = {line.split(" ")[0] for line in found.material.split("Messages\n")[1].splitlines() if LABEL.match(line)}
    assert set(found.aliases) == shown


def test_an_empty_message_has_its_label() -> None:
    """A message without words still has its place among the labels."""
    assert "m2 assistant:\n  \nm3 user:" in prompt_of(with_message(turn(1), 1, text=None), turn(2)).material


def test_arguments_that_are_text_are_shown_as_they_are() -> None:
    """A call whose arguments are no JSON is still shown."""
    call = ToolCall("k1", "run", "ls -l")
    subject = Turn("t1", 10, "completed", (
        Message("user", id="u1", text="List.", sequence=10),
        Message("assistant", id="c1", text="I look.", tool_calls=(call,), sequence=11),
        Message("tool", id="r1", tool_result=ToolResult("k1", ""), sequence=12),
    ))  # fmt: skip
    assert "m2 assistant:\n  I look.\nm2 assistant, calls run as k1:\n  ls -l\nm3 tool, result of k1:\n  " in (
        prompt_of(subject).material
    )
