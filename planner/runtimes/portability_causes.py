"""Why two engines differ, where it can be told: a closed set of sentences, never text of template or conversation.

A sentence is not guessed from the texts: it is given where the reference, with one thing changed in its input or its
output, writes what the other engine wrote.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import combinations
from typing import Any

NUMBERS = "numbers that a JSON reader does not keep, such as 1.0 read as 1"
NOTHING = "null printed as None in one and as nothing in the other"
CONSTANTS = "true and false printed as Python writes them in one and as JSON in the other"
QUOTES = "a list or object printed as Python writes it in one and as JSON in the other"
ITEMS = "a list printed as its items and an object as nothing in the other"
ESCAPES = "characters escaped for HTML in one of them"
WHITE_SPACE = "white space"
SWITCHES = "switches that the engine sets itself, such as enable_thinking"
JOINED = "parts are joined to one text before the template sees them"
EMPTY = "null content counts as an empty text"

_ALIKE = (
    ("12345678901234567890", "12345678901234567000", "12345678901234567168", "-6101065172474983726"),
    ("1e-07", "1e-7", "0.0"),
    ("1e+21", "1e21", "1000000000000000000000.0"),
    ("-0.0", "-0", "0"),
    ("1.0", "1"),
)
"""How the numbers of our own shape come out: as Python reads them, then as others do."""
_NUMBERS = [
    (re.compile(rf"(?<![\w.+-])(?:{'|'.join(map(re.escape, others))})(?![\w.+-])"), first)
    for first, *others in _ALIKE
]  # fmt: skip


def _numbers(text: str) -> str:
    for pattern, first in _NUMBERS:
        text = pattern.sub(first, text)
    return text


def _constants(text: str) -> str:
    return re.sub(r"\b(?:True|False)\b", lambda found: found[0].lower(), text)


def _quotes(text: str) -> str:
    # Both ways of quoting and escaping come to the same once every quote and backslash is one character.
    return re.sub(r"""\\?["']|\\""", "'", text)


def _nothing(text: str) -> str:
    return re.sub(r"\bNone\b\n?|\bnull\b", "", text)


def _items(text: str) -> str:
    # The values of our own shapes, as Python writes them.
    return text.replace("{'list': [1, 2.5, False], 'empty': {}}", "").replace("['quiet']", "quiet")


def _white_space(text: str) -> str:
    return "".join(text.split())


_FOLDS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (ITEMS, _items),
    (NUMBERS, _numbers),
    (NOTHING, _nothing),
    (CONSTANTS, _constants),
    (QUOTES, _quotes),
    (ESCAPES, html.unescape),
    (WHITE_SPACE, _white_space),
)


def _joined(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = message["content"]
    if not isinstance(parts, list):
        return dict(message)
    return {**message, "content": "\n".join(part["text"] for part in parts)}


def _emptied(message: Mapping[str, Any]) -> dict[str, Any]:
    return {**message, "content": "" if message["content"] is None else message["content"]}


_CHANGES: tuple[tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]], ...] = (
    (SWITCHES, dict),
    (JOINED, _joined),
    (EMPTY, _emptied),
)
CAUSES = frozenset(sentence for sentence, _ in (*_CHANGES, *_FOLDS))

Rendering = Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]


def cause_of(render: Rendering, one: Mapping[str, Any], switches: Mapping[str, Any], there: str) -> str:
    """Return the fewest sentences that make the reference write `there`, joined by a semicolon; empty for none.

    render    the reference: (case, switches) to its text, None where the template raises.
    switches  what the other engine tells every template by itself.
    """

    @cache
    def changed(chosen: tuple[int, ...]) -> str | None:
        messages = one["messages"]
        for index in chosen:
            messages = [_CHANGES[index][1](message) for message in messages]
        return render({**one, "messages": messages}, switches if 0 in chosen else {})

    for size in range(1, len(_CHANGES) + len(_FOLDS) + 1):
        for changes in range(min(size, len(_CHANGES)), -1, -1):
            for chosen in combinations(range(len(_CHANGES)), changes):
                text = changed(chosen)
                for folds in combinations(_FOLDS, size - changes) if text is not None else ():
                    plain = [fold for _, fold in folds]
                    if _folded(text or "", plain) == _folded(there, plain):
                        named = [_CHANGES[index][0] for index in chosen]
                        return "; ".join((*named, *(sentence for sentence, _ in folds)))
    return ""


def _folded(text: str, folds: Iterable[Callable[[str], str]]) -> str:
    for fold in folds:
        text = fold(text)
    return text
