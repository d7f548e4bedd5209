"""A summariser's answer from text to values: bounds first, then the exact shape, nothing of its meaning (R109).

Every refusal is `invalid-summary` with a name and a place in our own words, never a word of the answer (R188).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast, get_args

from planner.values.field_rules import is_id
from planner.values.reasons import RefusalSignal
from planner.values.strict_json import Bounds, load_strict
from planner.values.summary import StateEntry

SIX_FIELDS = ("goal", "decisions", "constraints", "open_actions", "questions", "evidence")
BOUNDS = Bounds(total_bytes=256 * 1024, field_bytes=256 * 1024, list_items=512)
"""At most 256 KiB and 512 entries a list; depth, digits, NaN and repeated keys are the reader's own bounds."""

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\r?\n(.*?)\s*```\s*", re.DOTALL | re.IGNORECASE)
Status = Literal["pending", "blocked", "done"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as the model wrote it; `sources` are labels such as m3."""

    text: str = field(repr=False)
    sources: tuple[str, ...] = ()
    owner: str | None = field(default=None, repr=False)
    status: Status | None = None
    id: str | None = None
    excerpt: str | None = field(default=None, repr=False)
    archive_ref: str | None = field(default=None, repr=False)
    fact_key: str | None = None
    fact_value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The six fields of an answer; of a constraint only its id is read.

    `written` holds the words of goal and entries before white space was folded: a copy is judged by them.
    """

    goal: str = field(repr=False)
    decisions: tuple[Entry, ...] = ()
    constraint_ids: tuple[str, ...] = ()
    open_actions: tuple[Entry, ...] = ()
    questions: tuple[Entry, ...] = ()
    evidence: tuple[Entry, ...] = ()
    written: tuple[str, ...] = field(default=(), repr=False)

    def entries(self) -> tuple[tuple[str, Entry], ...]:
        """Return every entry with its place, such as `decisions[0]`."""
        lists = (
            ("decisions", self.decisions), ("open_actions", self.open_actions), ("questions", self.questions),
            ("evidence", self.evidence),
        )  # fmt: skip
        return tuple((f"{name}[{place}]", entry) for name, entries in lists for place, entry in enumerate(entries))


def refuse(what: str, place: str, more: str = "") -> NoReturn:
    """Raise RefusalSignal `invalid-summary` with the name of the flaw and where it is."""
    raise RefusalSignal("invalid-summary", f"{what}: {place}{' ' if more else ''}{more}")


def parse_answer(text: str) -> Answer:
    """Return the answer a text spells: one JSON object, bare or in one code fence.

    Raises RefusalSignal `invalid-summary`: malformed_output, wrong_shape, blank_text, action_status.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = b""
    if not data or len(data) > BOUNDS.total_bytes:
        refuse("malformed_output", "$", f"has no or more than {BOUNDS.total_bytes} bytes of text")
    fenced = _FENCED.fullmatch(text)
    problem: str | None = None
    value: Any = None
    try:
        value = load_strict(fenced[1].encode() if fenced else data, BOUNDS)
    except RefusalSignal as signal:
        problem = signal.detail
    if problem is not None:
        refuse("malformed_output", problem)
    if type(value) is not dict:
        refuse("malformed_output", "$", "is no object")
    return _answer(value)


def _answer(value: Mapping[str, Any]) -> Answer:
    if set(value) != set(SIX_FIELDS):
        missing = [name for name in SIX_FIELDS if name not in value]
        refuse(
            "wrong_shape", missing[0] if missing else "$", "is missing" if missing else "has another key than the six"
        )
    if type(value["goal"]) is not str:
        refuse("wrong_shape", "goal")
    for name in SIX_FIELDS[1:]:
        if type(value[name]) is not list or any(type(entry) is not dict for entry in value[name]):
            refuse("wrong_shape", name, "is no list of objects")
    return Answer(
        goal=" ".join(value["goal"].split()),
        decisions=_entries(value, "decisions", sources=True),
        constraint_ids=tuple(_constraint(entry, place) for place, entry in enumerate(value["constraints"])),
        open_actions=_entries(value, "open_actions", status=True),
        questions=_entries(value, "questions"),
        evidence=_entries(value, "evidence", sources=True),
        written=(value["goal"], *_written(value)),
    )


def _written(value: Mapping[str, Any]) -> Iterator[str]:
    for name in ("decisions", "open_actions", "questions", "evidence"):
        for entry in value[name]:
            yield from (entry[key] for key in ("text", "excerpt", "fact_value") if type(entry.get(key)) is str)


def _constraint(entry: Mapping[str, Any], place: int) -> str:
    if type(entry.get("id")) is not str:
        refuse("wrong_shape", f"constraints[{place}].id")
    return cast(str, entry["id"])


def _entries(value: Mapping[str, Any], name: str, *, sources: bool = False, status: bool = False) -> tuple[Entry, ...]:
    return tuple(
        _entry(entry, f"{name}[{place}]", sources=sources, status=status) for place, entry in enumerate(value[name])
    )


def _entry(entry: Mapping[str, Any], path: str, *, sources: bool, status: bool) -> Entry:
    """Return one entry; keys of no meaning to us are left aside, those that have one must have their type."""
    if status and "text" not in entry:
        refuse("blank_text", path)
    if type(entry.get("text")) is not str:
        refuse("wrong_shape", f"{path}.text")
    # One entry is one line: what it says may not begin a line that looks like ours.
    text = " ".join(entry["text"].split())
    if not text:
        refuse("blank_text", path)
    labels = entry.get("sources")
    if labels is None and not sources:
        labels = []
    if type(labels) is not list or any(type(label) is not str for label in labels) or (sources and not labels):
        refuse("wrong_shape", f"{path}.sources")
    if status and entry.get("status") not in get_args(Status):
        wrong = entry.get("status") is not None and type(entry["status"]) is not str
        refuse("wrong_shape" if wrong else "action_status", f"{path}.status")
    optional = {name: _optional(entry, name, path) for name in ("owner", "id", "excerpt", "archive_ref", "fact_value")}
    fact_key = entry.get("fact_key")
    if fact_key is not None and not is_id(fact_key):
        refuse("wrong_shape", f"{path}.fact_key")
    stated = entry["status"] if status else None
    return Entry(text, tuple(dict.fromkeys(labels)), status=stated, fact_key=fact_key, **optional)


def _optional(entry: Mapping[str, Any], name: str, path: str) -> str | None:
    """Return an optional text without the space around it; null and blank mean absent."""
    value = entry.get(name)
    if value is None:
        return None
    if type(value) is not str:
        refuse("wrong_shape", f"{path}.{name}")
    return " ".join(value.split()) or None


def state_entry(entry: Entry, message_ids: tuple[str, ...]) -> StateEntry:
    """Return a checked entry as it is stored; its labels are message ids by now.

    An id is kept of an action alone, where it was compared with the ledger's items; elsewhere it is the model's own.
    """
    return StateEntry(
        text=entry.text,
        message_ids=message_ids,
        owner=entry.owner,
        status=entry.status,
        excerpt=entry.excerpt,
        archive_ref=entry.archive_ref,
        id=None if entry.status is None else entry.id,
    )
