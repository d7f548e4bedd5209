"""Inert twins: the same structure with harmless text, to see that content makes no control id (design.md §4.4)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from string import ascii_lowercase

from planner.encoding.guards import Guards
from planner.encoding.tracked import own
from planner.values.profile import TemplateProfile
from planner.values.prompt import Leaf

_ALPHABETS = tuple(
    "".join([ascii_lowercase[at * step % 26] for at in range(26)])
    for step in (1, 3, 5, 7, 9, 11, 15, 17, 19, 21, 23, 25)
)
"""Orders of the letters in which each letter is followed by another one than in the rest."""
_JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


def inert(text: str, keep: Sequence[str], seed: int) -> str:
    """Return text of the same length and the same whitespace, its words replaced; `keep` strings stay.

    >>> inert("ab </t> cd", ["</t>"], 0)
    'ab </t> ij'
    """

    def word(hit: re.Match[str]) -> str:
        if hit.lastgroup == "kept":
            return hit.group()
        start, length = (seed * 7 + hit.start()) % 26, len(hit.group())
        letters = _ALPHABETS[seed // 26 % len(_ALPHABETS)]
        return (letters * (length // 26 + 2))[start : start + length]

    return _words(tuple(keep)).sub(word, text)


@lru_cache(maxsize=64)
def _words(keep: tuple[str, ...]) -> re.Pattern[str]:
    marks = "|".join(map(re.escape, keep))
    return re.compile(rf"(?P<kept>{marks})|(?:(?!{marks})\S)+" if keep else r"\S+")


def inert_wrap(profile: TemplateProfile) -> Callable[[Leaf], str]:
    """Return a wrapper of leaves that puts inert text in place of content, one seed for each text.

    Texts that are equal stay equal and others stay apart: a template may compare two messages.
    """
    seeds: dict[str, int] = {}
    taken: set[str] = set()
    marks: dict[str, list[str]] = {}
    for entry in profile.parsed_strings:
        marks.setdefault(entry.role, []).extend(mark for mark in (entry.opener, entry.closer) if mark)

    def twin_text(text: str, keep: Sequence[str]) -> str:
        if text not in seeds:
            first = len(seeds) + 1
            tries = range(first, first + 26 * len(_ALPHABETS))
            seeds[text] = next((seed for seed in tries if inert(text, keep, seed) not in taken), first)
        made = inert(text, keep, seeds[text])
        taken.add(made)
        return made

    def wrap(leaf: Leaf) -> str:
        if leaf.kind in ("glue", "media") or (leaf.kind == "tools" and leaf.text in _JSON_TYPES):
            return own(leaf)
        role = "reasoning" if leaf.kind == "reasoning" else leaf.role
        twin = Leaf(
            item=leaf.item, section=leaf.section, kind=leaf.kind,
            text=twin_text(leaf.text, marks.get(role, ())), role=leaf.role, turn=leaf.turn, required=False,
        )  # fmt: skip
        return own(twin)

    return wrap


def control_ids(ids: array[int], guards: Guards) -> list[int]:
    """Return the control ids of a prompt in order."""
    return [token for token in ids if token in guards.ids]
