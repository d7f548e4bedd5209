"""What a compactor takes and shows: the application's choices, what a trial found, what a screen polls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from planner.compaction.call import PromptedRun
from planner.compaction.strategy import MIN_RUN_TURNS, TAIL_TURNS
from planner.values.admission import Rights
from planner.values.compaction import CompactionPlan, Risk, Staleness, Unplanned
from planner.values.field_rules import ID_RULE, VERSION_RULE, invalid, is_id, is_version, text_problem


class Answered(Protocol):
    """What a model server gave back."""

    @property
    def text(self) -> str:
        """The answer."""

    @property
    def finish(self) -> str:
        """`length` where it was cut off."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the application decides about compaction.

    policy_version  of the system policy in force; a summary of another one is stale.
    goal, goal_from the task's goal with the id of its record, for a run that states none (X52).
    risk            of the conversation; None means high (X28).
    fact_keys       ids that its passages name facts by; a summariser is told them, so that both can be compared (X54).
    rights          what claims, dates and the application say about cited sources now; None excludes nothing (X39).
    """

    policy_version: str
    tail_turns: int = TAIL_TURNS
    min_run_turns: int = MIN_RUN_TURNS
    merge_neighbours: bool = False
    risk: Risk | None = None
    goal: str = field(default="", repr=False)
    goal_from: str | None = None
    fact_keys: tuple[str, ...] = ()
    rights: Rights | None = None

    def __post_init__(self) -> None:
        """Raise RefusalSignal `invalid-input` for a goal that is no text and for what is no version or id."""
        if not is_version(self.policy_version):
            invalid("$.policyVersion", VERSION_RULE)
        problem = text_problem(self.goal)
        if problem:
            invalid("$.goal", problem)
        if self.goal_from is not None and not is_id(self.goal_from):
            invalid("$.goalFrom", ID_RULE)
        for place, key in enumerate(self.fact_keys):
            if not is_id(key):
                invalid(f"$.factKeys[{place}]", ID_RULE)


@dataclass(frozen=True, slots=True)
class Status:
    """What a screen may poll (R149): which summaries stand, what waits for a model, what could not be kept.

    current   `id@version` of each summary in use, `covers` its turn sequences.
    waiting   runs of the active plan that have no summary yet; `spent` are those of them that are not tried again
              before their sources change or a turn joins them.
    unmet     why compaction writes nothing now; `notices` are codes for the user.
    boundary  sequence up to which originals were purged, None where nothing was (R146).
    """

    on: bool
    current: tuple[str, ...] = ()
    covers: tuple[tuple[int, int], ...] = ()
    stale: tuple[Staleness, ...] = ()
    plan_id: str | None = None
    waiting: tuple[int, ...] = ()
    spent: tuple[int, ...] = ()
    unmet: tuple[str, ...] = ()
    boundary: int | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """What compaction would do, found without writing anything (R126)."""

    plan: CompactionPlan | Unplanned
    prompts: tuple[PromptedRun, ...] = ()
    verdicts: tuple[str, ...] = ()
