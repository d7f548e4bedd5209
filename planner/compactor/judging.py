"""Judge a model's answer on a fresh snapshot (R113, R114)."""

from __future__ import annotations

from planner.compaction.accept import Judged, judge
from planner.compactor.context import Context
from planner.values.compaction import Accepted, CompactionPlan, Rejected
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.view import View

MAX_SUMMARY_TOKENS = 4_096
"""The most a summary may cost, whatever it stands for (threats.md §2.2)."""


def judged(
    context: Context, plan: CompactionPlan, number: int, answer: str | None, view: View, *, active_plan_id: str | None
) -> Accepted | Rejected:
    """Return the record of an answer, or why there is none. Reads the run's turns again and writes nothing."""
    run = plan.runs[number]
    goal, goal_from = context.goal_before(run, view)
    case = Judged(
        plan=plan,
        run=run,
        turns=context.ledger.interval(context.conversation_id, run.covers_from, run.covers_to),
        frame=context.frame(view),
        active_plan_id=active_plan_id,
        summary_id=f"{plan.plan_id}.{number}",
        risk=context.choices.risk,
        goal=goal,
        goal_from=goal_from,
        summariser_bundle=None if context.summariser is None else context.summariser.model_bundle_id,
    )
    found = judge(answer, case)
    if isinstance(found, Accepted) and _too_long(context, found):
        return Rejected("invalid-summary", f"more_than_{MAX_SUMMARY_TOKENS}_tokens: $")
    return found


def _too_long(context: Context, found: Accepted) -> bool:
    """Tell whether the text is beyond the bound, as the summariser's own tokenizer counts; without one it is not."""
    if context.planning is None or context.summariser is None:
        return False
    text = found.record.summary_text
    if len(text.encode()) <= MAX_SUMMARY_TOKENS:  # a token has at least one byte
        return False
    answer = context.planning(
        PlanRequest(
            context.summariser.model_bundle_id, CurrentRequest(text=text), reserved_output_tokens=0,
            max_input_tokens=context.summariser.max_input_tokens,
        )
    )  # fmt: skip
    return not isinstance(answer, Plan) or answer.account.request_tokens > MAX_SUMMARY_TOKENS
