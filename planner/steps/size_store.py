"""Sizes of turns by turn id: what outlives one plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.steps.form_book import Known
from planner.steps.forms import FactsBook

BEYOND = 1 << 40
"""Stands for items that are known not to fit; no sum with it is ever within a room."""


@dataclass(frozen=True, slots=True)
class TurnSize:
    """`rendered` tokens in carried form, None where the turn does not render; `text` its texts alone.

    `results` says whether a turn may have shorter forms (`results_in`), `bytes` how many the whole turn counts; the
    sizes are those of what it begins with.
    """

    rendered: int | None
    text: int | None = None
    results: int = 0
    bytes: int = 0

    @property
    def tokens(self) -> int:
        """The size in whichever form is known."""
        return self.rendered if self.rendered is not None else self.text or 0


@dataclass(slots=True)
class SizeStore:
    """Sizes of turns that outlive one plan, by turn id."""

    turns: dict[str, TurnSize] = field(default_factory=dict)
    chains: Known = field(default_factory=dict)
    facts: FactsBook = field(default_factory=FactsBook)
    begun_short: set[str] = field(default_factory=set)

    def forget(self, turn_id: str) -> None:
        """Drop what is known of a turn that has a newer version."""
        self.turns.pop(turn_id, None)  # its forms are compared with the turn, and mostly it only grew

    def clear(self) -> None:
        """Drop everything."""
        self.turns.clear()
        self.chains.clear()
        self.facts.clear()
