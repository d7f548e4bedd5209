"""Which shown turns cite a source, found through their own index, so that the others are not read (X39)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from planner.ledger.lineage import Segment
from planner.ledger.pages import ShownTurns
from planner.ledger.store import Store

# The condition is spelled as in the index; any other spelling would read every message.
_CITING = (
    "SELECT DISTINCT turn FROM message INDEXED BY message_citing WHERE conversation = ? AND branch = ?"
    " AND turn BETWEEN ? AND ? AND event <= ? AND turn IS NOT NULL AND instr(body, '\"citationIds\"') > 0"
)


class CitingTurns(Sequence[int]):
    """Indexes of a view's turns of which some version cites, rising; looked up at first use, as of the view's event."""

    def __init__(self, store: Store, conversation: int, line: Sequence[Segment], turns: ShownTurns) -> None:
        """Read nothing yet."""
        self._store, self._conversation, self._line, self._turns = store, conversation, tuple(line), turns
        self._found: tuple[int, ...] | None = None

    def _places(self) -> tuple[int, ...]:
        if self._found is None:
            first, last = self._turns.span
            found: set[int] = set()
            with self._store.read("find citing turns") as connection:
                for segment in self._line:
                    bindings = (self._conversation, segment.branch, first, min(last, segment.at_ordinal),
                                segment.at_event)  # fmt: skip
                    rows: Any = connection.execute(_CITING, bindings).fetchall()
                    found.update(row[0] for row in rows)
            self._found = self._turns.places(sorted(found - self._turns.hidden))
        return self._found

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places())

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[int, ...]: ...
    def __getitem__(self, at: int | slice) -> int | tuple[int, ...]:
        """Return one index, or several."""
        return self._places()[at]
