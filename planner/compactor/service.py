"""Compaction of a ledger's conversation: freeze, ask, judge, store (design.md §8).

A model is asked outside every transaction; what it answers is judged on a fresh snapshot and stored by a short write,
so an append never waits for it (R113, R122).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from planner.compaction.call import PromptedRun, Summariser, spoken
from planner.compactor.context import Context, Planning
from planner.compactor.judging import judged
from planner.compactor.proposing import prompted, proposed, rests_on_revoked, unfinished
from planner.compactor.shown import Answered, Choices, Status, Trial
from planner.ledger.ledger import Ledger
from planner.ledger.rejections import MAX_ATTEMPTS
from planner.ledger.stored import Checked, Saved, StoredSummary
from planner.values.check_summary import summary_problem
from planner.values.compaction import Accepted, CompactionPlan, Rejected, Staleness, Unplanned
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.switches import Switches

_SPENT = Rejected("invalid-summary", "retry_spent: $")


class Compactor:
    """Compaction of one conversation; may be used beside writers of the same ledger."""

    def __init__(
        self,
        ledger: Ledger,
        conversation_id: str,
        choices: Choices,
        *,
        summariser: Summariser | None = None,
        planning: Planning | None = None,
        switches: Switches | None = None,
    ) -> None:
        """Keep the settings.

        summariser, planning  the model that writes summaries and what plans its calls, such as `Planner.plan`; both
                              or neither. Without them runs are not fitted to a window and prompts have no ids.
        """
        self._context = Context(ledger, conversation_id, choices, switches or Switches(), summariser, planning)
        self._ledger, self._conversation_id = ledger, conversation_id
        self._switches = self._context.switches

    def propose(self, *, replace_active: bool = False) -> CompactionPlan | Unplanned:
        """Freeze what to summarise and make it the active plan; an unfinished current one is returned again.

        Raises PlannerFault `compaction_off`, and those of the ledger.
        """
        self._context.require(self._switches.store)
        self._require_met()
        view = self._context.view()
        found = proposed(self._context, view)
        if isinstance(found, Unplanned):
            # What is left may fit no call any more, yet runs of the active plan can still wait for their answers.
            return found if replace_active else unfinished(self._context, view) or found
        active = self._ledger.active_plan(self._conversation_id)
        # The ledger knows nothing of rights, so it would give a plan again that may not be carried out any more.
        void = active is not None and rests_on_revoked(self._context, active, view)
        return self._ledger.save_plan(found, replace=replace_active or void)

    def prompts(self, plan: CompactionPlan) -> tuple[PromptedRun, ...]:
        """Return the call of each run of a plan, ready for a model; calls none itself.

        Raises PlannerFault `compaction_off`.
        """
        self._context.require(self._switches.summaries)
        return tuple(prompted(self._context, plan, self._context.view()))

    def accept(self, plan_id: str, run: int, answer: str | None, *, finish: str = "stop") -> Saved | Rejected:
        """Judge a model's answer for one run of a plan, and store it if it stands.

        answer  the model's text; reasoning written out before it is left aside.
        finish  `length` where the model was cut off: such an answer is never read (R59).
        Returns `Saved`, also for what the ledger found too late; `Rejected` for what is no summary or was made from
        sources that changed; it is recorded without its text. The same sources are tried twice at most.
        Raises PlannerFault `compaction_off`, `compaction_read_only`, `conversation_not_found` for an unknown plan or
        run, and those of the ledger.
        """
        self._context.require(self._switches.summaries)
        self._require_met()
        plan = self._context.plan(plan_id)
        if not 0 <= run < len(plan.runs):
            raise PlannerFault("conversation_not_found", "no such run of the plan")
        if not self._tries_left(plan, run):
            return _SPENT
        view = self._context.view()
        verdict: Accepted | Rejected = Rejected("invalid-summary", "cut_off: $")
        if finish != "length":
            active = self._ledger.active_plan(self._conversation_id)
            text = None if answer is None else spoken(answer)
            verdict = judged(
                self._context, plan, run, text, view, active_plan_id=None if active is None else active.plan_id
            )
        if isinstance(verdict, Rejected):
            self._ledger.record_rejection(self._conversation_id, plan_id, run, verdict)
            return verdict
        return self._ledger.save_summary(verdict.record, plan_id, Checked(view.event, self._context.active))

    def run(
        self,
        ask: Callable[[PromptedRun], Answered],
        told: Callable[[PromptedRun, Saved | Rejected], None] | None = None,
    ) -> tuple[Saved | Rejected, ...]:
        """Do it all: propose, ask the model for each run that waits, judge and store; one retry a run.

        A run whose tries are spent is not asked for; it waits until its sources change or a turn joins it.
        ask   calls the model; it may take minutes, and no transaction waits for it. Its faults leave everything as
              it was, and what was accepted before stays.
        told  called with each run and how it ended.
        Raises RefusalSignal for a setting that is wrong and for a summariser whose calls are refused, PlannerFault as
        `propose` and `accept` do; returns nothing where there is nothing to compact.
        """
        self._context.require(self._switches.summaries)
        plan = self.propose()
        if isinstance(plan, Unplanned):
            if plan.reason != "nothing_to_compact":
                raise RefusalSignal(plan.reason, plan.detail)
            return ()
        out: list[Saved | Rejected] = []
        # What an earlier run of this plan stored stands already; a model is not asked for it again.
        standing = {(record.covers_from, record.covers_to) for record in self._context.view().summaries}
        for prompt in self.prompts(plan):
            if prompt.covers in standing:
                continue
            found: Saved | Rejected = _SPENT
            for _ in range(self._tries_left(plan, prompt.run)):
                answered = ask(prompt)
                found = self.accept(plan.plan_id, prompt.run, answered.text, finish=answered.finish)
                if isinstance(found, Saved) or found.reason != "invalid-summary":
                    break
            out.append(found)
            if told is not None:
                told(prompt, found)
        return tuple(out)

    def trial(self, answers: Iterable[str] = ()) -> Trial:
        """Say what compaction would do, and how it would judge these answers, run by run; write nothing (R126)."""
        view = self._context.view()
        plan = proposed(self._context, view)
        if isinstance(plan, Unplanned):
            return Trial(plan)
        verdicts = []
        for number, answer in zip(range(len(plan.runs)), answers, strict=False):
            found = judged(self._context, plan, number, spoken(answer), view, active_plan_id=plan.plan_id)
            verdicts.append("accepted" if isinstance(found, Accepted) else f"{found.reason}: {found.detail}")
        return Trial(plan, tuple(prompted(self._context, plan, view)), tuple(verdicts))

    def status(self) -> Status:
        """Return what a screen shows: ids, counts and codes, nothing of storage (R125, R149)."""
        if not self._switches.status:
            return Status(on=False)
        view = self._context.view()
        plan = self._ledger.active_plan(self._conversation_id) if self._switches.store else None
        covers = tuple((record.covers_from, record.covers_to) for record in view.summaries)
        runs = () if plan is None else plan.runs
        waiting = tuple(at for at, run in enumerate(runs) if (run.covers_from, run.covers_to) not in covers)
        notices = [] if view.boundary is None else ["history_purged"]
        notices += ["summary_stale"] if view.stale else []
        notices += ["compaction_off"] if not self._switches.summaries else []
        return Status(
            on=True,
            current=tuple(f"{record.id}@{record.summary_version}" for record in view.summaries),
            covers=covers,
            stale=view.stale,
            plan_id=None if plan is None else plan.plan_id,
            waiting=waiting,
            spent=tuple(at for at in waiting if plan is not None and not self._tries_left(plan, at)),
            unmet=self._context.unmet(),
            boundary=view.boundary,
            notices=tuple(notices),
        )

    def versions(self) -> tuple[StoredSummary, ...]:
        """Return every stored version with where it stands now (R77)."""
        return self._ledger.summaries(self._conversation_id, self._context.active)

    def readopt(self, summary_id: str) -> Saved | Staleness | Rejected:
        """Verify a summary of an older generation in full; where it stands it becomes a new version (X11).

        Raises PlannerFault `compaction_off`, and `conversation_not_found` for an id without a stored body.
        """
        self._context.require(self._switches.store)
        self._require_met()
        found = next((one for one in self.versions() if one.summary_id == summary_id), None)
        if found is None or found.record is None:
            raise PlannerFault("conversation_not_found", "no such summary version")
        view = self._context.view()
        turns = self._ledger.interval(self._conversation_id, *found.covers)
        problem = summary_problem(found.record, turns, replace(self._context.frame(view), generation=None))
        if problem is not None:
            return problem
        new_id = f"{summary_id[:96]}.g{view.generation}"
        checked = Checked(view.event, self._context.active)
        return self._ledger.readopt(self._conversation_id, summary_id, new_id, checked)

    def unmet(self) -> tuple[str, ...]:
        """Name what is missing for compaction to write; while anything is, it runs read-only (R126)."""
        return self._context.unmet()

    def _tries_left(self, plan: CompactionPlan, run: int) -> int:
        """Return how often these sources may still be tried, by any plan."""
        spent = self._ledger.rejections(self._conversation_id, plan.runs[run].source_fingerprint)
        return max(0, MAX_ATTEMPTS - spent)

    def _require_met(self) -> None:
        unmet = self._context.unmet()
        if unmet:
            raise PlannerFault("compaction_read_only", ", ".join(unmet))
