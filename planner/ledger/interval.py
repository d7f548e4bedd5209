"""The turns of an interval of sequences, every state: what a summary of it is judged against."""

from __future__ import annotations

from planner.ledger.chains import first_ordinal
from planner.ledger.heads import conversation_key, read_branch, read_head
from planner.ledger.lineage import lineage
from planner.ledger.pages import load_turns
from planner.ledger.store import Store
from planner.values.turn import Turn

_BORDERS = (
    "SELECT min(ordinal), max(ordinal) FROM turn INDEXED BY turn_sequence"
    " WHERE conversation = ? AND branch = ? AND sequence BETWEEN ? AND ? AND version = 1 AND event <= ?"
)


def read_interval(store: Store, conversation_id: str, first: int, last: int) -> tuple[Turn, ...]:
    """Return every visible turn whose sequence lies in `first`..`last`, both inclusive, by sequence.

    Raises PlannerFault `conversation_not_found` and those of the storage.
    """
    with store.read("read an interval") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        line = lineage(connection, head.branch, head.event)
        span = (
            first_ordinal(connection, head.conversation, line, head.purged_through),
            read_branch(connection, head.conversation, head.branch).turns,
        )
        ordinals: list[int] = []
        for segment in line:
            bindings = (
                head.conversation, segment.branch, first, min(last, segment.at_sequence), segment.at_event,
            )  # fmt: skip
            row = connection.execute(_BORDERS, bindings).fetchone()
            ordinals += [int(str(one)) for one in row or () if one is not None]
        if not ordinals:
            return ()
        low, high = max(min(ordinals), span[0]), min(max(ordinals), span[1] - 1)
        found = load_turns(connection, head.conversation, line, low, high)
    return tuple(turn for turn in found if first <= turn.sequence <= last)
