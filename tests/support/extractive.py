"""A summariser without a model: copies sentences out of the prompt's material into the six fields.

It reads what a model reads, instructions and material, and nothing else. Everything it writes is a sentence of a
message word for word, so a sound gate has no reason to refuse it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LABEL = re.compile(r"(m[0-9]+) (user|assistant|tool)(?:, (?:calls|result of) .*)?:")
_SENTENCE = re.compile(r"[^.!?。！？]*(?:[.!?。！？]+(?![0-9A-Za-z])|[.!?。！？]+(?=[0-9A-Za-z])[^.!?。！？]*)*")
_DECISION = re.compile(
    r"\b(decide|decided|choose|chosen|agreed|go with|let us use|we use|use the)\b|决定|就用|选", re.IGNORECASE
)
_PROMISE = re.compile(r"\b(I will|I'll|we will)\b|我会", re.IGNORECASE)
_FACT = re.compile(r"[0-9]|\b[\w-]+\.(py|txt|pdf|csv|md|toml)\b|\bref\b", re.IGNORECASE)
_QUESTION = re.compile(r"[?？]$")
_SMALL_TALK = re.compile(
    r"\b(hello|hi|thanks|thank you|weather|weekend|how are you|lunch|coffee|football)\b|你好|谢谢", re.IGNORECASE
)
_REFERENCE = re.compile(r"\bref(?:erence)?:? ([\w./-]+\w)")
LONGEST = 79


@dataclass(frozen=True)
class Sentence:
    """One sentence of the material, with the label and role of its message."""

    label: str
    role: str
    text: str


def summarise(instructions: str, material: str) -> str:
    """Return an answer to a summary prompt as JSON text. The same prompt gives the same answer."""
    goal, constraints, items = _listed(material)
    sentences = [entry for entry in _sentences(material) if not _SMALL_TALK.search(entry.text)]
    traced = '"excerpt"' in instructions
    decisions = [entry for entry in sentences if entry.role == "user" and _DECISION.search(entry.text)]
    questions = [entry for entry in sentences if entry.role != "tool" and _QUESTION.search(entry.text)]
    promises = [entry for entry in sentences if entry.role == "assistant" and _PROMISE.search(entry.text)]
    taken = {entry.text for entry in (*decisions, *questions, *promises)}
    facts = [entry for entry in sentences if entry.text not in taken and _FACT.search(entry.text)]
    first = next((entry.text for entry in sentences if entry.role == "user"), "")
    answer = {
        "goal": goal or first,
        "decisions": [_entry(entry, traced) for entry in _once(decisions) if not _QUESTION.search(entry.text)],
        "constraints": [{"id": one} for one in constraints],
        "open_actions": [
            *({"text": entry.text, "status": "pending", "sources": [entry.label]} for entry in _once(promises)),
            *({"text": "Finish the listed item.", "status": status, "id": item} for item, status in items),
        ],
        "questions": [{"text": entry.text, "sources": [entry.label]} for entry in _once(questions)],
        "evidence": [_entry(entry, traced) for entry in _once(facts)],
    }
    return json.dumps(answer, ensure_ascii=False)


def _entry(sentence: Sentence, traced: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"text": sentence.text, "sources": [sentence.label]}
    if traced:
        found["excerpt"] = sentence.text
    reference = _REFERENCE.search(sentence.text)
    if sentence.role == "tool" and reference:
        found["archive_ref"] = reference[1]
    return found


def _once(sentences: list[Sentence]) -> Iterator[Sentence]:
    seen: set[str] = set()
    for entry in sentences:
        if entry.text not in seen:
            seen.add(entry.text)
            yield entry


def _listed(material: str) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Return goal so far, constraint ids and open items, which stand above the messages."""
    head = material.split("Messages\n", 1)[0].splitlines()
    section, goal = "", ""
    constraints: list[str] = []
    items: list[tuple[str, str]] = []
    for line in head:
        if line in ("Goal so far", "Constraints", "No longer in force", "Open items", "Fact keys", "Settled"):
            section = line
        elif section == "Goal so far":
            goal = f"{goal} {line.strip()}".strip()
        elif section == "Constraints" and not line.startswith("  "):
            constraints.append(line.removesuffix(":"))
        elif section == "Open items":
            name, _, status = line.rpartition(": ")
            items.append((name, status))
    return goal, constraints, items


def _sentences(material: str) -> Iterator[Sentence]:
    label, role = "", ""
    for line in material.split("Messages\n", 1)[1].split("\n"):
        if not line.startswith("  "):
            found = _LABEL.fullmatch(line)
            assert found is not None, "a message wrote a label of its own"
            label, role = found[1], found[2]
            continue
        for match in _SENTENCE.finditer(line):
            text = _short(match[0].strip())
            if text:
                yield Sentence(label, role, text)


def _short(text: str) -> str:
    """Return a sentence cut at a space, so that no number is cut and no long result is copied."""
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST].rpartition(" ")[0]
