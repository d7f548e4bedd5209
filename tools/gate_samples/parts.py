"""Words and small parts of the gate's samples: a help desk of a building, in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from planner.values.check_summary import run_of
from planner.values.compaction import STRATEGY_VERSION
from planner.values.constraint import Constraint
from planner.values.gate import Boundary, Event, Expectation, Family, Sample
from planner.values.passage import Claims, Passage, Source
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Message, MustPreserve, ToolCall, ToolResult, Turn

CONVERSATION = "desk"
POLICY_VERSION = "desk-3"
NOW = "2026-11-30T09:00:00Z"
CLAIMS = Claims("tower-9", ("handbook", "tickets"), ("facility", "fire"))

POLICY = (
    TextItem("role", "You answer for the help desk of tower 9. Say so when you do not know."),
    TextItem("safety", "Never tell anyone to open a lift shaft, a switch cabinet or a fire door that is locked."),
    TextItem("promise", "Never promise a date for a repair."),
)
KEPT = tuple(f"policy/{item.id}" for item in POLICY)
RULE = "Only floors above 4 may be named."
QUESTION = CurrentRequest("q", text="What should I tell the tenants on floor 12 now?")

_ENGLISH = (
    ("The lift on the north side stops between floors {n} and {m}.", "Noted: north lift, floors {n} to {m}."),
    ("Who has the key of meter room {n}?", "The caretaker of wing {m} keeps it; the log has entry {n}."),
    (
        "Tenants in {n}0{m} say that the corridor light flickers.",
        "A ticket for corridor {n} is open since {m} o'clock.",
    ),
    ("Is the loading bay free at {n}:30?", "Bay {m} is free then, bay {n} is not."),
)
_CHINESE = (
    ("{n} 号电梯在 {m} 层和 {n}{m} 层之间停住了。", "已记录:{n} 号电梯,{m} 层附近。"),
    ("{n} 层的配电间钥匙在谁那里?", "在 {m} 号楼的管理员那里,登记簿第 {n} 条。"),
    ("{n}0{m} 室的住户说走廊的灯一直闪。", "{n} 层走廊的工单从 {m} 点开始处理。"),
    ("下午 {n} 点卸货区还有空位吗?", "{m} 号卸货区有,{n} 号没有。"),
)


def talk(number: int, *, chinese: bool = False, **fields: Any) -> Turn:
    """Return a completed turn t<number> of a question and an answer; sequences are ten times the number."""
    asked, told = (_CHINESE if chinese else _ENGLISH)[number % 4]
    words = [text.format(n=number, m=number % 7 + 2) for text in (asked, told)]
    messages = (
        Message("user", f"u{number}", words[0], sequence=number * 10),
        Message("assistant", f"a{number}", words[1], sequence=number * 10 + 1),
    )
    return Turn(**{
        "id": f"t{number}", "sequence": number * 10, "state": "completed", "messages": messages, **fields,
    })  # fmt: skip


def talks(count: int, *, chinese: bool = False) -> tuple[Turn, ...]:
    """Return turns t1..t<count>."""
    return tuple(talk(number, chinese=chinese) for number in range(1, count + 1))


def looked_up(number: int, *, state: Any = "completed", calls: int = 1, long: int = 1) -> Turn:
    """Return a turn with a call and its result for each of `calls`; an open one waits for its answer."""
    at = number * 10
    names = [f"k{number}_{call}" for call in range(calls)]
    messages = [
        Message("user", f"u{number}", f"Look up the tickets of floor {number}.", sequence=at),
        Message("assistant", f"c{number}", sequence=at + 1, tool_calls=tuple(
            ToolCall(name, "find_tickets", {"floor": number, "page": page}) for page, name in enumerate(names)
        )),
    ]  # fmt: skip
    for place, name in enumerate(names):
        text = (
            f'{{"floor": {number}, "tickets": [' + ", ".join(f'"T-{number}{place}{row}"' for row in range(long)) + "]}"
        )
        messages.append(
            Message("tool", f"r{number}_{place}", sequence=at + 2 + place, tool_result=ToolResult(name, text))
        )
    if state != "open":
        messages.append(Message("assistant", f"a{number}", f"Floor {number} has open tickets.", sequence=at + 9))
    return Turn(f"t{number}", at, state, tuple(messages))


TOOLS = (
    Tool("find_tickets", {"type": "function", "function": {
        "name": "find_tickets", "description": "List the open tickets of a floor.",
        "parameters": {"type": "object", "required": ["floor"], "properties": {
            "floor": {"type": "integer", "description": "Number of the floor."},
            "page": {"type": "integer", "description": "Page, from 0."},
        }},
    }}),
)  # fmt: skip


def with_message(turn: Turn, place: int, **fields: Any) -> Turn:
    """Return the turn with one message changed."""
    messages = list(turn.messages)
    messages[place] = replace(messages[place], **fields)
    return replace(turn, messages=tuple(messages))


def protected(turn: Turn) -> Turn:
    """Return the turn with its question waiting for a confirmation."""
    return with_message(turn, 0, protection_reason="pending-confirmation")


def marked(turn: Turn, name: str, text: str | None) -> Turn:
    """Return the turn with a constraint marked on it."""
    return replace(turn, must_preserve=(MustPreserve(name, text),))


def passage(name: str, text: str, **fields: Any) -> Passage:
    """Return a passage that the claims cover; fields change what it states."""
    return Passage(**{
        "citation_id": name, "text": text, "relevance": 0.8, "tenant": "tower-9", "dataset": "handbook",
        "source": Source("facility", 2), "valid_from": "2026-01-01T00:00:00Z", "valid_to": "2027-01-01T00:00:00Z",
        **fields,
    })  # fmt: skip


def asked(turns: Iterable[Turn] = (), **fields: Any) -> PlanRequest:
    """Return a request of the help desk over these turns."""
    return PlanRequest(**{
        "model_bundle_id": "reference", "conversation_id": CONVERSATION, "policy_version": POLICY_VERSION,
        "policy": POLICY, "request": QUESTION, "turns": tuple(turns), "reserved_output_tokens": 64, "now": NOW,
        **fields,
    })  # fmt: skip


def summary(covered: Sequence[Turn], every: Sequence[Turn], name: str = "s1", **fields: Any) -> SummaryRecord:
    """Return a sound summary of a run of turns among `every`, as the accept step would leave it."""
    live: dict[str, Constraint] = {}
    for turn in every:
        for target in turn.supersedes:
            live.pop(target, None)
        for mark in turn.must_preserve:
            live[mark.constraint_id] = Constraint(mark.constraint_id, turn.id, mark.text)
    run = run_of(tuple(covered), tuple(live.values()))
    texts = {mark.constraint_id: mark.text or "" for turn in covered for mark in turn.must_preserve}
    state = SummaryState(
        goal="Keep the tenants informed.",
        constraints=tuple(StateEntry(texts[one], id=one) for one in run.required_constraint_ids),
        evidence=(StateEntry("Lifts and lights were reported.", message_ids=run.source_ids[:1]),),
    )
    return SummaryRecord(**{
        "id": name, "plan_id": "p1", "conversation_id": CONVERSATION, "source_generation": 1, "source_revision": 0,
        "source_ids": run.source_ids, "source_versions": run.source_versions,
        "source_fingerprint": run.source_fingerprint, "protected_fingerprint": run.protected_fingerprint,
        "covers_from": run.covers_from, "covers_to": run.covers_to, "through_sequence": run.through_sequence,
        "summary_version": 1, "policy_version": POLICY_VERSION, "strategy_version": STRATEGY_VERSION,
        "summary_text": "Lifts and lights were reported; tickets are open.", "state": state,
        "required_constraint_ids": run.required_constraint_ids, "open_items": run.open_items,
        "citation_ids": run.citation_ids, **fields,
    })  # fmt: skip


def fact(value: str, source: str) -> ConfirmedFact:
    """Return a fact that a summary holds, with the message it rests on."""
    return ConfirmedFact("f1", f"The hotline is {value}.", "hotline", value, (source,))


def sample(
    name: str,
    family: Family,
    request: PlanRequest,
    *,
    boundary: Boundary | None = None,
    events: Sequence[Event] = (),
    **expect: Any,
) -> Sample:
    """Return a sample; what is demanded is given by name."""  # fmt: skip
    return Sample(name, family, request, Expectation(**expect), boundary, tuple(events))


def edges(family: Family, request: PlanRequest, **over: Any) -> Iterator[Sample]:
    """Give the two samples at the limit: everything fits to the token, and one token less makes something leave."""
    name = family.replace("_", "-")
    yield sample(f"{name}-exact", family, request, boundary="exact", kept=KEPT, reduced=False)
    yield sample(f"{name}-one-over", family, request, boundary="one_over", **{"kept": KEPT, **over})
