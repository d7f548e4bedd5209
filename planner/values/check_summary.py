"""Whether a summary still stands for its turns, by full recomputation (R84, R85, R97..R100, R140, X45).

Nothing is believed that the record says about its sources: everything is taken from the turns again and compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from planner.values.compaction import STRATEGY_VERSION, Rejected, Run, Staleness
from planner.values.constraint import Constraint
from planner.values.fingerprint import fingerprint, protected_fingerprint, source_messages
from planner.values.receipt import Removal
from planner.values.resolution import FactResolution, unsettled
from planner.values.summary import StateEntry, SummaryRecord
from planner.values.turn import Message, MustPreserve, Turn

StaleCause = Literal[
    "other_conversation",
    "other_generation",
    "other_revision",
    "policy_version",
    "strategy_version",
    "source_missing",
    "source_added",
    "source_changed",
    "turn_not_completed",
    "protection_changed",
    "constraint_changed",
    "open_item_changed",
    "citation_revoked",
    "fact_resolved",
]
"""What a `Staleness` of this module may name as its cause."""

_ENDED = ("cancelled", "superseded")
_CLASSIFIED = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class SummaryFrame:
    """What a summary is judged against beside its turns.

    generation   that of the plan; None where the summary is to be adopted into another one (X11).
    constraints  the live ones, of the whole conversation.
    revision     set only in the conservative mode, in which any other revision makes a summary stale (R120).
    resolutions  how disputes about facts ended, one a key; a summary that does not show one is stale (R156).
    """

    conversation_id: str | None
    generation: int | None
    policy_version: str
    strategy_version: str = STRATEGY_VERSION
    constraints: tuple[Constraint, ...] = ()
    revoked_citation_ids: frozenset[str] = frozenset()
    revision: int | None = None
    resolutions: tuple[FactResolution, ...] = ()


def live_marks(turn: Turn, constraints: Iterable[Constraint]) -> tuple[MustPreserve, ...]:
    """Return the marks of a turn that are in force: id and turn are those of a live constraint (R98, X45).

    A mark that another turn made again is in force there, not here.
    """
    if not turn.must_preserve:
        return ()
    live = {entry.id for entry in constraints if entry.turn_id == turn.id}
    return tuple(mark for mark in turn.must_preserve if mark.constraint_id in live)


def unfinished_items(turns: Iterable[Turn]) -> dict[str, str]:
    """Return id and status of the items these turns leave pending or blocked; the later turn decides (X32)."""
    found: dict[str, str] = {}
    for turn in sorted(turns, key=lambda turn: turn.sequence):
        for item in turn.open_items:
            found.pop(item.id, None)
            if item.status != "done":
                found[item.id] = item.status
    return found


def may_be_covered(turn: Turn, constraints: Iterable[Constraint]) -> bool:
    """Tell whether a turn may be summarised: completed, and nothing in it that only a raw message can carry.

    That is a protected message (X2), a live constraint without a text, a message that names a constraint which
    another turn marks, a role beside user, assistant and tool (R6): a summary would demote it to data, and an
    image or sound, which the summariser would not see.
    """
    if turn.state != "completed" or turn.pinned or turn.has_media:
        return False
    if any(mark.text is None for mark in live_marks(turn, constraints)):
        return False
    marked = {mark.constraint_id for mark in turn.must_preserve}
    return all(
        message.role in _CLASSIFIED and marked.issuperset(message.constraint_ids)
        for message in turn.messages
        if message.accepted
    )


def may_be_skipped(turn: Turn, constraints: Iterable[Constraint]) -> bool:
    """Tell whether a turn inside an interval is passed over: ended, with neither protection nor constraint (X37)."""
    return turn.state in _ENDED and not turn.pinned and not live_marks(turn, constraints)


def messages_in_order(turns: Iterable[Turn]) -> tuple[Message, ...]:
    """Return the accepted messages of these turns by their sequence, each with it.

    A turn stays together where a message of it has no sequence of its own: turns numbered 1, 2, 3 must not interleave.
    """
    found: list[tuple[tuple[int, int, int], Message]] = []
    for turn in turns:
        own = all(message.sequence is not None for message in turn.messages)
        for place, message in enumerate(source_messages(turn)):
            first = (message.sequence or 0) if own else turn.sequence
            found.append(((first, turn.sequence, place), message))
    return tuple(message for _, message in sorted(found, key=lambda entry: entry[0]))


def run_of(turns: Sequence[Turn], constraints: Iterable[Constraint]) -> Run:
    """Return what a summary of these turns must state; `turns` is a whole interval, skipped ones among them.

    The turns may come in any order and at least one is no ended one. Messages stand in the order of their sequence,
    so a late result of one turn may follow the beginning of the next. A message without an id has the empty one.
    """
    constraints = tuple(constraints)
    ordered = sorted(turns, key=lambda turn: turn.sequence)
    covered = [turn for turn in ordered if turn.state not in _ENDED]
    placed = messages_in_order(covered)
    marks = (mark.constraint_id for turn in covered for mark in live_marks(turn, constraints))
    return Run(
        turn_ids=tuple(turn.id for turn in covered),
        source_ids=tuple(message.id or "" for message in placed),
        source_versions=tuple(message.version for message in placed),
        covers_from=covered[0].sequence,
        covers_to=covered[-1].sequence,
        through_sequence=max((message.sequence or 0 for message in placed), default=covered[-1].sequence),
        source_fingerprint=fingerprint(covered),
        protected_fingerprint=protected_fingerprint(ordered),
        required_constraint_ids=tuple(dict.fromkeys(marks)),
        open_items=tuple(unfinished_items(covered)),
        citation_ids=tuple(dict.fromkeys(entry for message in placed for entry in message.citation_ids)),
        skipped=tuple(Removal(f"turn/{turn.id}", turn.state) for turn in ordered if turn.state in _ENDED),
    )


def summary_problem(record: SummaryRecord, turns: Iterable[Turn], frame: SummaryFrame) -> Staleness | Rejected | None:
    """Return why a summary may not stand for its turns, or None where it may.

    record  any record, also one that came over the wire.
    turns   at least every visible turn, of every state, whose sequence lies in `covers_from`..`covers_to`; more
            turns do no harm and the order does not matter.
    frame   the plan's conversation, generation, versions, live constraints and revoked citations.

    `Staleness`  the record was whole and the world moved on (code `stale-source`); `cause` is a `StaleCause` and
                 `causing_id` the message, turn, constraint, item or citation, where one alone can be named.
    `Rejected`   the record contradicts itself or lacks text or structure (code `invalid-summary`).
    Appended turns are not looked at, and the revision only in the conservative mode (R117); neither is the branch: a
    summary of an ancestor line is judged by its turns alone. Raises nothing.
    """
    broken = _broken(record)
    if broken is not None:
        return broken
    mismatch = _frame_mismatch(record, frame)
    if mismatch is not None:
        return _stale(record, *mismatch)
    inside = inside_of(record, turns)
    now = run_now(record, inside, frame.constraints)
    if not isinstance(now, Run):
        return _stale(record, *now)
    if record.citation_ids != now.citation_ids:
        return _invalid(record, "citation ids are not those of the covered messages")
    if (record.covers_from, record.covers_to, record.through_sequence) != (
        now.covers_from, now.covers_to, now.through_sequence,
    ):  # fmt: skip
        return _invalid(record, "coverage does not begin and end with a covered turn")
    revoked = next((entry for entry in now.citation_ids if entry in frame.revoked_citation_ids), None)
    if revoked is not None:
        return _stale(record, "citation_revoked", revoked)
    return _unsettled(record, inside, frame.resolutions)


def sequences_of(turns: Iterable[Turn]) -> dict[str, int]:
    """Return message id -> sequence of what these turns hold; a message without its own stands at its turn's."""
    return {
        message.id or "": turn.sequence if message.sequence is None else message.sequence
        for turn in turns
        for message in turn.messages
    }


def _unsettled(
    record: SummaryRecord, inside: Iterable[Turn], resolutions: tuple[FactResolution, ...]
) -> Staleness | None:
    found = next(unsettled(record, resolutions, sequences_of(inside)), None) if resolutions else None
    return None if found is None else _stale(record, "fact_resolved", found.fact_key)


def _stale(record: SummaryRecord, cause: StaleCause, causing_id: str | None = None) -> Staleness:
    return Staleness(record.id, cause, causing_id, (record.covers_from, record.covers_to))


def _invalid(record: SummaryRecord, detail: str, *ids: str) -> Rejected:
    return Rejected("invalid-summary", detail, (record.id, *ids))


def _broken(record: SummaryRecord) -> Rejected | None:
    """Return what the record lacks or where it contradicts itself, without looking at a turn (R97, X29)."""
    if not record.summary_text.strip() or not record.state.goal.strip():
        return _invalid(record, "summary text or goal is blank")
    if not record.source_ids or not all(record.source_ids):
        return _invalid(record, "source ids are missing")
    if len(set(record.source_ids)) != len(record.source_ids):
        return _invalid(record, "a source id occurs twice")
    if len(record.source_versions) != len(record.source_ids) or record.protected_fingerprint is None:
        return _invalid(record, "source versions or protected fingerprint are missing")
    known = set(record.source_ids)
    foreign = [entry for entry in _cited(record) if entry not in known]
    if foreign:
        return _invalid(record, "cites a message that is no source", *foreign)
    if any(not fact.source_ids and fact.confirmation_id is None for fact in record.confirmed_facts):
        return _invalid(record, "a confirmed fact names no source")
    if sorted(entry.id or "" for entry in record.state.constraints) != sorted(record.required_constraint_ids):
        return _invalid(record, "constraints of the state are not the required ones")
    if not set(record.open_items) <= {entry.id for entry in record.state.open_actions}:
        return _invalid(record, "an open item is not in the state")
    return None


def _entries(record: SummaryRecord) -> Iterator[StateEntry]:
    state = record.state
    for entries in (state.decisions, state.constraints, state.open_actions, state.questions, state.evidence):
        yield from entries


def _cited(record: SummaryRecord) -> Iterator[str]:
    for entry in _entries(record):
        yield from entry.message_ids
    for fact in record.confirmed_facts:
        yield from fact.source_ids


def _frame_mismatch(record: SummaryRecord, frame: SummaryFrame) -> tuple[StaleCause, str | None] | None:
    if record.conversation_id != frame.conversation_id:
        return "other_conversation", None
    if frame.generation is not None and record.source_generation != frame.generation:
        return "other_generation", None
    if frame.revision is not None and record.source_revision != frame.revision:
        return "other_revision", None
    if record.policy_version != frame.policy_version:
        return "policy_version", None
    if record.strategy_version != frame.strategy_version:
        return "strategy_version", None
    return None


def inside_of(interval: Run | SummaryRecord, turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns whose sequence lies in an interval."""
    return [turn for turn in turns if interval.covers_from <= turn.sequence <= interval.covers_to]


def run_now(
    before: Run | SummaryRecord, inside: Sequence[Turn], constraints: Iterable[Constraint]
) -> Run | tuple[StaleCause, str | None]:
    """Return the run that the turns inside an interval make today if it is the one before, else what changed."""
    constraints = tuple(constraints)
    for turn in inside:
        if turn.state == "open":
            return "turn_not_completed", turn.id
        if not may_be_covered(turn, constraints) and not may_be_skipped(turn, constraints):
            return "protection_changed", turn.id
    if all(turn.state in _ENDED for turn in inside):
        return "source_missing", next(iter(before.source_ids), None)
    now = run_of(inside, constraints)
    return _changed(before, now) or now


def _changed(was: Run | SummaryRecord, now: Run) -> tuple[StaleCause, str | None] | None:
    """Return what differs between the sources as they were and as they are, the plainest cause first."""
    if was.source_ids != now.source_ids:
        missing = [entry for entry in was.source_ids if entry not in set(now.source_ids)]
        added = [entry for entry in now.source_ids if entry not in set(was.source_ids)]
        if missing:
            return "source_missing", missing[0]
        return ("source_added", added[0]) if added else ("source_changed", None)
    pairs = zip(was.source_ids, was.source_versions, now.source_versions, strict=True)
    edited = next((entry for entry, before, after in pairs if before != after), None)
    if edited is not None:
        return "source_changed", edited
    before, after = set(was.required_constraint_ids), set(now.required_constraint_ids)
    if before != after:
        return "constraint_changed", min(before ^ after)
    if set(was.open_items) != set(now.open_items):
        return "open_item_changed", min(set(was.open_items) ^ set(now.open_items))
    if was.protected_fingerprint != now.protected_fingerprint:
        return "protection_changed", None
    return ("source_changed", None) if was.source_fingerprint != now.source_fingerprint else None
