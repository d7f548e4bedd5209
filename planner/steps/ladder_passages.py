"""Moves of passages: duplicates, low value, share of a source, bounds of the section, then the rest by value (§5).

Before passages leave by value, each of them takes its shorter forms (docs/forms.md); a pinned one takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from planner.values.forms import FormStep
from planner.values.passage import Passage
from planner.values.request import Options
from planner.values.rung import Move


@dataclass(frozen=True, slots=True)
class PassageMoves:
    """Moves 0 and 1 of design.md §5, then 4, then 7; what is pinned is in none of them."""

    early: list[Move] = field(default_factory=list)
    by_value: list[Move] = field(default_factory=list)
    last: list[Move] = field(default_factory=list)


def passage_moves(
    passages: Sequence[Passage],
    pinned: Collection[str],
    duplicates: Collection[str],
    options: Options,
    size: Callable[[str], int],
    forms: Mapping[str, tuple[FormStep, ...]] = {},
) -> PassageMoves:
    """Return the moves of passages given best first; each kind lowest value first.

    size   tokens of an item by `kind/id`; asked for only where a bound or a share is stated.
    forms  steps to shorter forms by `kind/id`.
    """
    out = PassageMoves()
    left = list(passages)

    def leave(gone: Sequence[Passage], reason: str) -> None:
        nonlocal left
        if gone:
            names = {passage.citation_id for passage in gone}
            out.early.extend(_move(passage, reason) for passage in reversed(gone))
            left = [passage for passage in left if passage.citation_id not in names]

    movable = [passage for passage in left if passage.citation_id not in pinned]
    leave([passage for passage in movable if passage.citation_id in duplicates], "duplicate")
    line = options.low_value_line
    if line is not None:
        low = [passage for passage in left if passage.citation_id not in pinned and passage.relevance < line]
        leave(low, "low_value")
    if options.source_share is not None:
        leave(_beyond_share(left, pinned, options, size), "source_share")
    if options.sections.retrieval.max is not None:
        leave(_beyond_most(left, pinned, options.sections.retrieval.max, size), "low_value")
    floor = options.sections.retrieval.min or 0
    rest = sum(size(_key(passage)) for passage in left) if floor else 0
    leaving: list[Passage] = []
    staying: list[Passage] = []
    for passage in reversed(left):
        if passage.citation_id in pinned:
            continue
        tokens = size(_key(passage)) if floor else 0
        if floor and rest - tokens < floor:
            staying.append(passage)
            continue
        rest -= tokens
        leaving.append(passage)
    out.by_value.extend(_after_forms(leaving, forms))
    out.last.extend(_after_forms(staying, forms))
    return out


def shorter(step: FormStep) -> Move:
    """Return the move that shows one text in its next form."""
    return Move("shorter_form", (), shows=step)


def _after_forms(passages: Sequence[Passage], forms: Mapping[str, tuple[FormStep, ...]]) -> list[Move]:
    """Return moves that take these passages: first each into its shorter forms, then each away."""
    steps = [shorter(step) for passage in passages for step in forms.get(_key(passage), ())]
    return [*steps, *(_move(passage, "over_budget") for passage in passages)]


def _key(passage: Passage) -> str:
    return f"passage/{passage.citation_id}"


def _move(passage: Passage, reason: str) -> Move:
    return Move(reason, (_key(passage),))


def _beyond_most(
    left: Sequence[Passage], pinned: Collection[str], most: int, size: Callable[[str], int]
) -> list[Passage]:
    held = sum(size(_key(passage)) for passage in left)
    out: list[Passage] = []
    for passage in reversed(left):
        if held <= most:
            break
        if passage.citation_id not in pinned:
            held -= size(_key(passage))
            out.append(passage)
    return out[::-1]


def _beyond_share(
    left: Sequence[Passage], pinned: Collection[str], options: Options, size: Callable[[str], int]
) -> list[Passage]:
    """Return what a source has beyond its share of the section's maximum, or of all that is left where none is stated.

    The best passage of each source, and one that states no source, is never beyond it.
    """
    share, most = options.source_share or 0.0, options.sections.retrieval.max
    whole = most if most is not None else sum(size(_key(passage)) for passage in left)
    held: dict[str, int] = {}
    out: list[Passage] = []
    for passage in left:
        if passage.source is None:
            continue
        tokens, before = size(_key(passage)), held.get(passage.source.id)
        if before is not None and before + tokens > share * whole and passage.citation_id not in pinned:
            out.append(passage)
            continue
        held[passage.source.id] = (before or 0) + tokens
    return out
