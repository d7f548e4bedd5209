"""Freeze what to summarise, fitted to the summariser's window, and write its calls (X66, R215)."""

from __future__ import annotations

from collections.abc import Iterator

from planner.compaction.call import PromptedRun, summary_messages, summary_request
from planner.compaction.prompt import Known, SummaryPrompt, build_prompt
from planner.compaction.propose import Material, propose, split, with_runs
from planner.compaction.strategy import Settings
from planner.compactor.context import Context
from planner.ledger.rejections import MAX_ATTEMPTS
from planner.values.check_summary import run_now
from planner.values.compaction import CompactionPlan, Run, Unplanned
from planner.values.digest import canonical, digest
from planner.values.plan import Plan, Refusal
from planner.values.view import View

_RESERVE = 1_024
_KEYS_OF_SUMMARIES = 32


def proposed(context: Context, view: View) -> CompactionPlan | Unplanned:
    """Return the plan of what to summarise; nothing is stored.

    A run whose call does not fit the summariser's window is split at turn boundaries; a single turn that does not
    fit stays raw. Where every call is refused, and one of them for another cause than its size, that cause is told.
    """
    material = context.material(view)
    choices = context.choices
    settings = Settings(
        _plan_id(context, view), choices.tail_turns, choices.min_run_turns, merge_neighbours=choices.merge_neighbours
    )
    plan = propose(material, settings)
    if isinstance(plan, Unplanned) or context.planning is None:
        return plan
    refused: list[Refusal] = []
    runs = tuple(part for run in plan.runs for part in _fitting(context, run, material, view, refused))
    if runs:
        return with_runs(plan, runs, material)
    other = next((one for one in refused if one.outcome != "context_policy_overflow"), None)
    if other is not None:
        return Unplanned(other.reason, f"the summariser's call: {other.detail}")
    return Unplanned("nothing_to_compact", "no run fits the summariser")


def unfinished(context: Context, view: View) -> CompactionPlan | None:
    """Return the active plan where a run of it still waits for a summary and no waiting run has changed."""
    plan = context.ledger.active_plan(context.conversation_id)
    if plan is None or (plan.generation, plan.branch) != (view.generation, view.branch):
        return None
    if (plan.policy_version, plan.strategy_version) != (context.active.policy_version, context.active.strategy_version):
        return None
    covered = {(record.covers_from, record.covers_to) for record in view.summaries}
    waiting = [run for run in plan.runs if (run.covers_from, run.covers_to) not in covered]
    if rests_on_revoked(context, plan, view):
        return None
    for run in waiting:
        if context.ledger.rejections(context.conversation_id, run.source_fingerprint) >= MAX_ATTEMPTS:
            continue
        inside = context.ledger.interval(context.conversation_id, run.covers_from, run.covers_to)
        if not isinstance(run_now(run, inside, view.constraints), Run):
            return None
    return plan if waiting else None


def rests_on_revoked(context: Context, plan: CompactionPlan, view: View) -> bool:
    """Tell whether a run of a plan covers a message whose source may not be used any more (X39)."""
    revoked = context.revoked(view)
    return any(not revoked.isdisjoint(run.citation_ids) for run in plan.runs)


def _plan_id(context: Context, view: View) -> str:
    # The same snapshot and choices give the same plan, so proposing twice is one plan.
    seen = [
        view.conversation_id, view.branch, view.generation, view.event, context.choices, context.summariser
    ]  # fmt: skip
    return "c-" + digest(canonical(seen))[:24]


def _fitting(context: Context, run: Run, material: Material, view: View, refused: list[Refusal]) -> Iterator[Run]:
    answer = _planned(context, run, _prompt(context, run, material, view))
    if isinstance(answer, Plan):
        yield run
        return
    if answer is not None:
        refused.append(answer)
    if len(run.turn_ids) > 1:
        for half in split(run, material.turns, len(run.turn_ids) // 2, material.constraints):
            yield from _fitting(context, half, material, view, refused)


def _prompt(context: Context, run: Run, material: Material, view: View) -> SummaryPrompt:
    goal, _ = context.goal_before(run, view)
    known = Known(goal, tuple(context.ledger.resolutions(context.conversation_id)), _fact_keys(context, view))
    return build_prompt(run, material.turns, material.constraints, risk=context.choices.risk, known=known)


def _fact_keys(context: Context, view: View) -> tuple[str, ...]:
    """Return the application's keys of facts, then the newest that current summaries use beside them (X54)."""
    facts = [fact.fact_key for record in view.summaries for fact in record.confirmed_facts if fact.fact_key is not None]
    used = tuple(dict.fromkeys(reversed(facts)))[:_KEYS_OF_SUMMARIES]
    return (*context.choices.fact_keys, *sorted(set(used).difference(context.choices.fact_keys)))


def _planned(context: Context, run: Run, prompt: SummaryPrompt) -> Plan | Refusal | None:
    if context.planning is None or context.summariser is None:
        return None
    return context.planning(summary_request(prompt, context.summariser, f"run-{run.covers_from}-{run.covers_to}"))


def prompted(context: Context, plan: CompactionPlan, view: View) -> Iterator[PromptedRun]:
    """Yield the call of each run of a plan, exact ids with it where a bundle is named; no model is called.

    A run that rests on a source which may not be used any more has none: what it says goes to no model (X39).
    """
    material = context.material(view)
    for number, run in enumerate(plan.runs):
        if not material.revoked.isdisjoint(run.citation_ids):
            continue
        prompt = _prompt(context, run, material, view)
        answer = _planned(context, run, prompt)
        ids: tuple[int, ...] = ()
        reserve = _RESERVE if context.summariser is None else context.summariser.reserved_output_tokens
        if isinstance(answer, Plan):
            ids, reserve = tuple(answer.ids), answer.max_output_tokens
        yield PromptedRun(
            plan.plan_id, number, (run.covers_from, run.covers_to), summary_messages(prompt), reserve, ids
        )
