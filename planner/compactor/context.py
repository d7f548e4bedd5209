"""One conversation with everything its compaction needs, and what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.compaction.call import Summariser
from planner.compaction.propose import Material
from planner.compactor.shown import Choices
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active
from planner.steps.admit import admit
from planner.values.admission import cited_by
from planner.values.check_summary import SummaryFrame
from planner.values.compaction import CompactionPlan, Run, Staleness
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.switches import Switches
from planner.values.turn import Turn
from planner.values.view import View

Planning = Callable[[PlanRequest], Plan | Refusal]


@dataclass(frozen=True, slots=True)
class Context:
    """The ledger's conversation, the choices, and the model that writes summaries where there is one."""

    ledger: Ledger
    conversation_id: str
    choices: Choices
    switches: Switches
    summariser: Summariser | None = None
    planning: Planning | None = None

    @property
    def active(self) -> Active:
        """The versions in force."""
        return Active(self.choices.policy_version)

    def require(self, on: bool) -> None:
        """Raise PlannerFault `compaction_off` where a switch is off (R212)."""
        if not on:
            raise PlannerFault("compaction_off", "a switch of compaction is off")

    def plan(self, plan_id: str) -> CompactionPlan:
        """Return a frozen plan. Raises PlannerFault `conversation_not_found`."""
        plan = self.ledger.compaction_plan(self.conversation_id, plan_id)
        if plan is None:
            raise PlannerFault("conversation_not_found", "no such compaction plan")
        return plan

    def view(self) -> View:
        """Return the conversation as it is now; a summary on a source that may not be used is stale (X39)."""
        view = self.ledger.view(self.conversation_id, active=self.active)
        revoked = self.revoked(view)
        gone = [one for one in view.summaries if not revoked.isdisjoint(one.citation_ids)]
        if not gone:
            return view
        stale = tuple(Staleness(one.id, "citation_revoked", None, (one.covers_from, one.covers_to)) for one in gone)
        return replace(
            view, summaries=tuple(one for one in view.summaries if one not in gone), stale=(*view.stale, *stale)
        )

    def revoked(self, view: View) -> frozenset[str]:
        """Return the citation ids of the conversation that may not be used now."""
        rights = self.choices.rights
        if rights is None:
            return frozenset()
        cited = cited_by((view.turns[place] for place in view.citing), (one.citation_ids for one in view.summaries))
        request = PlanRequest(
            "-", CurrentRequest(), claims=rights.claims, citations=rights.citations, now=rights.now
        )  # fmt: skip
        return admit(request, cited, frozenset(rights.revoked)).revoked

    def frame(self, view: View) -> SummaryFrame:
        """Return what a summary is judged against."""
        return SummaryFrame(
            view.conversation_id, view.generation, self.choices.policy_version, constraints=view.constraints,
            revoked_citation_ids=self.revoked(view), resolutions=self.ledger.resolutions(self.conversation_id),
        )  # fmt: skip

    def material(self, view: View) -> Material:
        """Return all turns of the conversation with what summaries cover already."""
        turns = tuple(self.ledger.turns(self.conversation_id))
        return Material(
            conversation_id=self.conversation_id,
            turns=turns,
            policy_version=self.choices.policy_version,
            generation=view.generation,
            revision=view.revision,
            branch=view.branch,
            event=view.event,
            covered=tuple((record.covers_from, record.covers_to) for record in view.summaries),
            constraints=view.constraints,
            purged_constraint_ids=frozenset() if view.boundary is None else _unmarked(turns),
            revoked=self.revoked(view),
        )

    def unmet(self) -> tuple[str, ...]:
        """Name what is missing for compaction to write; while anything is, it runs read-only (R126)."""
        out = []
        if self.choices.policy_version in ("", "unversioned"):
            out.append("policy_version_missing")
        if self.ledger.read_only:
            out.append("ledger_read_only")
        return (*out, *self.ledger.warnings)

    def goal_before(self, run: Run, view: View) -> tuple[str, str | None]:
        """Return the goal of the task's record, else of the summary before this run, with its id (X52)."""
        if self.choices.goal.strip():
            return self.choices.goal, self.choices.goal_from
        before = [record for record in view.summaries if record.covers_to < run.covers_from]
        return (before[-1].state.goal, before[-1].id) if before else ("", None)


def _unmarked(turns: Sequence[Turn]) -> frozenset[str]:
    """Return what turns withdraw and none of them marks: the ledger took no unknown target, so it was purged (X56)."""
    marked = {mark.constraint_id for turn in turns for mark in turn.must_preserve}
    return frozenset(name for turn in turns for name in turn.supersedes if name not in marked)
