"""The planner's compaction as an object the kit can drive."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from compaction_kit.compacted import CompactedContext

from benchmarks.conformance.extractor import Draft, Entry, answer, draft
from benchmarks.conformance.gate import RISK, accepted_text
from benchmarks.conformance.heard import KitTurn, Rule, hear
from planner.compaction.prompt import build_prompt
from planner.compaction.propose import Material, propose
from planner.compaction.strategy import Settings
from planner.values.compaction import CompactionPlan, Rejected

SETTINGS = Settings(plan_id="conformance", tail_turns=1)


class PlannerCompactor:
    """Turns, marks, plan, prompt, answer, judgement: what is handed back is the text of an accepted summary, unaltered.

    `refused` counts the answers the gate did not take, by its reason; the entry that was added last is then left out.
    `unmarked` counts rules that were not marked because no accepted text with them fits the budget. The planner
    would keep their turns or refuse; the kit knows neither.
    """

    name = "context-planner"

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.unmarked = 0

    def compact(
        self, turns: Sequence[KitTurn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        """Return the state text of these turns, of at most `budget_chars` characters."""
        room = sys.maxsize if budget_chars is None else budget_chars
        heard = hear(turns)
        work = self._begin(heard.material(heard.rules), room)
        if work.least is None:
            carried: tuple[Rule, ...] = ()
            work = self._begin(heard.material(()), room)
            for rule in heard.rules:
                longer = self._begin(heard.material((*carried, rule)), room)
                if longer.least is not None:
                    carried, work = (*carried, rule), longer
            self.unmarked += len(heard.rules) - len(carried)
        return CompactedContext(text=work.filled(room), compactor_name=self.name, round_num=round_num)

    def _begin(self, material: Material, room: int) -> _Work:
        """Return the work on these turns, with the shortest answer the gate takes: a goal and the constraints."""
        plan = propose(material, SETTINGS)
        if not isinstance(plan, CompactionPlan):
            raise ValueError(f"nothing was proposed: {plan.reason} {plan.detail}")
        prompt = build_prompt(plan.runs[0], material.turns, material.constraints, risk=RISK)
        work = _Work(plan, material, draft(prompt.material), self.refused)
        taken = [(goal, text) for goal in work.draft.goals if (text := work.judged(goal, ())) is not None]
        if not taken:
            raise ValueError("the gate takes no answer with a goal and the constraints alone")
        return replace(work, least=next((pair for pair in taken if len(pair[1]) <= room), None))


@dataclass(frozen=True, slots=True)
class _Work:
    """One run on its way: its plan, what was drafted from its prompt, and where refusals are counted.

    `least` is the aptest goal that fits, with the text of goal and constraints; None where no goal does.
    """

    plan: CompactionPlan
    material: Material
    draft: Draft
    refused: Counter[str]
    least: tuple[Entry, str] | None = None

    def judged(self, goal: Entry, chosen: Sequence[Entry]) -> str | None:
        """Return the text of the summary that an answer with these entries makes, None where it is refused."""
        found = accepted_text(answer(self.draft, goal, chosen), self.plan, self.material)
        if isinstance(found, Rejected):
            self.refused[found.detail] += 1
            return None
        return found

    def filled(self, room: int) -> str:
        """Return the text with every entry that fits, the weightier first; empty where nothing fits."""
        if self.least is None:
            return ""
        goal, text = self.least
        entries = tuple(entry for entry in self.draft.entries if entry.text != goal.text)
        # An entry takes its own length and the end of a line at least: most that do not fit need no judgement.
        if len(text) + sum(len(entry.text) + 1 for entry in entries) <= room:
            whole = self.judged(goal, entries)
            if whole is not None and len(whole) <= room:
                return whole
        chosen: tuple[Entry, ...] = ()
        for entry in entries:
            if len(text) + len(entry.text) + 1 > room:
                continue
            longer = self.judged(goal, (*chosen, entry))
            if longer is not None and len(longer) <= room:
                chosen, text = (*chosen, entry), longer
        return text
