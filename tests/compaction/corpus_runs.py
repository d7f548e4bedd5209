"""The runs and cases of the corpora as values of the planner, and the verdict on one case."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from planner.compaction.accept import Judged, judge
from planner.values.check_summary import SummaryFrame, run_of
from planner.values.compaction import STRATEGY_VERSION, Accepted, CompactionPlan, Rejected
from planner.values.constraint import Constraint
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn

HERE = Path(__file__).resolve().parent / "corpus"


@cache
def rows(name: str) -> tuple[dict[str, Any], ...]:
    """Return the lines of one corpus file."""
    return tuple(json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())


@cache
def case_of(run: str) -> Judged:
    """Return what answers to a run are judged against: nothing has changed since its plan."""
    row = next(row for row in rows("runs") if row["run"] == run)
    turns = tuple(map(_turn, row["turns"]))
    marks = tuple(Constraint(mark.constraint_id, turn.id, mark.text) for turn in turns for mark in turn.must_preserve)
    frame = SummaryFrame(run, 1, "policy-1", constraints=marks)
    made = run_of(turns, marks)
    plan = CompactionPlan("p1", run, "main", 1, 0, "policy-1", STRATEGY_VERSION, (made,), ())
    return Judged(plan, made, turns, frame, active_plan_id="p1", summary_id=f"s-{run}", risk=row["risk"])


def verdict(row: dict[str, Any]) -> Accepted | Rejected:
    """Return how the accept step judges a case."""
    return judge(row["output"], case_of(row["run"]))


def _turn(row: dict[str, Any]) -> Turn:
    return Turn(
        row["id"], row["sequence"], row["state"], tuple(map(_message, row["messages"])),
        must_preserve=tuple(MustPreserve(mark["constraintId"], mark["text"]) for mark in row["mustPreserve"]),
        open_items=tuple(OpenItem(item["id"], item["status"]) for item in row["openItems"]),
        material=row["material"],
    )  # fmt: skip


def _message(row: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in row.get("toolCalls", ()))
    result = row.get("toolResult")
    return Message(
        row["role"], id=row["id"], text=row.get("text"), tool_calls=calls,
        tool_result=ToolResult(result["callId"], result["text"]) if result else None,
    )  # fmt: skip
