"""What one plan reads of a conversation that is kept elsewhere (design.md §2, Growing conversations)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.values.compaction import Staleness
from planner.values.constraint import Constraint
from planner.values.receipt import Removal
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class View:
    """One branch of a conversation as of one event. Planning from it equals planning with all its turns sent.

    turns        completed and open ones by sequence, oldest first; may be read only where it is looked at.
    pinned       indexes of turns that may not leave.
    hidden       turns that are never rendered, with the reason.
    chain        the value of `TurnChain` over every turn, hidden ones too, 32 bytes.
    constraints  live ones by sequence of their turn.
    summaries    current ones by coverage; `stale` says why the others are not.
    boundary     highest sequence whose original was purged, None where nothing was (R146).
    lost         what purged turns would have to say and nothing else says: `constraint/` with the id of one in force
                 whose words went, `item/` with that of an unfinished one; a current summary may still echo it (X34).
    held         indexes of turns that may leave only through a summary, as `relations` finds them (X34, X44).
    withdrawing  indexes of turns that withdraw a constraint which an older turn marks, found likewise.
    citing       indexes of turns whose messages cite sources; read only where a request may withdraw one (X39).
    """

    conversation_id: str
    branch: str
    generation: int
    revision: int
    event: int
    turns: Sequence[Turn] = field(repr=False)
    pinned: Sequence[int]
    hidden: tuple[Removal, ...]
    chain: bytes
    constraints: tuple[Constraint, ...] = ()
    summaries: tuple[SummaryRecord, ...] = field(default=(), repr=False)
    stale: tuple[Staleness, ...] = ()
    boundary: int | None = None
    lost: tuple[str, ...] = ()
    held: Sequence[int] = ()
    withdrawing: Sequence[int] = ()
    citing: Sequence[int] = field(default=(), repr=False)
