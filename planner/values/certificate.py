"""What a runtime showed about the prompts it makes of our text or messages: digests, counts and versions, no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shape = Literal["plain", "system", "turns", "tools", "calls", "reasoning", "not_normal"]
SHAPES: tuple[Shape, ...] = ("plain", "system", "turns", "tools", "calls", "reasoning", "not_normal")
REQUIRED_SHAPES: tuple[Shape, ...] = ("plain", "turns")
CertifiedMode = Literal["text", "messages"]


@dataclass(frozen=True, slots=True)
class Vector:
    """One small conversation as planned, and as the runtime read it.

    planned_tokens  ids of the plan and what the bundle declares that the runtime adds.
    same_ids        whether the runtime's ids are the plan's; None where it tells a count alone.
    digest          sha256 over the plan's ids.
    """

    name: str
    shapes: tuple[Shape, ...]
    planned_tokens: int
    counted_tokens: int
    same_ids: bool | None
    digest: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """Leave to hand plans over as text or messages, for one bundle on one engine in these versions.

    covers          shapes of conversations that were compared and agree; a plan with another shape is refused.
    exact           the runtime's ids are ours in every vector; else the count is an upper bound.
    runtime_begins  the runtime puts the begin token itself, so the text is handed over without it.
    """

    mode: CertifiedMode
    runtime: str
    versions: tuple[str, ...]
    covers: tuple[Shape, ...]
    exact: bool
    vectors: tuple[Vector, ...] = ()
    runtime_begins: bool = False
