"""Histories as files of several shapes to turns: our wire form, OpenAI lists, JSON lines of either, old records.

Lines of turns are read one by one, so such a file may be of any length; every other shape is read whole. Ids follow
design.md §2: what has none is named by its place, message `m7`, turn `t2`, record `r3`. What is wrong is refused with
the line or the JSON path, never with words of the file (R188).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from planner.adapters.frames import Frame, frame_of, read_frame
from planner.adapters.openai import request_from_chat
from planner.ledger.legacy import LegacyRecord
from planner.values.check_turn import check_turn
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest
from planner.values.strict_json import REQUEST_BOUNDS, load_strict
from planner.values.turn import Turn
from planner.wire.chat import parse_chat
from planner.wire.parse import parse_record

LIMIT_BYTES = REQUEST_BOUNDS.total_bytes
"""Most bytes of a line, and of a file that is read whole."""
_ASK_NEXT = {"role": "user", "content": ""}


@dataclass(frozen=True, slots=True)
class Incoming:
    """One turn with the place it came from; every message has its id and its sequence."""

    where: str
    turn: Turn


@dataclass(frozen=True, slots=True)
class History:
    """What a file holds: its turns, oldest first, and the frame where the file brings one."""

    turns: Iterator[Incoming]
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One old record with the place it came from."""

    where: str
    record: LegacyRecord


@dataclass(frozen=True, slots=True)
class _Source:
    """A file after a look at its first line: a whole document, or numbered lines."""

    document: bytes
    lines: Iterator[tuple[int, bytes]] | None = None
    first: Any = None


def read_history(stream: BinaryIO) -> History:
    """Read turns. Raises RefusalSignal `invalid-input`, for lines when they are reached."""
    source = _opened(stream)
    if source.lines is not None:
        return _from_lines(source.lines, source.first)
    tree = load_strict(source.document)
    if type(tree) is list and all(type(one) is dict and "role" not in one for one in tree):
        return History(_named(_ordered((f"$[{at}]", _turn_of(one, f"$[{at}]")) for at, one in enumerate(tree))))
    if type(tree) is dict and "turns" in tree:
        frame = read_frame(source.document)
        given = ((f"$.turns[{at}]", turn) for at, turn in enumerate(frame.request.turns))
        return History(_named(_ordered(given)), frame_of(frame.request, names_bundle=frame.names_bundle))
    chat = parse_chat(source.document)
    return _from_chat(
        chat.messages, chat.tools, max_tokens=chat.max_tokens, max_completion_tokens=chat.max_completion_tokens
    )


def read_records(stream: BinaryIO) -> Iterator[Record]:
    """Read old records `{id, role, source, text}`, whose role and source may be unknown or absent (R14).

    Text is taken to the letter, also where no message may hold it. Raises RefusalSignal `invalid-input`.
    """
    source = _opened(stream)
    if source.lines is None:
        tree = _loosely(source.document, "$")
        if type(tree) is not list:
            invalid("$", "expected an array of records, or a record on each line")
        given: Iterable[tuple[str, Any]] = ((f"$[{at}]", one) for at, one in enumerate(tree))
    else:
        given = ((f"line {number}", _loosely(line, f"line {number}: $")) for number, line in source.lines)
    for number, (where, one) in enumerate(given, start=1):
        yield Record(where, _record_of(one, where, number))


def located(where: str, detail: str) -> str:
    """Return a detail of one turn with the place the turn came from.

    >>> located("$.turns[3]", "$.state: is wrong"), located("line 7", "$.state: is wrong")
    ('$.turns[3].state: is wrong', 'line 7: $.state: is wrong')
    """
    if where.startswith("$") and detail.startswith("$"):
        return where + detail[1:]
    return f"{where}: {detail}"


def _opened(stream: BinaryIO) -> _Source:
    number, first = _first_line(stream)
    if not first:
        invalid("$", "holds nothing")
    tree: Any = None
    if len(first) <= LIMIT_BYTES:
        with suppress(ValueError, RecursionError):
            tree = json.loads(first)
    is_line = type(tree) is dict and "turns" not in tree and ("messages" not in tree or "sequence" in tree)
    if is_line:
        return _Source(b"", _numbered(stream, number, first), tree)
    document = first + stream.read(max(0, LIMIT_BYTES + 1 - len(first)))
    if len(document) > LIMIT_BYTES:
        invalid("$", f"is larger than {LIMIT_BYTES} bytes; lines of turns may be more")
    return _Source(document)


def _first_line(stream: BinaryIO) -> tuple[int, bytes]:
    """Return the first line that is not blank, with its number."""
    number = 0
    while line := stream.readline(LIMIT_BYTES + 1):
        number += 1
        if line.strip():
            return number, line
    return number, b""


def _numbered(stream: BinaryIO, number: int, first: bytes) -> Iterator[tuple[int, bytes]]:
    line = first
    while line:
        if len(line) > LIMIT_BYTES:
            invalid(f"line {number}", f"is longer than {LIMIT_BYTES} bytes")
        if line.strip():
            yield number, line
        line = stream.readline(LIMIT_BYTES + 1)
        number += 1


def _from_lines(lines: Iterator[tuple[int, bytes]], first: Any) -> History:
    if "role" not in first:
        return History(_named((f"line {number}", _turn_line(number, line)) for number, line in lines))
    numbers, messages = [], []
    for number, line in lines:
        numbers.append(number)
        messages.append(_strict_line(number, line))
    problem = ""
    try:
        return _from_chat(messages)
    except RefusalSignal as signal:
        reason, problem = signal.reason, signal.detail
    raise RefusalSignal(reason, _by_line(problem, numbers))


def _by_line(detail: str, numbers: Sequence[int]) -> str:
    """Return a path into the list of messages as the line the message stands on."""
    index, _, rest = detail.removeprefix("$.messages[").partition("]")
    if not detail.startswith("$.messages[") or not index.isdigit() or int(index) >= len(numbers):
        return detail
    return f"line {numbers[int(index)]}: ${rest}"


def _strict_line(number: int, line: bytes) -> Any:
    problem = ""
    try:
        return load_strict(line)
    except RefusalSignal as signal:
        problem = signal.detail
    return invalid(f"line {number}", problem)


def _turn_line(number: int, line: bytes) -> Turn:
    problem = ""
    try:
        return parse_record(Turn, line)
    except RefusalSignal as signal:
        problem = signal.detail
    return invalid(f"line {number}", problem)


def _turn_of(tree: Any, where: str) -> Turn:
    problem = ""
    try:
        return parse_record(Turn, json.dumps(tree, ensure_ascii=False).encode())
    except RefusalSignal as signal:
        problem = signal.detail
    raise RefusalSignal("invalid-input", located(where, problem))


def _ordered(given: Iterable[tuple[str, Turn]]) -> Iterable[tuple[str, Turn]]:
    """Return turns by sequence, which is the only order there is (R12)."""
    return sorted(given, key=lambda pair: pair[1].sequence)


def _named(given: Iterable[tuple[str, Turn]]) -> Iterator[Incoming]:
    """Give every message without an id or a sequence its own, and check each turn as it stands."""
    count = 0
    for where, turn in given:
        messages = tuple(
            replace(
                message,
                id=f"m{count + place + 1}" if message.id is None else message.id,
                sequence=turn.sequence_of(place),
            )
            for place, message in enumerate(turn.messages)
        )
        count += len(messages)
        problem = ""
        made = replace(turn, messages=messages)
        try:
            check_turn(made, "$")
        except RefusalSignal as signal:
            problem = signal.detail
        if problem:
            raise RefusalSignal("invalid-input", located(where, problem))
        yield Incoming(where, made)


def _from_chat(messages: list[Any], tools: list[Any] | None = None, **reserve: int | None) -> History:
    """Read an OpenAI list; the last turn is open unless the list ends with an answer, which completes it."""
    last = messages[-1] if messages else None
    ended = isinstance(last, Mapping) and last.get("role") == "assistant" and not last.get("tool_calls")
    # With a next question behind it, the adapter takes the answered turn for what it is.
    request = request_from_chat([*messages, _ASK_NEXT] if ended else messages, tools, model_bundle_id="x", **reserve)
    turns = request.turns[:-1] if ended else request.turns
    placed = (
        replace(turn, messages=tuple(replace(one, sequence=int(str(one.id)[1:])) for one in turn.messages))
        for turn in turns
    )
    frame = frame_of(replace(request, request=CurrentRequest()), names_bundle=False)
    return History(_named((f"turn {turn.id}", turn) for turn in placed), frame)


def _loosely(data: bytes, path: str) -> Any:
    """Return JSON whose strings may hold anything: an old record is kept to the letter, whatever it holds."""
    found: Any = None
    problem = "is not JSON"
    try:
        found, problem = json.loads(data.decode("utf-8")), ""
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    except (ValueError, RecursionError):
        problem = "is not JSON"
    if problem:
        invalid(path, problem)
    return found


def _record_of(one: Any, where: str, number: int) -> LegacyRecord:
    path = where if where.startswith("$") else f"{where}: $"
    if type(one) is not dict:
        invalid(path, "expected an object")
    unknown = len(one.keys() - {"id", "role", "source", "text"})
    if unknown:
        invalid(path, f"has {unknown} fields a record does not know")
    record_id, text = one.get("id", f"r{number}"), one.get("text")
    if not is_id(record_id):
        invalid(f"{path}.id", ID_RULE)
    if type(text) is not str:
        invalid(f"{path}.text", "expected a string")
    for name in ("role", "source"):
        if type(one.get(name)) not in (str, type(None)):
            invalid(f"{path}.{name}", "expected a string or null")
    return LegacyRecord(record_id, text, one.get("role"), one.get("source"))


def grouped(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield a question with the answers behind it, or one record alone: what is stored in one transaction."""
    group: list[Record] = []
    for entry in records:
        if group and entry.record.role != "assistant":
            yield group
            group = []
        group.append(entry)
    if group:
        yield group
