"""Whether a chat template renders alike in another engine, shape of conversation by shape (field-notes.md M7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["same", "different", "raises_there", "raises_here", "both_raise"]
"""`here` is the reference, Jinja2 set up as transformers does; `there` the other engine."""
ALIKE: frozenset[Verdict] = frozenset({"same", "both_raise"})


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """What one engine makes of one shape.

    `token` is the index of the first id that differs, None where nothing was encoded; `character` the index of
    the first character of the text that differs. `cause` is one of a closed set of sentences, empty for a shape
    that is rendered alike or whose difference has none of them.
    """

    shape: str
    verdict: Verdict
    token: int | None = None
    character: int | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Portability:
    """The verdicts of one engine, in the order of the shapes."""

    engine: str
    engine_version: str
    template_digest: str
    shapes: tuple[ShapeVerdict, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """Names of the shapes that are not rendered alike; a shape that both refuse is."""
        return tuple(one.shape for one in self.shapes if one.verdict not in ALIKE)


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A place in a template that only some engines forgive; `line` counts from 1.

    `rule` is a key of the table of rules, `about` the expression or name, in ASCII.
    """

    rule: str
    line: int
    about: str
