"""A conversation kept elsewhere, as a plain list stands for it: what a ledger's reader must hand over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.values.digest import chain_of
from planner.values.receipt import Removal
from planner.values.relations import relations
from planner.values.request import PlanRequest
from planner.values.turn import Turn
from planner.values.view import View


class Lazy(Sequence[Turn]):
    """Turns that note which of them were read."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.read: set[int] = set()

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[index] for index in range(len(self.turns))[at]]
        index = range(len(self.turns))[at]
        self.read.add(index)
        return self.turns[index]

    def index_of(self, turn_id: str) -> int | None:
        """Return the place of a turn, by its id, without reading it."""
        return next((at for at, turn in enumerate(self.turns) if turn.id == turn_id), None)


def view_of(request: PlanRequest) -> View:
    """Return the view of a request's own turns and summaries, these as current ones."""
    ordered = sorted(request.turns, key=lambda turn: turn.sequence)
    shown = [turn for turn in ordered if turn.state in ("completed", "open")]
    found = relations(ordered)
    return View(
        conversation_id=request.conversation_id or "", branch="main", generation=request.generation,
        revision=request.revision, event=0, turns=Lazy(shown),
        pinned=[at for at, turn in enumerate(shown) if turn.pinned or turn.state == "open"],
        hidden=tuple(Removal(f"turn/{turn.id}", turn.state) for turn in ordered if turn not in shown),
        chain=chain_of(ordered).raw(), constraints=found.constraints, summaries=request.summaries,
        held=[at for at, turn in enumerate(shown) if turn.id in found.held],
        withdrawing=[at for at, turn in enumerate(shown) if turn.id in found.withdrawing],
        citing=[at for at, turn in enumerate(shown) if any(message.citation_ids for message in turn.messages)],
    )  # fmt: skip
