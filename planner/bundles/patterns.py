"""Splitting and replacing rules of a tokenizer that could run away on a short text (threats.md §2.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.values.reasons import PlannerFault

MAX_GROWTH = 12
"""Bytes of normalised text for a byte of input; the worst honest growth is 11 (U+FDFA under NFKC)."""
_ATOM = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:[a-z^]+:\]|[^\]\\])*\]|[^\\]", re.DOTALL)
_QUANTIFIER = re.compile(r"(?P<open>[*+]|\{\d*,\})(?P<possessive>\+)?\??|\?[?+]?|\{\d+(?:,\d+)?\}[?+]?")
_GROUP = re.compile(r"\((?P<atomic>\?>)?(?:\?(?:[:=!]|<[=!]|[a-z-]*:|P?<\w+>))?")


def check_pattern(pattern: str) -> None:
    """Refuse a rule in which a repeated group holds nothing but repeated parts, such as `(a+)+b`.

    On a text it does not match, such a rule tries every way to share the letters out; no published tokenizer
    has one. Raises tokenizer_failed.
    """
    if _nested(pattern):
        raise PlannerFault("tokenizer_failed", "a splitting rule repeats a repetition and may never end")


def check_components(parts: Iterable[Mapping[str, Any]]) -> None:
    """Check the rules of a normalizer's and a pre-tokenizer's components, and how far they lengthen a text.

    Raises tokenizer_failed, bundle_unsafe.
    """
    growth = 1.0
    for part in parts:
        stated = part.get("pattern")
        pattern = stated if isinstance(stated, Mapping) else {}
        rule, literal = pattern.get("Regex"), pattern.get("String")
        if isinstance(rule, str):
            check_pattern(rule)
        if part.get("type") == "Replace":
            old = len(literal.encode()) if isinstance(literal, str) else 1
            growth *= max(1.0, len(str(part.get("content", "")).encode()) / max(1, old))
    if growth > MAX_GROWTH:
        raise PlannerFault("bundle_unsafe", f"the normalizer makes text more than {MAX_GROWTH} times longer")


def _nested(pattern: str) -> bool:
    """Walk a pattern once; a stack holds for each open group what its present alternative is made of."""
    stack = [_Group()]
    at = 0
    while at < len(pattern):
        if pattern[at] == "|":
            stack[-1].next_alternative()
            at += 1
            continue
        if pattern[at] == "(":
            opened = _GROUP.match(pattern, at)
            assert opened is not None, "a parenthesis opens a group"
            stack.append(_Group(atomic=opened["atomic"] is not None))
            at = opened.end()
            continue
        closed = stack.pop() if pattern[at] == ")" and len(stack) > 1 else None
        if closed is not None:
            closed.next_alternative()
            at += 1
        else:
            atom = _ATOM.match(pattern, at)
            at = atom.end() if atom is not None else at + 1
        found = _QUANTIFIER.match(pattern, at)
        at = found.end() if found is not None else at
        unbounded = found is not None and found["open"] is not None and found["possessive"] is None
        if closed is not None and unbounded and closed.all_repeated and not closed.atomic:
            return True
        inside = closed is not None and closed.all_repeated and not closed.atomic and found is None
        stack[-1].add(quantified=found is not None or inside, unbounded=unbounded or inside)
    return False


class _Group:
    def __init__(self, *, atomic: bool = False) -> None:
        self.atomic = atomic
        self.all_repeated = False
        self._fixed = False
        self._unbounded = False

    def add(self, *, quantified: bool, unbounded: bool) -> None:
        self._fixed |= not quantified
        self._unbounded |= unbounded

    def next_alternative(self) -> None:
        self.all_repeated |= self._unbounded and not self._fixed
        self._fixed = self._unbounded = False
