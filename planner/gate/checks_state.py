"""Constraints and summaries of a plan, judged from the request's turns, not by the planner's word (R93, R98, X24)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.steps.admit import admission_of
from planner.values.admission import citations_of
from planner.values.check_summary import SummaryFrame, summary_problem
from planner.values.compaction import Staleness
from planner.values.constraint import Constraint
from planner.values.gate import Expectation, Reason
from planner.values.plan import Plan
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


def live_constraints(request: PlanRequest) -> dict[str, Constraint]:
    """Replay marks and withdrawals of the request's turns, the slow way (R151, R152)."""
    live: dict[str, Constraint] = {}
    for turn in _spoken(request):
        for name in turn.supersedes:
            live.pop(name, None)
        for mark in turn.must_preserve:
            live[mark.constraint_id] = Constraint(mark.constraint_id, turn.id, mark.text)
    return live


def _spoken(request: PlanRequest) -> list[Turn]:
    return [turn for turn in sorted(request.turns, key=lambda turn: turn.sequence) if turn.state != "superseded"]


def check_constraints(request: PlanRequest, plan: Plan, expect: Expectation) -> Iterator[Reason]:
    """Give constraints that are lost, withdrawn, or claimed by an item that does not carry them."""
    live = live_constraints(request)
    able = carried_by_item(request, live)
    carried = {(key, name) for key, names in plan.carriers for name in names}
    expected = {(key, name) for key in plan.kept for name in able.get(key, ())}
    for _, name in sorted(carried - expected):
        yield Reason("constraint_unknown", name)
    for _, name in sorted(expected - carried):
        yield Reason("constraint_lost", name)
    for name in sorted(live.keys() - {name for _, name in carried & expected}):
        yield Reason("constraint_lost", name)
    for name in sorted(live.keys() ^ set(plan.constraint_ids)):
        yield Reason("constraint_lost" if name in live else "constraint_unknown", name)
    if expect.constraints is not None:
        for name in sorted(set(expect.constraints) ^ set(plan.constraint_ids)):
            yield Reason("constraint_lost" if name in expect.constraints else "constraint_withdrawn", name)


def carried_by_item(request: PlanRequest, live: Mapping[str, Constraint]) -> dict[str, set[str]]:
    """Return which live constraints each item of a request carries; a passage of a document carries none (X24)."""
    able: dict[str, set[str]] = {f"constraint/{name}": {name} for name in live}
    for one in live.values():
        able.setdefault(f"turn/{one.turn_id}", set()).add(one.id)
    for record in request.summaries:
        able[f"summary/{record.id}"] = live.keys() & set(record.required_constraint_ids)
    return able


def check_citations(request: PlanRequest, plan: Plan) -> Iterator[Reason]:
    """Give passages that claims and dates do not admit, and turns that cite what may not be used any more (R159)."""
    admitted, admission = admission_of(request, request.turns)
    refused = {f"passage/{one.citation_id}" for one in request.passages}
    refused -= {f"passage/{one.citation_id}" for one in admitted.passages}
    refused |= {f"turn/{turn.id}" for turn in request.turns if admission.revoked.intersection(citations_of(turn))}
    for key in plan.kept:
        if key in refused:
            yield Reason("citation_not_permitted", key)


def check_summaries(request: PlanRequest, plan: Plan, stale: tuple[SummaryRecord, ...] = ()) -> Iterator[Reason]:
    """Give summaries that were used although a source changed, and fates that are not true (R85, R97, R117)."""
    summaries = (*request.summaries, *stale)
    uses = {use.id: use for use in plan.receipt.summaries}
    fates = {name: use.fate for name, use in uses.items()}
    if fates.keys() != {one.id for one in summaries}:
        yield Reason("summary_fate_differs", "receipt")
    _, admission = admission_of(request, request.turns)
    frame = SummaryFrame(
        request.conversation_id, request.generation, request.policy_version,
        constraints=tuple(live_constraints(request).values()), revoked_citation_ids=admission.revoked,
    )  # fmt: skip
    for record in summaries:
        problem = summary_problem(record, request.turns, frame)
        fate, refused = fates.get(record.id), problem is not None
        told = fate in ("stale-source", "invalid-summary")
        if fate == "stale-source" and isinstance(problem, Staleness):
            told = uses[record.id].cause == problem.cause
        if fate == "used" and refused:
            yield Reason("stale_summary_used", record.id)
        elif told != refused:
            yield Reason("summary_fate_differs", record.id)
