"""What admission found: which texts may be used for this request, and in a record of its own which may not (R159)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.values.passage import Passage

ExclusionReason = Literal["unauthorised", "expired", "not_yet_valid"]


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
