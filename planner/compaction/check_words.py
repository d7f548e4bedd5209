"""What a message shows, and whether words of an answer stand in it: owners, excerpts, copied results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from planner.compaction.literals import Found, folded, literals, missing
from planner.values.turn import Message

LONG_RESULT = 200
"""A tool result of more characters is long: its text is not to be copied."""
COPIED = 80
"""So many equal characters in a row are a copy (X28)."""

_ROLE_WORDS = {
    "user": frozenset({"user", "the user", "用户"}),
    "assistant": frozenset({"assistant", "the assistant", "助手"}),
    "tool": frozenset[str](),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The words of one message as the prompt shows them, calls included, with their literals."""

    role: str
    text: str = field(repr=False)
    folded: str = field(repr=False)
    literals: Found = field(repr=False)

    @classmethod
    def of(cls, message: Message) -> Shown:
        """Read a message once."""
        pieces = [message.words()]
        for call in message.tool_calls:
            given = (
                call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
            )
            pieces += [call.name, given]
        text = "\n".join(pieces)
        return cls(message.role, " ".join(text.split()), " ".join(folded(text).split()), literals(text))


def is_said(owner: str, shown: Shown) -> bool:
    """Tell whether a message names an owner, or is by the one that is named by role (R93)."""
    name = " ".join(folded(owner).split())
    if name in _ROLE_WORDS.get(shown.role, frozenset()):
        return True
    start = shown.folded.find(name)
    while start >= 0:
        # Ann does not stand in Anne; Leo stands in Leo拍照, where no space is written.
        before = shown.folded[start - 1] if start else ""
        after = shown.folded[start + len(name) : start + len(name) + 1]
        if not (_joins(before, name[0]) or _joins(name[-1], after)):
            return True
        start = shown.folded.find(name, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    """Tell whether two neighbours belong to one word of a script that writes spaces."""
    return all(char.isalnum() and ord(char) < 0x2E80 for char in (left, right) if char) and bool(left and right)


def states(value: str, shown: Shown) -> bool:
    """Tell whether a message says a value: in its words, or its literals in another spelling, as 58cm says 58 cm."""
    if " ".join(folded(value).split()) in shown.folded:
        return True
    said = literals(value)
    return said.asks() and missing(said, [shown.literals]) is None


def holds_words(shown: Shown, excerpt: str) -> bool:
    """Tell whether an excerpt stands in a message letter for letter; a run of spaces and line ends is one space."""
    return excerpt in shown.text


def copies_of(texts: Iterable[str], results: Sequence[str]) -> bool:
    """Tell whether a text has 80 equal characters in a row with a long tool result, white space folded or not."""
    long = [result for result in results if len(result) > LONG_RESULT]
    if not long:
        return False
    forms = [form for text in texts for form in (text, " ".join(text.split()))]
    windows = {form[at : at + COPIED] for form in forms for at in range(len(form) - COPIED + 1)}
    if not windows:
        return False
    return any(
        form[at : at + COPIED] in windows
        for result in long
        for form in (result, " ".join(result.split()))
        for at in range(len(form) - COPIED + 1)
    )
