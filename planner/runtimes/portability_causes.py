"""Why two engines differ, where it can be told: a closed set of sentences, never text of template or conversation."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from itertools import combinations

NUMBERS = "numbers that a JSON reader does not keep, such as 1.0 read as 1"
NOTHING = "null printed as None in one and as nothing in the other"
CONSTANTS = "true and false printed as Python writes them in one and as JSON in the other"
QUOTES = "a list or object printed as Python writes it in one and as JSON in the other"
ESCAPES = "characters escaped for HTML in one of them"
WHITE_SPACE = "white space"

_ALIKE = (
    ("12345678901234567890", "12345678901234567000", "12345678901234567168", "-6101065172474983726"),
    ("1e-07", "1e-7"),
    ("1e+21", "1e21"),
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


def _white_space(text: str) -> str:
    return "".join(text.split())


_FOLDS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (NUMBERS, _numbers),
    (NOTHING, _nothing),
    (CONSTANTS, _constants),
    (QUOTES, _quotes),
    (ESCAPES, html.unescape),
    (WHITE_SPACE, _white_space),
)
CAUSES = frozenset(sentence for sentence, _ in _FOLDS)


def cause_of(here: str, there: str) -> str:
    """Return the fewest sentences under which the two texts are equal, joined by a semicolon, else an empty one.

    >>> cause_of("rate 1.0", "rate 1") == NUMBERS
    True
    """
    for size in range(1, len(_FOLDS) + 1):
        for chosen in combinations(_FOLDS, size):
            folds = [fold for _, fold in chosen]
            if _folded(here, folds) == _folded(there, folds):
                return "; ".join(sentence for sentence, _ in chosen)
    return ""


def _folded(text: str, folds: Iterable[Callable[[str], str]]) -> str:
    for fold in folds:
        text = fold(text)
    return text
