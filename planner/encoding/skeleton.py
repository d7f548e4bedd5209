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
        return (ascii_lowercase * (length // 26 + 2))[start : start + length]

    return _words(tuple(keep)).sub(word, text)


@lru_cache(maxsize=64)
def _words(keep: tuple[str, ...]) -> re.Pattern[str]:
    marks = "|".join(map(re.escape, keep))
    return re.compile(rf"(?P<kept>{marks})|(?:(?!{marks})\S)+" if keep else r"\S+")


def inert_wrap(profile: TemplateProfile) -> Callable[[Leaf], str]:
    """Return a wrapper of leaves that puts inert text in place of content, one seed for each leaf."""
    seen = 0
    marks: dict[str, list[str]] = {}
    for entry in profile.parsed_strings:
        marks.setdefault(entry.role, []).extend(mark for mark in (entry.opener, entry.closer) if mark)

    def wrap(leaf: Leaf) -> str:
        nonlocal seen
        seen += 1
        if leaf.kind in ("glue", "media") or (leaf.kind == "tools" and leaf.text in _JSON_TYPES):
            return own(leaf)
        role = "reasoning" if leaf.kind == "reasoning" else leaf.role
        twin = Leaf(
            item=leaf.item, section=leaf.section, kind=leaf.kind,
            text=inert(leaf.text, marks.get(role, ()), seen), role=leaf.role, turn=leaf.turn, required=False,
        )  # fmt: skip
        return own(twin)

    return wrap


def control_ids(ids: array[int], guards: Guards) -> list[int]:
    """Return the control ids of a prompt in order."""
    return [token for token in ids if token in guards.ids]
