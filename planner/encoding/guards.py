"""Finding control tokens in template-made text: leftmost, longest first (facts-encoding.md §4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.values.bundle import ControlToken

# What the tokenizers library calls whitespace (Unicode White_Space); Python's own idea also holds U+001C..F.
WHITESPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A control token in a stretch: characters start..stop of that stretch."""

    start: int
    stop: int
    token: ControlToken


class Guards:
    """The control tokens of one bundle, ready to search for.

    >>> guards = Guards([ControlToken("<a>", 1), ControlToken("<a><b>", 2)])
    >>> [hit.token.id for hit in guards.find("x<a><b><a>")]
    [2, 1]
    """

    def __init__(self, tokens: Iterable[ControlToken]) -> None:
        """Index the tokens by text; the longest of two that begin alike wins, as in the library."""
        self.by_text = {token.text: token for token in tokens if token.text}
        self.ids = frozenset(token.id for token in self.by_text.values())
        self._lowest = min(self.ids, default=0)
        ordered = sorted(self.by_text, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._first = tuple({text[0] for text in ordered})
        self._memo: dict[str, tuple[Found, ...]] = {}

    def any_in(self, ids: Sequence[int]) -> bool:
        """Tell whether an id of a control token is among these."""
        # Most vocabularies end with their control tokens, and the highest id is quickly found.
        return max(ids, default=-1) >= self._lowest and not self.ids.isdisjoint(ids)

    def find(self, text: str) -> tuple[Found, ...]:
        """Return every control token of `text` in order, none overlapping."""
        if self._pattern is None:
            return ()
        known = self._memo.get(text)
        if known is None:
            known = tuple(
                Found(hit.start(), hit.end(), self.by_text[hit.group()]) for hit in self._pattern.finditer(text)
            )
            if len(text) <= 4096:
                if len(self._memo) >= 4096:
                    self._memo.clear()
                self._memo[text] = known
        return known

    def spelled_in(self, text: str) -> bool:
        """Tell whether content spells a control token anywhere."""
        return self._pattern is not None and self._may_hold(text) and self._pattern.search(text) is not None

    def count(self, text: str) -> int:
        """Return how many control tokens content spells."""
        if self._pattern is None or not self._may_hold(text):
            return 0
        return sum(1 for _ in self._pattern.finditer(text))

    def _may_hold(self, text: str) -> bool:
        # Most content has none of the few characters that control tokens begin with, and this is quickly seen.
        return any(map(text.__contains__, self._first))
