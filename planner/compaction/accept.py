"""An answer judged against its run as it is now: a complete summary record, or the reason there is none (R114).

Pure: the caller reads the ledger again before (R113) and stores what is accepted behind its own checks (R115).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.compaction.answer import Answer, Entry, parse_answer, state_entry
from planner.compaction.check import Asked, Sources, check_answer
from planner.compaction.check_words import states
from planner.compaction.literals import literals, missing
from planner.compaction.prompt import run_turns
from planner.compaction.settle import settled
from planner.compaction.state_text import state_text
from planner.compaction.strategy import granularity
from planner.values.check_record import check_record
from planner.values.check_summary import SummaryFrame, inside_of, live_marks, messages_in_order, run_now, sequences_of
from planner.values.compaction import Accepted, CompactionPlan, Rejected, Risk, Run
from planner.values.reasons import RefusalSignal
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Turn

_CONFIRMS = ("user", "tool")


@dataclass(frozen=True, slots=True)
class Judged:
    """What an answer is judged against.

    plan, run       the frozen plan and the run of it that was summarised.
    turns           the conversation's turns, read again after the model returned; at least those of the interval.
    frame           conversation, generation, versions and live constraints as they are now.
    active_plan_id  the conversation's plan that may still move a summary; another one's answers are stale.
    goal, goal_from the goal so far with the id of its task record or summary, for a run that states none (X52).
    """

    plan: CompactionPlan
    run: Run
    turns: tuple[Turn, ...] = field(repr=False)
    frame: SummaryFrame
    active_plan_id: str | None
    summary_id: str
    summary_version: int = 1
    risk: Risk | None = None
    goal: str = field(default="", repr=False)
    goal_from: str | None = None
    summariser_bundle: str | None = None


def judge(answer: str | None, case: Judged) -> Accepted | Rejected:
    """Return the record of an answer that passes every check, else why it does not.

    `Rejected("invalid-summary")`: no answer, or a flaw; the detail is the flaw's name and place.
    `Rejected("stale-source")`: the plan is no longer active, or what it was made from has changed.
    """
    if answer is None:
        return Rejected("invalid-summary", "no_answer: $")
    stale = _staleness(case)
    if stale is not None:
        return stale
    turns = run_turns(case.run, case.turns)
    sources = Sources(messages_in_order(turns))
    refusal: RefusalSignal | None = None
    try:
        parsed = parse_answer(answer)
        check_answer(parsed, sources, _asked(turns, case))
        record = settled(_record(parsed, turns, sources, case), case.frame.resolutions, sequences_of(turns))
        # Every later plan checks the record as it checks any input: one that is refused there must not come to stand.
        check_record(record, "$")
    except RefusalSignal as signal:
        refusal = signal
    if refusal is not None:
        return Rejected("invalid-summary", refusal.detail)
    return Accepted(record)


def _staleness(case: Judged) -> Rejected | None:
    """Return what moved since the plan was frozen; the same comparison decides later whether the summary stands."""
    plan, frame = case.plan, case.frame
    pairs = (
        ("plan", plan.plan_id, case.active_plan_id),
        ("conversation", plan.conversation_id, frame.conversation_id),
        ("generation", plan.generation, frame.generation),
        ("policy_version", plan.policy_version, frame.policy_version),
        ("strategy_version", plan.strategy_version, frame.strategy_version),
    )
    for name, planned, now in pairs:
        if planned != now:
            return Rejected("stale-source", f"other_{name}: $")
    if case.run not in plan.runs:
        return Rejected("stale-source", "other_run: $")
    if not frame.revoked_citation_ids.isdisjoint(case.run.citation_ids):
        return Rejected("stale-source", "citation_revoked: $")  # which one, only the audit record tells (R159)
    moved = run_now(case.run, inside_of(case.run, case.turns), frame.constraints)
    if isinstance(moved, Run):
        return None
    cause, causing_id = moved
    return Rejected("stale-source", f"{cause}: $", (causing_id,) if causing_id is not None else ())


def _asked(turns: tuple[Turn, ...], case: Judged) -> Asked:
    items = {item.id: item.status for turn in turns for item in turn.open_items}
    keeps = granularity(case.risk, [turn.material for turn in turns])
    return Asked(case.run.required_constraint_ids, items, keeps, case.goal)


def _record(answer: Answer, turns: tuple[Turn, ...], sources: Sources, case: Judged) -> SummaryRecord:
    ids = {label: message.id or "" for label, message in sources.messages.items()}

    def stored(entries: tuple[Entry, ...]) -> tuple[StateEntry, ...]:
        return tuple(state_entry(entry, tuple(ids[label] for label in entry.sources)) for entry in entries)

    marks = [mark for turn in turns for mark in live_marks(turn, case.frame.constraints)]
    state = SummaryState(
        goal=answer.goal or " ".join(case.goal.split()),
        goal_from=None if answer.goal else case.goal_from,
        decisions=stored(answer.decisions),
        constraints=tuple(StateEntry(mark.text or "", id=mark.constraint_id) for mark in marks),
        open_actions=stored(answer.open_actions),
        questions=stored(answer.questions),
        evidence=stored(answer.evidence),
    )
    plan, run = case.plan, case.run
    return SummaryRecord(
        id=case.summary_id,
        plan_id=plan.plan_id,
        conversation_id=plan.conversation_id,
        source_generation=plan.generation,
        source_revision=plan.source_revision,
        source_ids=run.source_ids,
        source_fingerprint=run.source_fingerprint,
        covers_from=run.covers_from,
        covers_to=run.covers_to,
        through_sequence=run.through_sequence,
        summary_version=case.summary_version,
        policy_version=plan.policy_version,
        strategy_version=plan.strategy_version,
        summary_text=state_text(state),
        state=state,
        branch=plan.branch,
        source_versions=run.source_versions,
        protected_fingerprint=run.protected_fingerprint,
        summariser_bundle=case.summariser_bundle,
        required_constraint_ids=run.required_constraint_ids,
        open_items=run.open_items,
        confirmed_facts=tuple(_facts(answer, sources, ids)),
        citation_ids=run.citation_ids,
    )


def _facts(answer: Answer, sources: Sources, ids: dict[str, str]) -> Iterator[ConfirmedFact]:
    """Yield the facts that somebody beside the assistant stands for (R95): decisions d1.., such evidence e1.. .

    The number is the place in its list, so that a fact is found in the state again.
    """
    for letter, entries in (("d", answer.decisions), ("e", answer.evidence)):
        for place, entry in enumerate(entries, 1):
            if letter == "d" or _confirmed(entry, sources):
                yield ConfirmedFact(
                    id=f"{letter}{place}",
                    text=entry.text,
                    fact_key=entry.fact_key,
                    fact_value=entry.fact_value,
                    source_ids=tuple(ids[label] for label in entry.sources),
                )


def _confirmed(entry: Entry, sources: Sources) -> bool:
    """Tell whether a user or a tool said what an entry says: a number that the assistant alone named is a guess."""
    labels = [label for label in entry.sources if sources.messages[label].role in _CONFIRMS]
    if not labels:
        return False
    said = sources.shown(labels)
    if entry.fact_value is not None and not any(states(entry.fact_value, one) for one in said):
        return False
    return missing(literals(entry.text), [one.literals for one in said]) is None
