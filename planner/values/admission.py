"""What admission found: which texts may be used for this request, and in a record of its own which may not (R159)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from planner.values.passage import Citation, Claims, Passage
from planner.values.turn import Turn

ExclusionReason = Literal["unauthorised", "expired", "not_yet_valid"]


@dataclass(frozen=True, slots=True)
class Rights:
    """What may be used outside a request, as for a summary: the fields of a request that admission reads.

    citations  what old turns cite, with the sources of passages where they are known.
    revoked    citation ids that are withdrawn beside what claims and dates exclude.
    """

    claims: Claims | None = None
    citations: tuple[Citation, ...] = ()
    now: str | None = None
    revoked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One id that may not be used, for the restricted audit record only: no receipt names it.

    id      `passage/..` of the request, `citation/..` of an old turn or a summary, or `turn/..`.
    check   which statement failed: tenant, dataset, source, validFrom, validTo, now, metadata or caller.
    """

    id: str
    reason: ExclusionReason
    check: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The outcome of admission; nothing after it sees a passage that is not in `passages`.

    excluded  number of excluded passages by reason, all that a receipt says of them.
    revoked   citation ids that old turns and summaries may not rest on (X39).
    """

    passages: tuple[Passage, ...] = field(default=(), repr=False)
    excluded: Mapping[str, int] = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()
    audit: tuple[Exclusion, ...] = ()


NOTHING_ADMITTED = Admission()


def citations_of(turn: Turn) -> Iterable[str]:
    """Yield what the shown messages of a turn cite."""
    for message in turn.messages:
        if message.citation_ids and message.accepted:
            yield from message.citation_ids


def rests_on(turn: Turn, revoked: frozenset[str]) -> bool:
    """Tell whether a turn cites one of these."""
    return any(name in revoked for name in citations_of(turn))


def cited_by(turns: Iterable[Turn], summaries: Iterable[Sequence[str]] = ()) -> frozenset[str]:
    """Return everything that turns and summaries cite; `summaries` gives the citation ids of each."""
    found = {name for turn in turns for name in citations_of(turn)}
    for names in summaries:
        found.update(names)
    return frozenset(found)
