"""The event `factResolved`: how the application ended a dispute about a fact of a summary (R156, R153, X54).

Values and sentence stand in a part of kind `fact`; the row holds ids and numbers. The turns that the fact rests on are
touched, so every summary that states it is stale and the next version is built with what was decided.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import apsw

from planner.ledger.codec import decode, encode
from planner.ledger.facts import fact_digest
from planner.ledger.faults import corrupt
from planner.ledger.heads import conversation_key, read_head
from planner.ledger.lineage import Segment, lineage
from planner.ledger.rows import find_message, newest_turn
from planner.ledger.scope import Appended, Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.ledger.summary_rows import SummaryRow, rows_where
from planner.ledger.texts import get_text, put_text
from planner.values.field_rules import invalid, text_problem
from planner.values.reasons import PlannerFault
from planner.values.resolution import Decision, FactDecision, FactResolution, Resolver
from planner.values.summary import ConfirmedFact

_PART = "fact"
_SELECT = (
    "SELECT event, conversation, branch, fact_key, decision, resolved_by, confirmation_id, through_sequence, part,"
    " digest FROM resolution WHERE conversation = ? AND branch = ? AND event <= ?"
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the part of a resolution holds: the call as it came, and what follows from it."""

    given: FactDecision = field(repr=False)
    value: str = field(repr=False)
    text: str = field(repr=False)
    rejected_values: tuple[str, ...] = field(repr=False)
    source_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stated:
    """A fact as it stands: by its newest summary, or by a newer decision about it."""

    value: str = field(repr=False)
    text: str = field(repr=False)
    rejected_values: tuple[str, ...] = field(repr=False)
    source_ids: tuple[str, ...] = ()


def resolve_fact(store: Store, conversation_id: str, given: FactDecision, generation: int | None) -> Appended:
    """Record how a dispute ended; the same event again is a no-op.

    Raises RefusalSignal `invalid-input` for a key that no summary of this line states, for a value that changes
    nothing, for a fact whose originals were purged, because its summary could not be built again; PlannerFault
    `duplicate_id` where the confirmation decided something else, `conversation_not_found`, `stale_generation`.
    """
    _check(given)
    with store.write("resolve a fact") as tx:
        scope = open_scope(tx, conversation_id, generation)
        if _is_known(scope, given):
            return scope.result(None)
        facts = _facts(tx.connection, scope.conversation, scope.line, given.fact_key)
        if not facts:
            invalid("$.factKey", "names no confirmed fact of a summary of this line")
        before = {one.fact_key: one for one in _in_force(tx.connection, scope.conversation, scope.line)}
        now = _stated(facts, before.get(given.fact_key))
        if not set(_turns(scope, now.source_ids)):
            invalid("$.factKey", "names a fact whose originals were purged, so its summary cannot be built again")
        kept = _kept(given, now)
        event = tx.record(
            "resolution",
            conversation=scope.conversation,
            branch=scope.branch,
            fact_key=given.fact_key,
            decision=given.decision,
            resolved_by=given.resolved_by,
            confirmation_id=given.confirmation_id,
            through_sequence=scope.head.last_sequence,
            part=put_text(tx, scope.conversation, _PART, encode(kept).encode()),
        )
        _touch(scope, event, now.source_ids, given.fact_key)
        _touch(scope, event, tuple(name for _, fact in facts for name in fact.source_ids), given.fact_key)
        return scope.result(None)


def read_resolutions(store: Store, conversation_id: str) -> tuple[FactResolution, ...]:
    """Return what is in force for each fact key in the conversation's present line, oldest decision first."""
    with store.read("read how disputes ended") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        return tuple(_in_force(connection, head.conversation, lineage(connection, head.branch, head.event)))


def _check(given: FactDecision) -> None:
    if type(given) is not FactDecision:
        invalid("$", "expected a FactDecision")
    check_id(given.fact_key, "$.factKey")
    check_id(given.confirmation_id, "$.confirmationId")
    if given.citation_id is not None:
        check_id(given.citation_id, "$.citationId")
    for name, value, known in (
        ("decision", given.decision, get_args(Decision)),
        ("resolvedBy", given.resolved_by, get_args(Resolver)),
    ):
        if value not in known:
            invalid(f"$.{name}", f"is not {' or '.join(known)}")
    problem = text_problem(given.value) or (None if given.value.strip() else "is blank")
    if problem:
        invalid("$.value", problem)
    problem = None if given.text is None else text_problem(given.text) or (None if given.text.strip() else "is blank")
    if problem:
        invalid("$.text", problem)
    if given.decision == "keep" and (given.text is not None or given.citation_id is not None):
        invalid("$.decision", "keeps what stands, so it brings neither text nor citation")


def _is_known(scope: Scope, given: FactDecision) -> bool:
    """Tell whether this very event is recorded. Raises PlannerFault `duplicate_id` where its id decided otherwise."""
    row: Any = scope.tx.connection.execute(
        "SELECT part, fact_key, decision, resolved_by, event FROM resolution"
        " WHERE conversation = ? AND confirmation_id = ?",
        (scope.conversation, given.confirmation_id),
    ).fetchone()
    if row is None:
        return False
    body = get_text(scope.tx.connection, scope.conversation, _PART, row[0])
    same = tuple(row[1:4]) == (given.fact_key, given.decision, given.resolved_by)
    if body is not None:
        same = decode(_Kept, body.decode(), f"resolution of event {row[4]}").given == given
    if not same:
        raise PlannerFault("duplicate_id", "the confirmation decided something else")
    return True


def _facts(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], fact_key: str
) -> list[tuple[int, ConfirmedFact]]:
    """Return every fact of this key that an accepted version of this line states, by the version's event.

    One that names no message rests on the first source of its summary.
    """
    spelled = f'"factKey":{json.dumps(fact_key, ensure_ascii=False)}'
    rows: list[SummaryRow] = []
    for part in line:
        rows += rows_where(
            connection,
            "conversation = ? AND branch = ? AND status = 'accepted' AND covers_to <= ? AND event <= ?"
            " AND instr(body, ?) > 0",
            (conversation, part.branch, part.at_sequence, part.at_event, spelled),
        )
    found: list[tuple[int, ConfirmedFact]] = []
    for row in sorted(rows, key=lambda row: row.event):
        record = row.record()
        if record is None:
            continue
        found += [
            (row.event, replace(fact, source_ids=fact.source_ids or record.source_ids[:1]))
            for fact in record.confirmed_facts
            if fact.fact_key == fact_key and fact.fact_value is not None
        ]
    return found


def _stated(facts: Sequence[tuple[int, ConfirmedFact]], before: FactResolution | None) -> _Stated:
    """Return what stands for a key: the newest decision, or a fact that a newer summary found in newer words."""
    event, fact = facts[-1]
    if before is not None and (fact.confirmation_id == before.confirmation_id or before.event > event):
        return _Stated(before.value, before.text, before.rejected_values, before.source_ids)
    rejected = fact.rejected_values if before is None else before.rejected_values
    return _Stated(fact.fact_value or "", fact.text, rejected, fact.source_ids)


def _kept(given: FactDecision, now: _Stated) -> _Kept:
    if given.value == now.value:
        invalid("$.value", "is the value that stands already")
    if given.decision == "keep":
        value, text, turned_down = now.value, now.text, given.value
    else:
        value, text, turned_down = given.value, given.text or f"{given.fact_key}: {given.value}", now.value
    rejected = tuple(one for one in dict.fromkeys((*now.rejected_values, turned_down)) if one != value)
    return _Kept(given, value, text, rejected, now.source_ids)


def _touch(scope: Scope, event: int, message_ids: Sequence[str], fact_key: str) -> None:
    """Touch the turns a fact rests on: no summary that states it is current any more."""
    for ordinal in sorted(set(_turns(scope, message_ids))):
        row = newest_turn(scope.tx.connection, scope.conversation, scope.line, ordinal)
        scope.touch(row, event, "fact", fact_key)


def _turns(scope: Scope, message_ids: Sequence[str]) -> Iterator[int]:
    """Yield the ordinals of the turns that have these messages and their originals."""
    for name in message_ids:
        message = find_message(scope.tx.connection, scope.conversation, scope.line, name)
        if message is not None and message.body is not None and message.turn is not None:
            yield message.turn


def _in_force(connection: apsw.Connection, conversation: int, line: Sequence[Segment]) -> list[FactResolution]:
    """Return the newest decision of each key that a line sees; one whose words were purged rules nothing any more."""
    newest: dict[str, FactResolution] = {}
    rows: list[Any] = []
    for part in line:
        rows += connection.execute(_SELECT, (conversation, part.branch, part.at_event)).fetchall()
    for *columns, digest in sorted(rows, key=lambda row: int(row[0])):
        event, _, _, key, decision, resolved_by, confirmation_id, through, part_key = columns
        if fact_digest("resolution", columns) != digest:
            corrupt(f"resolution of event {event}")
        body = get_text(connection, conversation, _PART, part_key)
        newest.pop(key, None)
        if body is None:
            continue
        kept = decode(_Kept, body.decode(), f"resolution of event {event}")
        newest[key] = FactResolution(
            confirmation_id=confirmation_id, fact_key=key, decision=decision, resolved_by=resolved_by, event=event,
            value=kept.value, text=kept.text, rejected_values=kept.rejected_values, source_ids=kept.source_ids,
            through_sequence=through, citation_id=kept.given.citation_id,
            edited_ids=_edited(connection, conversation, line, event),
        )  # fmt: skip
    return list(newest.values())


def _edited(connection: apsw.Connection, conversation: int, line: Sequence[Segment], after: int) -> frozenset[str]:
    found: set[str] = set()
    for part in line:
        rows = connection.execute(
            "SELECT DISTINCT causing_id FROM touch WHERE conversation = ? AND branch = ? AND cause = 'edit'"
            " AND event > ? AND event <= ?",
            (conversation, part.branch, after, part.at_event),
        ).fetchall()
        found |= {str(row[0]) for row in rows}
    return frozenset(found)
