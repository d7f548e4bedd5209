"""Retrieved text with its source, and the rights it is judged by (R159..R168)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """Where a passage comes from and how its publisher is graded (1 is best)."""

    id: str
    grade: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved text; `relevance` is finite and lies in 0..1 (threats.md §2.3)."""

    citation_id: str
    text: str = field(repr=False)
    relevance: float = 0.0
    tenant: str | None = None
    dataset: str | None = None
    source: Source | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    fact_key: str | None = None
    fact_value: str | None = field(default=None, repr=False)
    short_forms: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Citation:
    """What an old turn or summary cites, without its text (X39)."""

    citation_id: str
    tenant: str | None = None
    dataset: str | None = None
    source: Source | None = None
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What the caller of this request may see."""

    tenant: str
    datasets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
