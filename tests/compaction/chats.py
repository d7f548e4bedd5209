"""Small conversations for the tests of compaction: turns by hand, turns drawn, and a summary made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from planner.compaction.propose import Material
from planner.values.check_summary import SummaryFrame, run_of
from planner.values.compaction import STRATEGY_VERSION
from planner.values.constraint import Constraint
from planner.values.summary import StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn, TurnState

POLICY = "policy-1"
CHAT = "chat"


def turn(number: int, state: TurnState = "completed", **fields: Any) -> Turn:
    """Return a turn of a question and an answer; message sequences leave room for late results."""
    sequence = number * 10
    messages = (
        Message("user", id=f"u{number}", text=f"Question {number}.", sequence=sequence),
        Message("assistant", id=f"a{number}", text=f"Answer {number}.", sequence=sequence + 1),
    )
    return Turn(**{"id": f"t{number}", "sequence": sequence, "state": state, "messages": messages, **fields})


def tool_turn(number: int, result: str, **fields: Any) -> Turn:
    """Return a turn with one call and its result."""
    sequence = number * 10
    messages = (
        Message("user", id=f"u{number}", text=f"Look up {number}.", sequence=sequence),
        Message(
            "assistant", id=f"c{number}", tool_calls=(ToolCall(f"k{number}", "look_up", {"q": number}),),
            sequence=sequence + 1,
        ),
        Message("tool", id=f"r{number}", tool_result=ToolResult(f"k{number}", result), sequence=sequence + 2),
        Message("assistant", id=f"a{number}", text=f"Done {number}.", sequence=sequence + 3),
    )  # fmt: skip
    return Turn(**{"id": f"t{number}", "sequence": sequence, "state": "completed", "messages": messages, **fields})


def protected(subject: Turn, reason: Any = "active-constraint", place: int = 0) -> Turn:
    """Return the turn with one message protected."""
    return with_message(subject, place, protection_reason=reason)


def with_message(subject: Turn, place: int, **fields: Any) -> Turn:
    """Return the turn with one message changed."""
    messages = list(subject.messages)
    messages[place] = replace(messages[place], **fields)
    return replace(subject, messages=tuple(messages))


def material(*turns: Turn, **fields: Any) -> Material:
    """Return a conversation of these turns with every mark live that no later turn supersedes."""
    return Material(**{
        "conversation_id": CHAT, "turns": turns, "policy_version": POLICY, "constraints": live(turns), **fields,
    })  # fmt: skip


def live(turns: tuple[Turn, ...]) -> tuple[Constraint, ...]:
    """Return the constraints in force, the slow way: replay every turn by sequence."""
    found: dict[str, Constraint] = {}
    for entry in sorted(turns, key=lambda entry: entry.sequence):
        if entry.state == "superseded":
            continue
        for target in entry.supersedes:
            found.pop(target, None)
        for mark in entry.must_preserve:
            found[mark.constraint_id] = Constraint(mark.constraint_id, entry.id, mark.text)
    return tuple(found.values())


def frame(turns: tuple[Turn, ...], **fields: Any) -> SummaryFrame:
    """Return what a plan judges summaries of these turns against."""
    return SummaryFrame(**{
        "conversation_id": CHAT, "generation": 1, "policy_version": POLICY, "constraints": live(turns), **fields,
    })  # fmt: skip


def record(covered: tuple[Turn, ...], whole: tuple[Turn, ...] | None = None, **fields: Any) -> SummaryRecord:
    """Return a sound summary of a whole interval, as the accept step would leave it.

    whole  the conversation, where turns beside the covered ones withdraw a constraint; the interval alone otherwise.
    """
    run = run_of(covered, live(whole or covered))
    texts = {mark.constraint_id: mark.text or "" for entry in covered for mark in entry.must_preserve}
    statuses = {item.id: item.status for entry in covered for item in entry.open_items}
    state = SummaryState(
        goal="Ask a question.",
        constraints=tuple(StateEntry(texts[entry], id=entry) for entry in run.required_constraint_ids),
        open_actions=tuple(StateEntry("Do it.", id=entry, status=statuses[entry]) for entry in run.open_items),
        evidence=(StateEntry("It was asked.", message_ids=run.source_ids[:1]),),
    )
    return SummaryRecord(**{
        "id": "s1", "plan_id": "p1", "conversation_id": CHAT, "source_generation": 1, "source_revision": 0,
        "source_ids": run.source_ids, "source_versions": run.source_versions,
        "source_fingerprint": run.source_fingerprint, "protected_fingerprint": run.protected_fingerprint,
        "covers_from": run.covers_from, "covers_to": run.covers_to, "through_sequence": run.through_sequence,
        "summary_version": 1, "policy_version": POLICY, "strategy_version": STRATEGY_VERSION,
        "summary_text": "Goal: Ask a question.", "state": state,
        "required_constraint_ids": run.required_constraint_ids, "open_items": run.open_items,
        "citation_ids": run.citation_ids, **fields,
    })  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn, most: int = 9) -> tuple[Turn, ...]:
    """Draw turns of every state with gaps, protection, marks, withdrawals, items, candidates and late results."""
    out: list[Turn] = []
    marked: list[str] = []
    number = 0
    for _ in range(draw(st.integers(0, most))):
        number += draw(st.integers(1, 3))
        state = draw(st.sampled_from(("completed",) * 5 + ("cancelled", "superseded", "open")))
        entry = tool_turn(number, "ok", state=state) if draw(st.booleans()) else turn(number, state)
        if draw(st.integers(0, 4)) == 0:
            entry = protected(entry, draw(st.sampled_from(("pending-confirmation", "audit-evidence"))))
        if draw(st.integers(0, 4)) == 0:
            supersedes = tuple(draw(st.sets(st.sampled_from(marked), max_size=1))) if marked else ()
            mark = MustPreserve(f"C{number}", draw(st.sampled_from((None, "Keep it blue."))))
            entry = replace(entry, must_preserve=(mark,), supersedes=supersedes)
            marked.append(mark.constraint_id)
        if draw(st.integers(0, 4)) == 0:
            entry = replace(entry, open_items=(OpenItem(f"i{number}", draw(st.sampled_from(("pending", "done")))),))
        if draw(st.integers(0, 5)) == 0:
            spare = Message("assistant", id=f"x{number}", text="Other.", accepted=False, sequence=number * 10 + 8)
            entry = replace(entry, messages=(*entry.messages, spare))
        out.append(entry)
    return tuple(out)
