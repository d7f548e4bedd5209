"""One run about a bicycle and a good answer to it, both to be changed by the tests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from planner.compaction.accept import Judged, judge
from planner.values.check_summary import run_of
from planner.values.compaction import STRATEGY_VERSION, Accepted, CompactionPlan, Rejected
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn
from tests.compaction.chats import CHAT, POLICY, frame, live

LONG = "Stock list of 3 March. " + "; ".join(f"shelf {n} holds {n * 7} tins of paint" for n in range(1, 12))
TURNS = (
    Turn("t1", 10, "completed", (
        Message("user", id="u1", text="Paint the frame blue, please. It is 58 cm high.", sequence=10),
        Message("assistant", id="a1", text="I will order 2 tins. I guess that takes 3 days.", sequence=11),
    ), must_preserve=(MustPreserve("C1", "No lead\npaint."),)),
    Turn("t2", 20, "completed", (
        Message("user", id="u2", text="Take matt paint for 32 euro. Nadia picks it up. Need a primer?", sequence=20),
        Message("assistant", id="c2", tool_calls=(ToolCall("k2", "stock", {"item": "matt-7"}),), sequence=21),
        Message("tool", id="r2", tool_result=ToolResult("k2", LONG), citation_ids=("src-1",), sequence=22),
        Message("assistant", id="a2", text="The list is in stock.csv.", sequence=23),
    ), open_items=(OpenItem("i1", "pending"), OpenItem("i2", "done"))),
)  # fmt: skip
GOOD: dict[str, Any] = {
    "goal": "Paint the 58 cm frame blue.",
    "decisions": [{"text": "Take matt paint for 32 EUR.", "sources": ["m3"]}],
    "constraints": [{"id": "C1"}],
    "open_actions": [
        {"text": "Pick up the paint.", "owner": "Nadia", "status": "pending", "id": "i1", "sources": ["m3"]},
        {"text": "Order 2 tins.", "status": "pending", "sources": ["m2"]},
    ],
    "questions": [{"text": "Is a primer needed?", "sources": ["m3"]}],
    "evidence": [
        {"text": "The frame is 58 cm high.", "sources": ["m1"], "fact_key": "frame.height", "fact_value": "58 cm"},
        {"text": "The assistant guesses 3 days.", "sources": ["m2"]},
        {"text": "Shelf 2 holds 14 tins.", "sources": ["m5"], "excerpt": "shelf 2 holds 14 tins"},
    ],
}


def case(turns: tuple[Turn, ...] = TURNS, **fields: Any) -> Judged:
    """Return what an answer about these turns is judged against, right after their plan."""
    run = run_of(turns, live(turns))
    plan = CompactionPlan("p1", CHAT, "main", 1, 5, POLICY, STRATEGY_VERSION, (run,), ())
    return Judged(**{
        "plan": plan, "run": run, "turns": turns, "frame": frame(turns), "active_plan_id": "p1", "summary_id": "s7",
        "summary_version": 2, "risk": "low", **fields,
    })  # fmt: skip


def verdict(answer: Any = None, **fields: Any) -> Accepted | Rejected:
    """Judge the good answer with some of its six fields changed, or an answer given as text."""
    if isinstance(answer, str):
        return judge(answer, case(**fields))
    return judge(json.dumps({**GOOD, **(answer or {})}), case(**fields))


def record(answer: Any = None, **fields: Any) -> SummaryRecord:
    """Return the accepted record; fails where there is none."""
    found = verdict(answer, **fields)
    assert isinstance(found, Accepted), found
    return found.record


def flaw(answer: Any = None, **fields: Any) -> str:
    """Return the name of the flaw for which an answer is refused."""
    found = verdict(answer, **fields)
    assert isinstance(found, Rejected), found
    assert "invalid-summary" == found.reason
    return found.detail.partition(":")[0]


def entry(place: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    """Return the field of the good answer with one entry changed; None takes a key away."""
    changed = {key: value for key, value in {**GOOD[place][index], **fields}.items() if value is not None}
    return {place: [*GOOD[place][:index], changed, *GOOD[place][index + 1 :]]}


def more(place: str, **fields: Any) -> dict[str, Any]:
    """Return the field of the good answer with one entry more."""
    return {place: [*GOOD[place], fields]}


def with_material(material: Any) -> tuple[Turn, ...]:
    """Return the run's turns with a material."""
    return tuple(replace(turn, material=material) for turn in TURNS)
