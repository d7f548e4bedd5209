"""A live constraint: a rule of the application that outlives the turn it was made in (R151, X44)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint in force; `text` is the application's wording, never copied from a message body."""

    id: str
    turn_id: str
    text: str | None = field(default=None, repr=False)
