"""The reading calls of a Ledger: values only, never a row or a handle (R125)."""

from __future__ import annotations

from collections.abc import Iterator

from planner.ledger.branches import read_policy
from planner.ledger.heads import conversation_key
from planner.ledger.interval import read_interval
from planner.ledger.legacy import read_unclassified
from planner.ledger.past import summaries_at, turns_at
from planner.ledger.reading import (
    Head,
    TurnVersion,
    branches,
    conversations,
    read_heads,
    read_turn_versions,
    read_turns,
    read_versions,
    read_view,
)
from planner.ledger.resolutions import read_resolutions
from planner.ledger.store import Store
from planner.ledger.stored import Active
from planner.values.resolution import FactResolution
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from planner.values.view import View


class Reading:
    """Reading calls, each from one snapshot. An unknown id is PlannerFault `conversation_not_found`."""

    _store: Store

    def head(self, conversation_id: str) -> Head:
        """Return branch, generation, revision and counters of a conversation."""
        return read_heads(self._store, conversation_id)

    def conversations(self) -> tuple[str, ...]:
        """Return the ids of all conversations."""
        return conversations(self._store)

    def branches(self, conversation_id: str) -> tuple[str, ...]:
        """Return the ids of a conversation's branches, oldest first."""
        return branches(self._store, conversation_id)

    def turns(self, conversation_id: str, *, branch: str | None = None) -> Iterator[Turn]:
        """Yield every visible turn by sequence, whatever its state, page by page."""
        return read_turns(self._store, conversation_id, branch)

    def turns_at(self, conversation_id: str, *, generation: int, revision: int) -> tuple[Turn, ...]:
        """Return every turn as of a revision under a generation, as a receipt names them (R186)."""
        return turns_at(self._store, conversation_id, generation, revision)

    def summaries_at(self, conversation_id: str, plan_id: str, policy_version: str) -> tuple[SummaryRecord, ...]:
        """Return the summaries that were current when the receipt of a call was stored (R186)."""
        return summaries_at(self._store, conversation_id, plan_id, policy_version)

    def interval(self, conversation_id: str, first: int, last: int) -> tuple[Turn, ...]:
        """Return every visible turn whose sequence lies between two, both inclusive, whatever its state."""
        return read_interval(self._store, conversation_id, first, last)

    def versions(self, conversation_id: str, message_id: str) -> tuple[Message, ...]:
        """Return every version of a message, oldest first."""
        return read_versions(self._store, conversation_id, message_id)

    def turn_versions(self, conversation_id: str, turn_id: str) -> tuple[TurnVersion, ...]:
        """Return every state a turn was in, oldest first, with the actor of a cancellation (X37)."""
        return read_turn_versions(self._store, conversation_id, turn_id)

    def unclassified(self, conversation_id: str) -> tuple[tuple[str, str], ...]:
        """Return id and original JSON of the legacy records that could not be classified (R14)."""
        return read_unclassified(self._store, conversation_id)

    def policy(self, conversation_id: str) -> bytes | None:
        """Return what `store_policy` stored last."""
        with self._store.read("read a policy") as connection:
            return read_policy(connection, conversation_key(connection, conversation_id))

    def resolutions(self, conversation_id: str) -> tuple[FactResolution, ...]:
        """Return how disputes about facts ended, one entry a key, as the present line sees them (R156)."""
        return read_resolutions(self._store, conversation_id)

    def view(self, conversation_id: str, *, generation: int | None = None, active: Active | None = None) -> View:
        """Return what one plan reads; its turns are loaded when they are looked at.

        active  the policy and strategy versions in force; a summary of another one is stale (X13).
        """
        return read_view(self._store, conversation_id, generation, active or Active())
