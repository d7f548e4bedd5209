"""Passages that say the same as another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planner.steps.rank import survivor_order
from planner.values.passage import Passage


class Signatures:
    """What is remembered of texts between plans."""


def duplicates(passages: Sequence[Passage], required: Collection[str], store: Signatures) -> frozenset[str]:
    """Return the citation ids of passages whose text another passage has, too."""
    seen: set[str] = set()
    out: set[str] = set()
    for passage in sorted(passages, key=lambda one: survivor_order(one, required)):
        if passage.text in seen and passage.citation_id not in required:
            out.add(passage.citation_id)
        seen.add(passage.text)
    return frozenset(out)
