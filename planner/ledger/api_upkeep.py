"""Upkeep of a Ledger: compare, repair what is derived, purge by a recorded run, show figures."""

from __future__ import annotations

from collections.abc import Callable

from planner.ledger.retain import Boundary, retain, retentions
from planner.ledger.stats import Stats, read_stats
from planner.ledger.store import Store
from planner.ledger.verify import Report, verify


class Upkeep:
    """Calls that no plan makes."""

    _store: Store

    def verify(
        self,
        *,
        reanchor: bool = False,
        rebuild: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Compare the whole ledger with itself; `reanchor` and `rebuild` repair what is not a fact."""
        return verify(self._store, reanchor=reanchor, remake=rebuild, progress=progress)

    def retain(self, conversation_id: str, before_sequence: int, reason: str, *, rehearse: bool = False) -> Boundary:
        """Purge the originals of turns that began before a sequence, and record it (R146).

        rehearse  only say what the run would take, which summaries it would void and what plans would then lack.
        """
        return retain(self._store, conversation_id, before_sequence, reason, rehearse=rehearse)

    def retentions(self, conversation_id: str) -> tuple[Boundary, ...]:
        """Return the retention runs of a conversation: what can no longer be had, and why (R146)."""
        return retentions(self._store, conversation_id)

    def stats(self) -> Stats:
        """Return sizes and numbers of rows."""
        return read_stats(self._store)
