"""The one place where an answer meets the planner's gate."""

from __future__ import annotations

from planner.compaction.accept import Judged, judge
from planner.compaction.propose import Material
from planner.values.check_summary import SummaryFrame
from planner.values.compaction import CompactionPlan, Rejected, Risk

RISK: Risk = "high"
"""Nobody states a risk in the kit's sessions, so it counts as high (X28)."""


def accepted_text(answer: str, plan: CompactionPlan, material: Material) -> str | Rejected:
    """Return the text of the summary that an answer to the plan's one run makes, or why it makes none."""
    frame = SummaryFrame(
        conversation_id=material.conversation_id,
        generation=material.generation,
        policy_version=material.policy_version,
        constraints=material.constraints,
    )
    case = Judged(plan, plan.runs[0], tuple(material.turns), frame, plan.plan_id, summary_id="conformance-1", risk=RISK)
    found = judge(answer, case)
    return found if isinstance(found, Rejected) else found.record.summary_text
