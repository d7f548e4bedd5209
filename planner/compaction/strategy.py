"""The settings of compaction and the one table of how much of the source a summary keeps (R111, X28)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from planner.values.compaction import STRATEGY_VERSION, Risk
from planner.values.turn import Material

TAIL_TURNS = 2
MIN_RUN_TURNS = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How to choose what is summarised.

    tail_turns       newest completed turns that stay raw whatever they hold, 1 or more (R66, X2).
    min_run_turns    runs of fewer turns stay raw (X1).
    merge_neighbours take the turns of current summaries again where a run touches them; originals are summarised
                     again, never a summary (X41).
    """

    plan_id: str
    tail_turns: int = TAIL_TURNS
    min_run_turns: int = MIN_RUN_TURNS
    merge_neighbours: bool = False
    strategy_version: str = STRATEGY_VERSION


@dataclass(frozen=True, slots=True)
class Granularity:
    """What a summary keeps of its sources beside its sentences.

    ids         every decision and evidence item names the messages it rests on.
    excerpts    each of them also has a piece of such a message word for word, or an external reference.
    conclusion  of a tool result: conclusion, identifiers and reference instead of the full text.
    """

    ids: bool = False
    excerpts: bool = False
    conclusion: bool = False


_IDS = Granularity(ids=True)
_TRACED = Granularity(ids=True, excerpts=True)
_CONCLUSION = Granularity(ids=True, conclusion=True)

GRANULARITY: Mapping[tuple[Risk, Material], Granularity] = {
    ("low", "chat"): Granularity(),
    ("low", "code"): _IDS,
    ("low", "dispute"): _IDS,
    ("low", "tool_result"): _CONCLUSION,
    ("high", "chat"): _IDS,
    ("high", "code"): _TRACED,
    ("high", "dispute"): _TRACED,
    ("high", "tool_result"): _CONCLUSION,
}
"""Risk and material decide, nothing else (X28). What cannot be summarised so stays raw."""


def granularity(risk: Risk | None, materials: Iterable[Material | None]) -> Granularity:
    """Return what a run of these materials must keep: everything that any one of them asks for.

    A risk that nobody stated is high; a turn whose material nobody stated is chat.

    >>> granularity(None, ["chat", None])
    Granularity(ids=True, excerpts=False, conclusion=False)
    """
    rows = [GRANULARITY[risk or "high", material or "chat"] for material in materials]
    return Granularity(
        ids=any(row.ids for row in rows),
        excerpts=any(row.excerpts for row in rows),
        conclusion=any(row.conclusion for row in rows),
    )
