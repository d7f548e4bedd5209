"""Which turns count, which summaries and constraints are in force, and the request's own turn (design.md §2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import overload

from planner.steps.recall_revoked import without_revoked
from planner.steps.recall_summaries import Judged, judge, refuse_unused, use_of, use_of_stale, without_overlaps
from planner.values.check_summary import SummaryFrame
from planner.values.constraint import Constraint
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Removal
from planner.values.relations import NO_RELATIONS, Relations, relates, relations
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.rung import History
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from planner.values.view import View

REQUEST_TURN = "request"


def recall(request: PlanRequest, *, revoked: frozenset[str] = frozenset()) -> History:
    """Return the history of a request whose turns came with it, summaries verified by full recomputation.

    revoked  citation ids that may not be used any more: a summary that rests on one is stale, a turn is left out (X39).
    Refuses nothing_to_answer where no open turn waits for an answer, invalid-summary and stale-source where the
    request asks for it, raw_history_overflow where a constraint can stand nowhere, protected_source_revoked.
    """
    ordered = sorted(request.turns, key=lambda turn: turn.sequence)
    found = relations(filter(relates, ordered))

    def inside(record: SummaryRecord) -> Sequence[Turn]:
        low = bisect_left(ordered, record.covers_from, key=_sequence)
        return ordered[low : bisect_right(ordered, record.covers_to, key=_sequence)]

    history = without_revoked(assemble_history(ordered, request.request, found), ordered, revoked)
    judged = judge(request.summaries, summary_frame(request, found.constraints, revoked), inside)
    return with_facts(history, found.constraints, judged, request.request)


def recall_view(request: PlanRequest, view: View, *, revoked: frozenset[str] = frozenset()) -> History:
    """Return the history of a view that was verified where it is kept; turns are read only where needed.

    The request's own turns and summaries play no part. Refuses as `recall` does, and unrecoverable_history where a
    purged turn held what must not be lost.
    """
    opened = [view.turns[index] for index in view.pinned if view.turns[index].state == "open"]
    last = view.turns[-1].sequence if view.turns else 0
    own = own_turn(opened, request.request, last, _Taken(view))
    history = History(view.turns, tuple(view.pinned), own, view.hidden)
    history = without_own(history, opened, view.held, view.withdrawing)
    if revoked:
        history = without_revoked(history, (view.turns[index] for index in view.citing), revoked)
    current, unused = without_overlaps(record for record in view.summaries if revoked.isdisjoint(record.citation_ids))
    revoking = [
        use_of(record, "stale-source", "citation_revoked")
        for record in view.summaries
        if not revoked.isdisjoint(record.citation_ids)
    ]
    if view.boundary is not None:
        history = replace(history, boundary=view.boundary, echoing=_echoing(view, current))
    unused = (*map(use_of_stale, view.stale), *revoking, *unused)
    return with_facts(history, view.constraints, Judged(current, unused), request.request)


def _echoing(view: View, current: Sequence[SummaryRecord]) -> frozenset[str]:
    """Return the summaries that echo what purged turns left unfinished. Refuses unrecoverable_history."""
    echoed = {f"item/{item}": record.id for record in current for item in record.open_items}
    lost = [name for name in view.lost if name not in echoed]
    if lost:
        where = f"turns up to sequence {view.boundary} were purged"
        raise RefusalSignal("unrecoverable_history", f"{where}, and with them {', '.join(lost)}")
    return frozenset(echoed[name] for name in view.lost)


def asked_turns(request: PlanRequest, view: View) -> tuple[Turn | None, Turn | None]:
    """Return the turn that the request names, a bare one where it is not open, and the newest open turn."""
    opened = [view.turns[index] for index in view.pinned if view.turns[index].state == "open"]
    name = request.request.turn_id
    named = next((turn for turn in opened if turn.id == name), None)
    if named is None and name is not None and name in _Taken(view):
        named = Turn(name, 0, "completed", ())
    return named, max((turn for turn in opened if turn.messages), key=_sequence, default=None)


class _Taken:
    """The ids of a view's turns, looked up only where a question asks."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __contains__(self, turn_id: object) -> bool:
        hidden = any(entry.id == f"turn/{turn_id}" for entry in self.view.hidden)
        find = getattr(self.view.turns, "index_of", None)
        if find is not None:
            return hidden or find(turn_id) is not None
        return hidden or any(turn.id == turn_id for turn in self.view.turns)


def summary_frame(
    request: PlanRequest, constraints: tuple[Constraint, ...], revoked: frozenset[str] = frozenset()
) -> SummaryFrame:
    """Return what the summaries of a request are judged against."""
    return SummaryFrame(
        request.conversation_id, request.generation, request.policy_version, constraints=constraints,
        revoked_citation_ids=revoked,
    )  # fmt: skip


def with_facts(
    history: History, constraints: tuple[Constraint, ...], judged: Judged, request: CurrentRequest
) -> History:
    """Return the history with the constraints in force and its summaries. Refuses as `recall` does."""
    if not constraints and not judged.current and not judged.unused:
        return history
    hidden = {entry.id for entry in history.left_out}
    lost = [entry.id for entry in constraints if entry.text is None and f"turn/{entry.turn_id}" in hidden]
    if lost:  # its turn is never shown and it has no words of its own
        raise RefusalSignal("raw_history_overflow", f"constraint {lost[0]} of a cancelled turn has no text")
    if request.on_invalid_summary == "refuse":
        refuse_unused(judged.unused)
    return replace(history, constraints=constraints, summaries=judged.current, unused=judged.unused)


def assemble_history(ordered: Sequence[Turn], request: CurrentRequest, found: Relations = NO_RELATIONS) -> History:
    """Sort turns already ordered by sequence into history, pins and the request's own turn."""
    turns: list[Turn] = []
    pinned: list[int] = []
    opened: list[Turn] = []
    left_out: list[Removal] = []
    for turn in ordered:
        if turn.state in ("cancelled", "superseded"):
            left_out.append(Removal(f"turn/{turn.id}", turn.state))
        elif turn.state == "open":
            opened.append(turn)
        if turn.state in ("completed", "open"):
            if turn.pinned or turn.state == "open":
                pinned.append(len(turns))
            turns.append(turn)
    own = own_turn(opened, request, turns[-1].sequence if turns else 0, {turn.id for turn in ordered})
    held = [index for index, turn in enumerate(turns) if turn.id in found.held] if found.held else ()
    withdrawing = [at for at, turn in enumerate(turns) if turn.id in found.withdrawing] if found.withdrawing else ()
    return without_own(History(turns, tuple(pinned), own, tuple(left_out)), opened, held, withdrawing)


def without_own(
    history: History, opened: Sequence[Turn], held: Sequence[int] = (), withdrawing: Sequence[int] = ()
) -> History:
    """Return the history without the request's own turn among its turns; indexes after it move down."""
    own, turns = history.open_turn, history.turns
    if not any(turn.id == own.id for turn in opened):
        return replace(history, held=tuple(held), withdrawing=tuple(withdrawing)) if held or withdrawing else history
    find: Callable[[str], int | None] | None = getattr(turns, "index_of", None)
    # Turns that are read where they are looked at know a place without a search through them.
    place = bisect_left(turns, own.sequence, key=_sequence) if find is None else find(own.id) or 0

    def moved(indexes: Sequence[int]) -> tuple[int, ...]:
        return tuple(index - (index > place) for index in indexes if index != place)

    if not isinstance(turns, list):
        left: Sequence[Turn] = _Without(turns, place)
    else:
        left = [*turns[:place], *turns[place + 1 :]] if place + 1 < len(turns) else turns[:place]
    return replace(
        history, turns=left, pinned=moved(history.pinned), held=moved(held),
        withdrawing=moved(withdrawing),
    )  # fmt: skip


def _sequence(turn: Turn) -> int:
    return turn.sequence


class _Without(Sequence[Turn]):
    """Turns less the one at `place`; nothing is read before it is asked for."""

    def __init__(self, turns: Sequence[Turn], place: int) -> None:
        self._turns, self._place, self._count = turns, place, len(turns) - 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> list[Turn]: ...
    def __getitem__(self, at: int | slice) -> Turn | list[Turn]:
        if isinstance(at, slice):
            return [self[index] for index in range(self._count)[at]]
        index = range(self._count)[at]
        return self._turns[index + (index >= self._place)]


def own_turn(opened: Iterable[Turn], request: CurrentRequest, last_sequence: int, taken: Container[str]) -> Turn:
    """Return the request's turn: made from `text`, or the open turn that is to be continued.

    taken  ids of all turns; a made turn without an id of its own takes none of them.
    Refuses nothing_to_answer.
    """
    waiting = list(opened)
    if request.text is not None:
        turn_id = request.turn_id or _free_id(request.id or REQUEST_TURN, taken)
        known = next((turn for turn in waiting if turn.id == turn_id), None)
        sequence = known.sequence if known is not None else last_sequence + 1
        message = Message(role="user", id=request.id, text=request.text)
        return Turn(id=turn_id, sequence=sequence, state="open", messages=(message,))
    named = [turn for turn in waiting if request.turn_id in (None, turn.id)]
    if not named:
        raise RefusalSignal("nothing_to_answer", "no open turn and no request.text")
    own = max(named, key=lambda turn: turn.sequence)
    spoken = [message for message in own.messages if message.accepted]
    if not any(message.role == "user" for message in spoken):
        raise RefusalSignal("nothing_to_answer", f"turn {own.id} has no user message")
    if spoken[-1].role == "assistant" and not spoken[-1].tool_calls:
        raise RefusalSignal("nothing_to_answer", f"turn {own.id} ends with an answer")
    return own


def _free_id(wanted: str, taken: Container[str]) -> str:
    # Ids of different kinds may be equal, so the request may be called like an old turn.
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}.{number}"
    return found
