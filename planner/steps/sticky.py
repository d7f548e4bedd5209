"""Go on from the first rung that fits to one that later plans can append to (design.md §5, lowWater, sticky)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.steps.fit import Fitted
from planner.steps.ladder import rung
from planner.steps.measure import Measured
from planner.steps.sizes import Sizes
from planner.values.passage import Passage
from planner.values.request import PlanRequest
from planner.values.rung import Ladder, Layered, Selection
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Later:
    """What choosing a lower rung looks at."""

    steps: Ladder
    layered: Layered
    sizes: Sizes
    passages: Sequence[Passage]
    request: PlanRequest

    def rung(self, made: int) -> Selection:
        """Return the selection after so many moves."""
        return rung(self.steps, self.layered, self.passages, made)


def lower(fitted: Fitted, later: Later, room: int) -> Fitted:
    """Return the rung to use: the previous cut while it fits (sticky), else a lower one once a cut moves.

    History's room is the budget less everything but movable history of the rung found; with lowWater w the
    first later rung whose movable history is at most w times that room is taken.
    """
    request, steps, sizes = later.request, later.steps, later.sizes
    measure = sizes.measurer.measure
    options = request.options
    sticky = options.sticky or options.low_water < 1.0
    if not sticky:
        return fitted
    kept = _first_kept(later)
    if kept is not None and kept >= fitted.moves_made:
        found = measure(later.rung(kept))
        if found.problem is None and found.tokens <= room:
            return Fitted(found, kept, True, fitted.moves_made, "sticky_cut")
    if options.low_water >= 1.0 or not _moved_turns(steps, fitted):
        return fitted
    movable = _movable(fitted.measured, sizes)
    target = int(options.low_water * (room - (fitted.measured.tokens - movable)))
    for made in range(fitted.moves_made, len(steps.moves) + 1):
        selection = later.rung(made)
        history = sum(
            sizes.rendered(entry)
            for entry in selection.history
            if isinstance(entry, Turn) and entry.id in sizes.store.turns and not _pinned(entry)
        )
        if history <= target:
            found = measure(selection)
            if found.tokens <= room:
                return Fitted(found, made, True, fitted.moves_made, "beyond_low_water")
    return fitted


def _pinned(turn: Turn) -> bool:
    return turn.pinned or turn.state == "open"


def _moved_turns(steps: Ladder, fitted: Fitted) -> bool:
    made = steps.moves[: fitted.moves_made]
    return any(move.through or any(key.startswith("turn/") for key in move.leaves) for move in made)


def _movable(measured: Measured, sizes: Sizes) -> int:
    return sum(
        sizes.rendered(entry) for entry in measured.selection.history if isinstance(entry, Turn) and not _pinned(entry)
    )


def _first_kept(later: Later) -> int | None:
    """Return the first rung whose oldest movable turn is the one the previous plan began with."""
    previous = later.request.previous
    wanted = previous.first_kept_turn_id if previous is not None else None
    if wanted is None:
        return None
    for made in range(len(later.steps.moves) + 1):
        history = later.rung(made).history
        first = next((entry for entry in history if isinstance(entry, Turn) and not _pinned(entry)), None)
        if first is not None and first.id == wanted:
            return made
    return None
