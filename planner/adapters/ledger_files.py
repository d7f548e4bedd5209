"""Histories into a ledger and out of it: one transaction a turn, safe to repeat after a crash (R4, R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

from planner.adapters.frames import Frame, dump_frame, empty_frame
from planner.adapters.turn_files import Incoming, grouped, located, read_history, read_records
from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_record

Told = Callable[[], None]


def _say_nothing() -> None:
    """Stand in for a caller who is not told."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did. `known` of the turns or records were there already; `raw` could not be classified.

    `empty` counts open turns without a message, of which there is nothing to store. The terminal record of a cancelled
    one is stored: a constraint that stands on it may be in force (X37). `purged` counts turns that were here and that
    retention took: an import does not bring them back (R146).
    """

    conversation_id: str
    turns: int = 0
    messages: int = 0
    records: int = 0
    known: int = 0
    raw: int = 0
    empty: int = 0
    purged: int = 0
    policy_stored: bool = False


def import_history(
    ledger: Ledger,
    conversation_id: str,
    stream: BinaryIO,
    *,
    frame: Frame | None = None,
    told: Told = _say_nothing,
) -> Imported:
    """Take the turns of a file into a conversation, and the frame where the file or the caller brings one.

    frame  stored in place of the file's own.
    told   called after each transaction.
    What is there already stays as it is, so a run that ended anywhere is repeated as a whole. What was stored before
    a turn that is refused stays. Raises RefusalSignal `invalid-input` with line or path, and PlannerFault.
    """
    history = read_history(stream)
    done = Imported(conversation_id)
    boundary = _boundary(ledger, conversation_id)
    for step in _steps(history.turns):
        turn = step.turn
        if not step.messages and turn.state == "open":
            done = replace(done, empty=done.empty + 1)
            continue
        if turn.sequence <= boundary and _was_here(ledger, conversation_id, turn.id):
            done = replace(done, purged=done.purged + step.is_last)
            continue
        with _at(step.where):
            result = ledger.append(
                conversation_id,
                turn.id,
                step.messages,
                state=turn.state if step.is_last and turn.state != "open" else None,
                must_preserve=turn.must_preserve,
                supersedes=turn.supersedes,
                open_items=turn.open_items,
                material=turn.material,
                sequence=None if step.messages else turn.sequence,
            )
        done = replace(
            done,
            turns=done.turns + step.is_last,
            messages=done.messages + len(step.messages),
            known=done.known + (step.is_last and not result.changed),
        )
        told()
    return replace(done, policy_stored=_store_frame(ledger, conversation_id, frame or history.frame))


def import_records(
    ledger: Ledger,
    conversation_id: str,
    stream: BinaryIO,
    *,
    frame: Frame | None = None,
    told: Told = _say_nothing,
) -> Imported:
    """Take old records into a conversation; one without a known role or source is kept raw (R14).

    A question and the answers behind it are one transaction. Raises as `import_history` does.
    """
    done = Imported(conversation_id)
    for group in grouped(read_records(stream)):
        with _at(group[0].where):
            result = ledger.import_legacy(conversation_id, [entry.record for entry in group])
        done = replace(
            done, records=done.records + len(group), known=done.known + (0 if result.changed else len(group))
        )
        told()
    stored = _store_frame(ledger, conversation_id, frame)
    return replace(done, raw=len(ledger.unclassified(conversation_id)), policy_stored=stored)


def export_turns(ledger: Ledger, conversation_id: str, branch: str | None = None) -> Iterator[bytes]:
    """Yield every visible turn as one JSON line, oldest first; what was purged is not there any more.

    A withdrawal of a constraint whose turn was purged is left out with it: there is nothing left to withdraw.
    Raises PlannerFault `conversation_not_found` and those of the storage.
    """
    marked: set[str] = set()
    for turn in ledger.turns(conversation_id, branch=branch):
        known = tuple(name for name in turn.supersedes if name in marked)
        marked.update(mark.constraint_id for mark in turn.must_preserve)
        yield dump_record(turn if known == turn.supersedes else replace(turn, supersedes=known)) + b"\n"


def left_behind(ledger: Ledger, conversation_id: str, branch: str | None = None) -> tuple[str, ...] | None:
    """Return the constraints in force whose turn an export lacks because it was purged; None for a branch not in use.

    Raises as `export_turns` does.
    """
    if branch not in (None, ledger.head(conversation_id).branch):
        return None
    shown = {turn.id for turn in ledger.turns(conversation_id)}
    return tuple(one.id for one in ledger.view(conversation_id).constraints if one.turn_id not in shown)


@dataclass(frozen=True, slots=True)
class _Step:
    """Messages of one turn that no message of another turn stands between."""

    where: str
    turn: Turn
    messages: tuple[Message, ...]
    is_last: bool


def _steps(turns: Iterable[Incoming]) -> Iterator[_Step]:
    """Cut turns where messages of another one stand between theirs: a ledger takes messages in their order.

    A late tool result interleaves turns; every other turn is one step.
    """
    waiting: list[tuple[int, Incoming, Message]] = []
    refusal: RefusalSignal | None = None
    try:
        for incoming in turns:
            turn = incoming.turn
            waiting, due = _split(waiting, turn.sequence)
            yield from _grouped(due, waiting)
            if not turn.messages:
                yield _Step(incoming.where, turn, (), is_last=True)
            waiting += [(turn.sequence_of(place), incoming, message) for place, message in enumerate(turn.messages)]
    except RefusalSignal as signal:
        refusal = signal
    if refusal is None or _is_gapless(waiting):
        # A turn that is there whole is stored; where a gap is left, the line that cannot be read may belong in it.
        yield from _grouped(_split(waiting, None)[1], [])
    if refusal is not None:
        raise refusal


_Waiting = list[tuple[int, Incoming, Message]]


def _is_gapless(waiting: _Waiting) -> bool:
    places = sorted(entry[0] for entry in waiting)
    return not places or places[-1] - places[0] + 1 == len(places)


def _split(waiting: _Waiting, before: int | None) -> tuple[_Waiting, _Waiting]:
    due = [entry for entry in waiting if before is None or entry[0] < before]
    rest = [entry for entry in waiting if before is not None and entry[0] >= before]
    return rest, sorted(due, key=lambda entry: entry[0])


def _grouped(due: _Waiting, rest: _Waiting) -> Iterator[_Step]:
    at = 0
    while at < len(due):
        owner = due[at][1]
        end = next((place for place in range(at, len(due)) if due[place][1] is not owner), len(due))
        more = any(entry[1] is owner for entry in (*due[end:], *rest))
        yield _Step(owner.where, owner.turn, tuple(entry[2] for entry in due[at:end]), is_last=not more)
        at = end


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Say with a refusal of the ledger which turn of the file it concerns."""
    found: RefusalSignal | PlannerFault | None = None
    try:
        yield
    except RefusalSignal as signal:
        found = RefusalSignal(signal.reason, located(where, signal.detail))
    except PlannerFault as fault:
        if fault.code != "duplicate_id":
            raise
        found = PlannerFault(fault.code, located(where, fault.detail))
    if found is not None:
        raise found


def _boundary(ledger: Ledger, conversation_id: str) -> int:
    """Return the sequence up to which originals were purged, -1 where none was."""
    if conversation_id not in ledger.conversations():
        return -1
    runs = (run.through_sequence for run in ledger.retentions(conversation_id))
    return max((through for through in runs if through is not None), default=-1)


def _was_here(ledger: Ledger, conversation_id: str, turn_id: str) -> bool:
    try:
        return bool(ledger.turn_versions(conversation_id, turn_id))
    except PlannerFault as fault:
        if fault.code != "conversation_not_found":
            raise
        return False


def _store_frame(ledger: Ledger, conversation_id: str, frame: Frame | None) -> bool:
    """Store a frame; without one an empty frame where none is stored, so that its policy has a version."""
    known = ledger.policy(conversation_id) if conversation_id in ledger.conversations() else None
    if frame is None and known is not None:
        return False
    data = dump_frame(frame or empty_frame())
    if data == known:
        return False
    ledger.store_policy(conversation_id, data)
    return True
