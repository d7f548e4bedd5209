"""Find passages that say the same as a better one, without comparing every pair (R162, R163, design.md §5 move 0).

One text can only say the same as another if its tokens are among the other's and both hold the same numbers. So only
texts with equal numbers are looked at, and of these only the ones that hold each other's rarest token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from planner.steps.near import same
from planner.steps.signature import Signature, signature
from planner.values.passage import Passage
from planner.values.rank import survivor_order

MOST_COMPARED = 32
"""Survivors one passage is compared with; beyond it a duplicate may stay, and nothing is ever wrongly taken for one."""
_MOST_CHARACTERS = 8 * 1024 * 1024


class Signatures:
    """Signatures by text, which depend on nothing else; bounded by the characters they were made from."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[str, Signature] = {}
        self._characters = 0

    def of(self, text: str) -> Signature:
        """Return the signature of a text, made once."""
        found = self._known.get(text)
        if found is None:
            if self._characters + len(text) > _MOST_CHARACTERS:
                self._known, self._characters = {}, 0
            found = self._known[text] = signature(text)
            self._characters += len(text)
        return found


def duplicates(
    passages: Sequence[Passage], required: Collection[str], store: Signatures, low_value_line: float | None = None
) -> frozenset[str]:
    """Return the citation ids of passages that say the same as one that stays; required ones are never among them.

    Of two that say the same the one stays that is required, then of better grade, then fresher, then more relevant.
    """
    if len(passages) < 2:
        return frozenset()
    groups: dict[tuple[str, ...], list[tuple[Passage, Signature]]] = {}
    for passage in passages:
        found = store.of(passage.text)
        groups.setdefault(found.facts if found.size else ("", found.exact), []).append((passage, found))
    shared = (group for group in groups.values() if len(group) > 1)
    for_each = (sorted(group, key=lambda entry: survivor_order(entry[0], required, low_value_line)) for group in shared)
    return frozenset(name for group in for_each for name in _within(group, required))


def _within(group: Sequence[tuple[Passage, Signature]], required: Collection[str]) -> Iterable[str]:
    """Yield the duplicates among passages with equal numbers, given in the order in which they would stay."""
    best = group[0][1]
    if all(found == best for _, found in group[1:]):  # one text again and again: the first of them stays
        yield from (passage.citation_id for passage, _ in group[1:] if passage.citation_id not in required)
        return
    words = [frozenset(token for sentence in found.sentences for token in sentence) for _, found in group]
    spread = Counter(token for tokens in words for token in tokens)
    rarest = [min(tokens, key=lambda token: (spread[token], token), default="") for tokens in words]
    holders: dict[str, list[int]] = {}
    named: dict[str, list[int]] = {}
    seen: set[Signature] = set()
    for at, (passage, found) in enumerate(group):
        if passage.citation_id not in required:
            if found in seen:
                yield passage.citation_id
                continue
            near = {other for token in words[at] for other in named.get(token, ())}
            near.update(holders.get(rarest[at], ()))
            if any(same(group[other][1], found) for other in sorted(near)[:MOST_COMPARED]):
                yield passage.citation_id
                continue
        seen.add(found)
        named.setdefault(rarest[at], []).append(at)
        for token in words[at]:
            holders.setdefault(token, []).append(at)
