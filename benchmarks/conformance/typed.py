"""Typed sentences: `LABEL: words`, as the kit's sessions carry what must survive."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["safety", "constraint", "fact", "state", "preference"]

LABELS: dict[str, Kind] = {
    "SAFETY RULE": "safety",
    "HARD CONSTRAINT": "constraint",
    "FACT": "fact",
    "GOAL STATE": "state",
    "USER PREFERENCE": "preference",
}
_TYPED = re.compile(rf"({'|'.join(LABELS)}): (.*\S)\s*")
_VALUE = re.compile(r"\S*[0-9]\S*")


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed sentence without its label: the label is the field it goes to, the words stay as they were said."""

    kind: Kind
    text: str


def typed(line: str) -> Typed | None:
    """Return the typed sentence of a line, or None.

    >>> typed("FACT: The host is h1.")
    Typed(kind='fact', text='The host is h1.')
    """
    found = _TYPED.fullmatch(line)
    return None if found is None else Typed(LABELS[found[1]], found[2])


def subject(text: str) -> str:
    """Return a sentence with its values masked: what it speaks of, whatever it says of it.

    A value is a word with a digit in it: a number, sum, date or code. A name is none, since two sentences that
    differ by a name may speak of two things, and dropping a rule that is in force is worse than keeping two.

    >>> subject("The cap is $500.") == subject("The cap is $700.")
    True
    """
    return " ".join(_VALUE.sub("#", text.casefold()).split())
