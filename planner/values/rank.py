"""Rank admitted passages; nothing that was excluded ever comes here (R161, R162)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from planner.values.field_rules import instant
from planner.values.passage import Passage
from planner.values.request import CurrentRequest

_UNGRADED = 10**18


def grade_of(passage: Passage) -> int:
    """Return the grade of a passage's source, 1 is best; none stated is the worst."""
    source = passage.source
    return _UNGRADED if source is None or source.grade is None else source.grade


def freshness(passage: Passage) -> tuple[bool, float]:
    """Return what sorts later `validFrom` first, and passages without one last."""
    if passage.valid_from is None:
        return True, 0.0
    return False, -instant(passage.valid_from).timestamp()


def by_value(passages: Iterable[Passage], current: CurrentRequest) -> tuple[Passage, ...]:
    """Return passages best first: needed as evidence, then relevance, source grade, freshness; ties by id."""
    needed = {name for group in current.evidence_groups for name in group}

    def value(passage: Passage) -> tuple[bool, float, int, bool, float, str]:
        return (
            passage.citation_id not in needed, -passage.relevance, grade_of(passage), *freshness(passage),
            passage.citation_id,
        )  # fmt: skip

    return tuple(sorted(passages, key=value))


def survivor_order(
    passage: Passage, required: Collection[str], low_value_line: float | None = None
) -> tuple[bool, bool, int, bool, float, float, str]:
    """Return what sorts the copy that stays first: required, better grade, fresher, then relevance and id (R163).

    A copy under the low-value line stands behind those above it: it would leave next, and with it what both say.
    """
    low = low_value_line is not None and passage.relevance < low_value_line
    fresh = freshness(passage)
    name = passage.citation_id
    return name not in required, low, grade_of(passage), *fresh, -passage.relevance, name


def at_the_edges(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return passages, given best first, with the best at both ends of the area and the least in the middle.

    >>> [one.citation_id for one in at_the_edges([Passage(name, "") for name in "abcde"])]
    ['a', 'c', 'e', 'd', 'b']
    """
    return (*passages[::2], *reversed(passages[1::2]))
