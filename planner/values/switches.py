"""The three parts of compaction that can be switched off alone; raw turns are there without any of them (R212)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Switches:
    """What is on.

    store   derived summaries and their checks; off: plans use raw turns, nothing is proposed or accepted.
    model   summaries a model makes; off: plans use raw turns, no prompt is written and no answer is read.
    status  what a screen polls; off: it says so and shows nothing. Plans do not depend on it.
    reuse   what lets plans use a summary: its unchanged sources, or, conservatively, only a conversation in which
            nothing at all changed since it was planned (R120; what that costs: `compaction.cost`).
    None of them removes a row: what is stored is used again once its switch is on.
    """

    store: bool = True
    model: bool = True
    status: bool = True
    reuse: Literal["sources", "any_revision"] = "sources"

    @property
    def summaries(self) -> bool:
        """True where plans may use summaries."""
        return self.store and self.model
