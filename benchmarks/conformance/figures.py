"""Survival and stale values of any compactor over the kit's sessions, per budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compaction_kit.canaries import Canary, seeded_canaries
from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.runner import run_conformance
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import SeededSession, build_seeded_session

BUDGETS = (0.10, 0.20, 0.30)
ROUNDS = 5
TYPES = ("safety_rule", "hard_constraint", "fact", "goal_state", "user_preference")


def _seeded(_seed: int) -> tuple[SeededSession, list[Canary]]:
    return build_seeded_session(), seeded_canaries()


SETS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "random": build_random_session,
    "seeded": _seeded,
    "semantic": build_semantic_session,
    "heldout": build_semantic_heldout_session,
    "generated": build_generated_session,
}
"""The kit's sessions by name; a builder returns session, canaries and, for two of them, what else is known."""


@dataclass
class Tally:
    """One compactor on one set at one budget, after the last round, all seeds together.

    held, asked     canaries that survived, and all of them, by type.
    stale, updated  canaries whose old value still stands in the text, and all that have one.
    over            rounds of any session whose text was longer than the budget.
    """

    held: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    stale: int = 0
    updated: int = 0
    over: int = 0
    least: dict[str, float] = field(default_factory=lambda: defaultdict(lambda: 1.0))

    def share(self, kind: str) -> float:
        """Return the share that survived of one type."""
        return self.held[kind] / self.asked[kind] if self.asked[kind] else 0.0

    @property
    def overall(self) -> float:
        """Return the share that survived of all."""
        return self.held.total() / self.asked.total()

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "overall": round(self.overall, 4),
            "types": {kind: round(self.share(kind), 4) for kind in TYPES},
            "least_of_a_session": {kind: round(self.least[kind], 4) for kind in TYPES},
            "stale": self.stale,
            "updated": self.updated,
            "rounds_over_budget": self.over,
        }


def tally(name: str, make: Callable[[], Any], budget: float, seeds: Sequence[int]) -> Tally:
    """Return the figures of a compactor, made anew for each session of the set `name`."""
    found = Tally()
    for seed in seeds if name != "seeded" else seeds[:1]:
        session, canaries = SETS[name](seed)[:2]
        run = run_conformance(session, make(), rounds=ROUNDS, canaries=canaries, budget_fraction=budget)
        last = run.rounds[-1]
        text = last.context.text.lower()
        for canary in canaries:
            found.asked[canary.type.value] += 1
            found.held[canary.type.value] += last.survived[canary.id]
            found.updated += bool(canary.superseded_tokens)
            found.stale += any(token.lower() in text for token in canary.superseded_tokens)
        for kind, share in last.survival_by_type.items():
            found.least[kind] = min(found.least[kind], share)
        found.over += sum(not entry.within_budget for entry in run.rounds)
    return found


OVERALL_BAR = {0.10: 0.40, 0.20: 0.85, 0.30: 1.00}
KEPT_WHOLE = ("safety_rule", "hard_constraint")


def missed(found: Tally, budget: float) -> list[str]:
    """Name every bar that our figures on the random set miss at this budget."""
    wrong = [f"{kind} {found.share(kind):.1%} of 100%" for kind in KEPT_WHOLE if found.share(kind) < 1]
    if found.overall < OVERALL_BAR[budget]:
        wrong.append(f"overall {found.overall:.1%} of {OVERALL_BAR[budget]:.0%}")
    if found.stale:
        wrong.append(f"{found.stale} stale values kept")
    if found.over:
        wrong.append(f"{found.over} rounds over the budget")
    return wrong
