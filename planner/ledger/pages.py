"""Turns as values, read by pages: a view loads what is looked at and nothing else (design.md §2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import apsw

from planner.ledger.bodies import message_from
from planner.ledger.faults import corrupt
from planner.ledger.lineage import Segment
from planner.ledger.rows import MessageRow, TurnRow, find_turn, newest_messages, newest_turns
from planner.ledger.store import Store
from planner.ledger.texts import get_text
from planner.values.reasons import PlannerFault
from planner.values.turn import Message, MustPreserve, OpenItem, Turn

PAGE_TURNS = 64
_SHOWN_TURNS = 16
"""Turns of a view's page: a plan looks at the newest ones, and elsewhere at single turns."""
_KEPT_PAGES = 128


def load_turns(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], first: int, last: int
) -> list[Turn]:
    """Return turns `first..last` of a line, oldest first, every state. Raises PlannerFault `ledger_corrupt`."""
    if last < first:
        return []
    rows = newest_turns(connection, conversation, line, first, last)
    messages = newest_messages(connection, conversation, line, first, last)
    return [turn_from(connection, row, messages.get(row.ordinal, [])) for row in rows]


def shown_messages(row: TurnRow, messages: Sequence[MessageRow]) -> Sequence[MessageRow]:
    """Return the messages a turn shows.

    A cancelled turn shows its terminal record: what is protected stays, no word of the assistant does (R58, X37).
    """
    if row.state != "cancelled":
        return messages
    return [entry for entry in messages if entry.role == "user" and entry.protection is not None]


def turn_from(connection: apsw.Connection, row: TurnRow, messages: Sequence[MessageRow]) -> Turn:
    """Return the value of a turn from its newest rows. Raises PlannerFault `ledger_corrupt`."""
    if len(messages) < row.messages or (row.state == "completed" and len(messages) != row.messages):
        corrupt(f"turn {row.ordinal} has {len(messages)} messages of {row.messages}")
    return Turn(
        id=row.id,
        sequence=row.sequence,
        state=row.state,
        messages=tuple(message_value(entry) for entry in shown_messages(row, messages)),
        must_preserve=tuple(
            MustPreserve(name, constraint_text(connection, row.conversation, part)) for name, part in row.marks
        ),
        supersedes=row.supersedes,
        open_items=tuple(OpenItem(name, status) for name, status in row.items),
        material=row.material,
    )


def message_value(row: MessageRow) -> Message:
    """Return the value of a message. Raises PlannerFault `stale_generation` where retention took its text since."""
    if row.body is None:
        raise PlannerFault("stale_generation", f"the original with sequence {row.sequence} was purged")
    return message_from(
        row.body,
        message_id=row.id,
        role=row.role,
        protection=row.protection,
        sequence=row.sequence,
        version=row.version,
    )


def constraint_text(connection: apsw.Connection, conversation: int, part: str | None) -> str | None:
    """Return the wording of a constraint; None where it has none, or none any more."""
    if part is None:
        return None
    body = get_text(connection, conversation, "constraint", part)
    return None if body is None else body.decode()


class ShownTurns(Sequence[Turn]):
    """The shown turns of a view: ordinals `start..end - 1` less the hidden ones, loaded by pages when looked at.

    Every row is read as of the view's event, so what is written later does not show.
    """

    def __init__(
        self, store: Store, conversation: int, line: Sequence[Segment], span: tuple[int, int], hidden: Sequence[int]
    ) -> None:
        """Make the sequence; `span` is start and end of the ordinals, `hidden` some of them, rising."""
        self._store = store
        self._conversation = conversation
        self._line = tuple(line)
        self._start, self._end = span
        self._hidden = tuple(hidden)
        # hidden[j] less j: how many shown turns stand before it.
        self._before = [ordinal - self._start - place for place, ordinal in enumerate(self._hidden)]
        self._pages: OrderedDict[int, dict[int, Turn]] = OrderedDict()
        self._alone: OrderedDict[int, tuple[int, Turn]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of shown turns, known without reading any."""
        return self._end - self._start - len(self._hidden)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Turn]: ...

    def __getitem__(self, index: int | slice) -> Turn | Sequence[Turn]:
        """Return one turn, or a tuple of several."""
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._at(self.ordinal(place))

    def __iter__(self) -> Iterator[Turn]:
        """Go through the turns page by page."""
        return (self._at(self.ordinal(place)) for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal turns."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Hash what never changes: which turns these are."""
        return hash((self._conversation, self._line, self._start, self._end, self._hidden))

    @property
    def span(self) -> tuple[int, int]:
        """First and last ordinal, both inclusive."""
        return self._start, self._end - 1

    @property
    def hidden(self) -> frozenset[int]:
        """Ordinals between them that are not shown."""
        return frozenset(self._hidden)

    def ordinal(self, place: int) -> int:
        """Return the ordinal of the shown turn at `place`."""
        return self._start + place + bisect_right(self._before, place)

    def places(self, ordinals: Iterable[int]) -> tuple[int, ...]:
        """Return the indexes of shown turns from their ordinals; purged ones are left out."""
        return tuple(
            ordinal - self._start - bisect_left(self._hidden, ordinal) for ordinal in ordinals if ordinal >= self._start
        )

    def index_of(self, turn_id: str) -> int | None:
        """Return the index of a turn by its id, None where none of that id is shown; reads no page."""
        with self._store.read("find a turn") as connection:
            row = find_turn(connection, self._conversation, self._line, turn_id)
        if row is None or not self._start <= row.ordinal < self._end or row.ordinal in self._hidden:
            return None
        return self.places((row.ordinal,))[0]

    def _at(self, ordinal: int) -> Turn:
        number = ordinal // _SHOWN_TURNS
        alone = self._alone.get(number)
        if number in self._pages:
            self._pages.move_to_end(number)
            turn = self._pages[number][ordinal]
        elif alone is not None and alone[0] == ordinal:
            turn = alone[1]
        elif alone is not None or self._goes_on(number):
            turn = self._page(number)[ordinal]
        else:
            turn = self._load(ordinal, ordinal)[ordinal]
            self._alone[number] = (ordinal, turn)
            if len(self._alone) > _KEPT_PAGES:
                self._alone.popitem(last=False)
        if turn.state not in ("completed", "open"):
            corrupt(f"turn {ordinal} is not among the hidden ones")
        return turn

    def _goes_on(self, number: int) -> bool:
        """Tell whether a page is read on at its first look: the newest one, or one beside a page that is here.

        Elsewhere a plan looks at one turn: the end of a range that left, or a step of a search for a place.
        """
        newest = number == (self._end - 1) // _SHOWN_TURNS
        return newest or number + 1 in self._pages or number - 1 in self._pages

    def _page(self, number: int) -> dict[int, Turn]:
        first = max(number * _SHOWN_TURNS, self._start)
        page = self._load(first, min((number + 1) * _SHOWN_TURNS, self._end) - 1)
        page.update(filter(None, [self._alone.pop(number, None)]))  # what was given out stays the same object
        self._pages[number] = page
        if len(self._pages) > _KEPT_PAGES:
            self._pages.popitem(last=False)
        return page

    def _load(self, first: int, last: int) -> dict[int, Turn]:
        with self._store.read("read turns") as connection:
            found = load_turns(connection, self._conversation, self._line, first, last)
        return dict(enumerate(found, first))


def stream(store: Store, conversation: int, line: Sequence[Segment], span: tuple[int, int]) -> Iterator[Turn]:
    """Yield turns of every state by sequence; each page is a short read of its own, so no checkpoint waits for it."""
    start, end = span
    for first in range(start, end, PAGE_TURNS):
        with store.read("read turns") as connection:
            page = load_turns(connection, conversation, line, first, min(first + PAGE_TURNS, end) - 1)
        yield from page
