"""Our own state text read back: the kit hands it in as the only source of every later round."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FIELDS = {
    "Goal": "goal",
    "Decided": "decisions",
    "Must hold": "constraints",
    "Not answered": "questions",
    "Known": "evidence",
}
_LINE = re.compile(rf"(?:({'|'.join(_FIELDS)})|Action \((pending|blocked|done)(?:, (.+?))?\)): (.*)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a state text."""

    field: str
    text: str
    status: str | None = None
    owner: str | None = None


def state_lines(text: str) -> tuple[Line, ...]:
    """Return the lines of a state text, nothing for a text that is none: one begins with its goal."""
    found = [_LINE.fullmatch(line) for line in text.split("\n")]
    lines = tuple(Line(_FIELDS.get(match[1], "open_actions"), match[4], match[2], match[3]) for match in found if match)
    return lines if len(lines) == len(found) and lines[0].field == "goal" else ()


def rules_of(text: str) -> Iterator[str]:
    """Yield the rules of a state text, in its order."""
    return (line.text for line in state_lines(text) if line.field == "constraints")
