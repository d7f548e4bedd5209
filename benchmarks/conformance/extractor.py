"""A summariser without a model, for typed sentences: copies them out of the prompt's material, word for word.

It sees what a model sees and no more. What it writes is judged like any answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.conformance.reading import state_lines
from benchmarks.conformance.typed import subject, typed

_LABEL = re.compile(r"(m[0-9]+) (user|assistant|tool)\b.*:")
# What a user says without a label still counts where it changes something, forbids something or names what is next.
_CHANGE = re.compile(r"\b(now|from now on|instead|no longer|changed|never|must|please)\b", re.IGNORECASE)
_NEXT = re.compile(r"\b(next step|blocked)\b", re.IGNORECASE)
_QUESTION = re.compile(r"\?$|\bopen question\b", re.IGNORECASE)
_TASK = re.compile(r"\b(task|goal)\b", re.IGNORECASE)
_RULES = ("safety", "constraint")
ORDER = ("decisions", "open_actions", "questions", "evidence")
"""What is written first where there is no room for all: the order of weight of the prompt (R107)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One sentence of a message under the field it belongs to; `typed` is false where only its wording told that."""

    field: str
    text: str
    source: str
    typed: bool = True
    status: str = "pending"
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What could be written down: entries by weight, sentences for the goal by aptness, all ids of constraints."""

    goals: tuple[Entry, ...]
    entries: tuple[Entry, ...]
    constraints: tuple[str, ...]


def draft(material: str) -> Draft:
    """Return what the material holds; of entries that differ by values alone the newest counts."""
    head, _, messages = f"\n{material}".partition("\nMessages\n")
    newest: dict[tuple[str, str], Entry] = {}
    for entry in _entries(messages):
        key = (entry.field, subject(entry.text))
        newest.pop(key, None)
        newest[key] = entry
    found = list(newest.values())
    goals = [entry for entry in found if entry.field == "goal"]
    actions = [entry for entry in found if entry.field == "open_actions" and entry.typed]
    if not goals:
        goals = sorted(actions, key=lambda entry: _TASK.search(entry.text) is None)
    goals = goals or _said(messages)
    entries = [entry for entry in found if entry.field in ORDER]
    entries.sort(key=lambda entry: (not entry.typed, ORDER.index(entry.field)))
    return Draft(tuple(goals), tuple(entries), tuple(_constraints(head)))


def answer(plan: Draft, goal: Entry, chosen: Sequence[Entry]) -> str:
    """Return the answer a model would give, with these entries of the draft."""
    fields: dict[str, Any] = {
        "goal": goal.text,
        "decisions": [],
        "constraints": [{"id": name} for name in plan.constraints],
        "open_actions": [],
        "questions": [],
        "evidence": [],
    }
    for entry in chosen:
        written: dict[str, Any] = {"text": entry.text, "sources": [entry.source]}
        if entry.field == "open_actions":
            written["status"] = entry.status
            if entry.owner:
                written["owner"] = entry.owner
        fields[entry.field].append(written)
    return json.dumps(fields, ensure_ascii=False)


def _lines(messages: str) -> Iterator[tuple[str, str, str]]:
    """Yield (label, role, words) of each message."""
    label, role, words = "", "", list[str]()
    for line in messages.split("\n"):
        if line.startswith("  "):
            words.append(line[2:])
            continue
        if words:
            yield label, role, "\n".join(words)
        found = _LABEL.fullmatch(line)
        label, role, words = (found[1], found[2], []) if found else ("", "", [])
    if words:
        yield label, role, "\n".join(words)


def _entries(messages: str) -> Iterator[Entry]:
    for label, role, words in _lines(messages):
        if role != "user":
            continue
        own = state_lines(words)
        if own:
            for line in own:
                yield Entry(line.field, line.text, label, status=line.status or "pending", owner=line.owner)
            continue
        for sentence in words.splitlines():
            said = typed(sentence)
            if said is not None:
                if said.kind not in _RULES:
                    yield Entry(_field(said.kind, said.text), said.text, label)
            elif _NEXT.search(sentence):
                yield Entry("open_actions", sentence, label, typed=False)
            elif _CHANGE.search(sentence):
                yield Entry("decisions", sentence, label, typed=False)


def _field(kind: str, text: str) -> str:
    if kind == "state":
        return "questions" if _QUESTION.search(text) else "open_actions"
    return "decisions" if kind == "preference" else "evidence"


def _said(messages: str) -> list[Entry]:
    """Return a goal for a session that names none: what the user said first without a label, else said last."""
    said = [
        Entry("goal", line, label, typed=typed(line) is not None)
        for label, role, words in _lines(messages)
        for line in words.splitlines()
        if role == "user" and line.strip()
    ]
    return ([entry for entry in said if not entry.typed] or said[-1:])[:1]


def _constraints(head: str) -> Iterator[str]:
    """Yield the ids listed above the messages."""
    listed = False
    for line in head.splitlines():
        if line in ("Goal so far", "Constraints", "Open items", "Fact keys", "Settled"):
            listed = line == "Constraints"
        elif listed and not line.startswith("  "):
            yield line.removesuffix(":")
