"""What a retention run does to summaries and to plans: said before it is done, and with it (R146, X34, X41)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.ledger.chains import first_ordinal
from planner.ledger.current import Current, Line, current_summaries
from planner.ledger.derived import read_pinned
from planner.ledger.holding import read_held
from planner.ledger.lineage import Segment
from planner.ledger.scope import Scope
from planner.ledger.stored import Active


@dataclass(frozen=True, slots=True)
class Effects:
    """Ids of summaries that were current in some line and are in none any more, and what plans will be refused for.

    `lost` names as `View.lost` does what no summary that is left echoes, in the line the conversation goes on with.
    """

    voided: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def current_in(scope: Scope, lines: Sequence[tuple[Segment, ...]], purged_through: int | None) -> list[Current]:
    """Return what is current in each line, whatever versions of policy and strategy are in force."""
    generation = scope.head.generation
    return [
        current_summaries(
            scope.tx.connection, Line(scope.conversation, line, generation, purged_through), Active(None, None)
        )
        for line in lines
    ]


def effects(
    scope: Scope, lines: Sequence[tuple[Segment, ...]], before: Sequence[Current], purged_through: int
) -> Effects:
    """Compare a conversation after a purge, inside its transaction, with what was current before."""
    after = current_in(scope, lines, purged_through)
    standing = {row.id for found in after for row in found.rows}
    voided = {row.id: None for found in before for row in found.rows if row.id not in standing}
    connection, counters = scope.tx.connection, scope.counters
    start = first_ordinal(connection, scope.conversation, scope.line, purged_through)
    held = read_held(connection, counters, scope.line, read_pinned(connection, counters), (), start)
    own = next(found for line, found in zip(lines, after, strict=True) if line[0].branch == scope.branch)
    echoed = {f"item/{item}" for record in own.summaries for item in record.open_items}
    return Effects(tuple(voided), tuple(name for name in held.lost if name not in echoed))
