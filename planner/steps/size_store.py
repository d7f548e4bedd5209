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
    sizes are those of what it begins with. `tokens` is the size in whichever form is known.
    `words` is what its texts alone have at least, None where no turn of the template can raise: beside a turn that
    does, every turn counts by its texts (design.md §2). `floor` is the least it counts in any rung.
    """

    rendered: int | None
    text: int | None = None
    results: int = 0
    bytes: int = 0
    words: int | None = None
    tokens: int = field(init=False)
    floor: int = field(init=False)

    def __post_init__(self) -> None:
        """Choose the form once: every later plan adds it up."""
        tokens = self.rendered if self.rendered is not None else self.text or 0
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "floor", tokens if self.words is None else min(tokens, self.words))


@dataclass(slots=True)
class SizeStore:
    """Sizes of turns that outlive one plan, by turn id; `most_bytes` and `results` bound what any of them has."""

    turns: dict[str, TurnSize] = field(default_factory=dict)
    chains: Known = field(default_factory=dict)
    facts: FactsBook = field(default_factory=FactsBook)
    begun_short: set[str] = field(default_factory=set)
    most_bytes: int = 0
    results: set[int] = field(default_factory=set)

    def begin(self, byte_limit: int | None) -> None:
        """Begin a plan: drop sizes of turns that have more bytes than its window could take, whole or shortened.

        A turn begins in the form that the window asks for, so what was found for a larger one says nothing here.
        """
        for turn_id in self.begun_short:
            self.turns.pop(turn_id, None)
        self.begun_short.clear()
        if byte_limit is not None and self.most_bytes > byte_limit:
            self.turns = {name: size for name, size in self.turns.items() if size.bytes <= byte_limit}
            self.most_bytes = max((size.bytes for size in self.turns.values()), default=0)

    def put(self, turn_id: str, size: TurnSize) -> None:
        """Keep the size of a turn."""
        self.turns[turn_id] = size
        self.results.add(size.results)
        self.most_bytes = max(self.most_bytes, size.bytes)

    def forget(self, turn_id: str) -> None:
        """Drop what is known of a turn that has a newer version."""
        self.turns.pop(turn_id, None)  # its forms are compared with the turn, and mostly it only grew

    def clear(self) -> None:
        """Drop everything."""
        self.turns.clear()
        self.chains.clear()
        self.facts.clear()
