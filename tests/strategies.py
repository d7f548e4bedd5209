"""Shared generators: requests, turns, passages and summaries that a plan may be asked for.

Everything drawn is valid by itself; what the window allows is the caller's business (`tests.laws.common`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from planner.values.passage import Passage
from planner.values.request import CurrentRequest, Options, OutputSchema, PlanRequest, TextItem, Tool
from planner.values.summary import SummaryRecord, SummaryState
from planner.values.turn import Message, ToolCall, ToolResult, Turn, TurnState

CONTROL_TEXTS = ("<|end|>", "<|user|>", "<|", "|>", "<|im_end|>", "<think>", "<tool_call>")
_WORDS = ("a", "be", "sea", "note", "rain", "12", "é", "中文", "🙂", "\n", "  ", '{"k": 1}', *CONTROL_TEXTS)
TEXT = st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join)
SOME_TEXT = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map(" ".join).filter(str.strip)
PLAIN_TEXT = st.text("abcdefghij ", min_size=1, max_size=40).filter(str.strip)


@dataclass(frozen=True)
class Wanted:
    """What generated requests may hold; the defaults are everything."""

    texts: st.SearchStrategy[str] = SOME_TEXT
    states: tuple[TurnState, ...] = ("completed", "completed", "completed", "cancelled", "superseded")
    tools: bool = True
    parallel: bool = True
    late_system: bool = True
    pins: bool = True
    passages: bool = True
    unanswered: bool = True
    max_turns: int = 7


ALL = Wanted()


@st.composite
def tool_rounds(draw: st.DrawFn, wanted: Wanted, prefix: str, *, may_wait: bool) -> list[Message]:
    """Draw calls and results; with `may_wait` the last result may be missing."""
    count = draw(st.integers(1, 3 if wanted.parallel else 1))
    names = st.sampled_from(("look_up", "send"))
    given = st.one_of(st.dictionaries(st.sampled_from(("q", "n")), wanted.texts, max_size=2), st.just('{"q": 1}'))
    calls = tuple(ToolCall(f"{prefix}c{number}", draw(names), draw(given)) for number in range(count))
    beside = draw(st.one_of(st.none(), wanted.texts)) if wanted.parallel else None
    reasoning = draw(st.one_of(st.none(), st.none(), PLAIN_TEXT))
    out = [Message("assistant", id=f"{prefix}a", text=beside, tool_calls=calls, reasoning=reasoning)]
    for number, call in enumerate(calls):
        result = ToolResult(call.id, draw(st.one_of(st.just(""), wanted.texts)))
        out.append(Message("tool", id=f"{prefix}r{number}", tool_result=result))
    return out[:-1] if may_wait and count > 1 and draw(st.booleans()) else out


@st.composite
def turn_of(draw: st.DrawFn, turn_id: str, sequence: int, state: TurnState, wanted: Wanted = ALL) -> Turn:
    """Draw one turn in a state."""
    messages: list[Message] = []
    if wanted.late_system and draw(st.integers(0, 7)) == 0:
        messages.append(Message("system", id=f"{turn_id}s", text=draw(wanted.texts)))
    reason = draw(st.sampled_from((None,) * 5 + ("audit-evidence",))) if wanted.pins else None
    messages.append(Message("user", id=f"{turn_id}u", text=draw(wanted.texts), protection_reason=reason))
    if wanted.tools and draw(st.booleans()):
        messages += draw(tool_rounds(wanted, turn_id, may_wait=False))
        answered = state != "open"
    else:
        answered = state != "open" and not (wanted.unanswered and draw(st.integers(0, 5)) == 0)
    if answered:
        if draw(st.integers(0, 7)) == 0:
            messages.append(Message("assistant", id=f"{turn_id}x", text=draw(wanted.texts), accepted=False))
        messages.append(Message("assistant", id=f"{turn_id}y", text=draw(wanted.texts)))
    return Turn(turn_id, sequence, state, tuple(messages))


@st.composite
def histories(draw: st.DrawFn, wanted: Wanted = ALL) -> tuple[Turn, ...]:
    """Draw turns by sequence, with gaps, none of them the request's own."""
    sequence, out = 0, []
    for number in range(draw(st.integers(0, wanted.max_turns))):
        sequence += draw(st.integers(1, 3))
        out.append(draw(turn_of(f"t{number}", sequence, draw(st.sampled_from(wanted.states)), wanted)))
    return tuple(out)


@st.composite
def passage_lists(draw: st.DrawFn, texts: st.SearchStrategy[str] = SOME_TEXT) -> tuple[Passage, ...]:
    """Draw up to four passages; equal relevance is likely."""
    count = draw(st.integers(0, 4))
    values = st.sampled_from((0.0, 0.2, 0.5, 0.5, 1.0))
    found = [Passage(f"c{number}", draw(texts), draw(values)) for number in range(count)]
    # Two that say the same are a duplicate; what becomes of it, tests/evidence asks.
    return tuple(replace(one, text=f"{one.text} {at}") for at, one in enumerate(found))


def tool_of(name: str, text: str) -> Tool:
    """Return a small declaration."""
    parameters = {"type": "object", "properties": {"q": {"type": "string", "description": text}}}
    function = {"name": name, "description": text, "parameters": parameters}
    return Tool(f"tool-{name}", {"type": "function", "function": function})


@st.composite
def requests(
    draw: st.DrawFn, bundle_id: str, wanted: Wanted = ALL, options: Callable[[st.DrawFn], Options] | None = None
) -> PlanRequest:
    """Draw a request for a bundle: a question, or an open turn to be continued."""
    turns = draw(histories(wanted))

    def items(name: str) -> tuple[TextItem, ...]:
        count = draw(st.integers(0, 2))
        return tuple(TextItem(f"{name}{number}", draw(wanted.texts)) for number in range(count))

    last = turns[-1].sequence if turns else 0
    if draw(st.booleans()):
        question = CurrentRequest(id="q", text=draw(wanted.texts), required_parameters=items("parameter"))
    else:
        own = draw(turn_of("own", last + 1, "open", wanted))
        turns = (*turns, own)
        question = CurrentRequest(id="q", turn_id="own")
    names = draw(st.sets(st.sampled_from(("look_up", "send")))) if wanted.tools else ()
    schema = OutputSchema("answer", {"type": "object", "title": draw(wanted.texts)})
    chosen = options(draw) if options is not None else Options()
    return PlanRequest(
        bundle_id, question, policy=items("policy"), data_scope=items("scope"), preferences=items("preference"),
        tools=tuple(tool_of(name, draw(wanted.texts)) for name in sorted(names)),
        output_schema=draw(st.sampled_from((None, schema))), turns=turns, options=chosen,
        passages=draw(passage_lists(wanted.texts)) if wanted.passages else (),
        reserved_output_tokens=draw(st.integers(0, 20)), safety_margin_tokens=draw(st.integers(0, 3)),
        max_input_tokens=1_000_000,
    )  # fmt: skip


@st.composite
def summaries_of(draw: st.DrawFn, turns: tuple[Turn, ...]) -> tuple[SummaryRecord, ...]:
    """Draw current summaries of runs of whole completed unprotected turns that do not overlap."""
    out: list[SummaryRecord] = []
    at = 0
    while at < len(turns):
        length = draw(st.integers(1, 3))
        run = turns[at : at + length]
        at += length
        if all(turn.state == "completed" and not turn.pinned for turn in run) and draw(st.booleans()):
            out.append(summary_of(f"s{len(out)}", run, draw(SOME_TEXT)))
    return tuple(out)


def summary_of(summary_id: str, run: tuple[Turn, ...], text: str, **fields: Any) -> SummaryRecord:
    """Return a summary of a run of turns."""
    ids = tuple(message.id for turn in run for message in turn.messages if message.id)
    return SummaryRecord(
        id=summary_id, plan_id="plan", conversation_id="chat", source_generation=1, source_revision=0,
        source_ids=ids, source_fingerprint="0" * 64, covers_from=run[0].sequence, covers_to=run[-1].sequence,
        through_sequence=run[-1].sequence, policy_version="unversioned", strategy_version="1",
        summary_text=text, state=SummaryState(goal="goal"), **{"summary_version": 1, **fields},
    )  # fmt: skip
