"""Go on from the first rung that fits to one that later plans can append to (design.md §5, lowWater, sticky)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.steps.fit import Fitted
from planner.steps.ladder import rung
from planner.steps.sizes import Sizes
from planner.values.passage import Passage
from planner.values.request import PlanRequest
from planner.values.rung import Ladder, Layered, Selection
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Later:
    """What choosing a lower rung looks at; `staying` are the indexes of turns that do not leave alone."""

    steps: Ladder
    layered: Layered
    sizes: Sizes
    passages: Sequence[Passage]
    request: PlanRequest

    def rung(self, made: int) -> Selection:
        """Return the selection after so many moves."""
        return rung(self.steps, self.layered, self.passages, made)

    @property
    def staying(self) -> frozenset[int]:
        """Pinned and held turns."""
        return frozenset(self.layered.pinned).union(self.layered.held)

    def movable_tokens(self, selection: Selection) -> int:
        """Return the size of the history of a rung that may still leave, summaries with it."""
        turns, reach = self.layered.history.turns, self.steps.reach
        fixed = {turns[index].id for index in self.staying}
        pinned = {cover.summary.id for cover in (*reach.borders, *reach.covers) if cover.stays}
        tokens = 0
        for entry in selection.history:
            if isinstance(entry, Turn):
                known = entry.id in self.sizes.store.turns and entry.id not in fixed
                tokens += self.sizes.rendered(entry) if known else 0
                forms = selection.forms.get(f"turn/{entry.id}", ()) if known else ()
                tokens -= sum(form.saved for _, form in forms)
            elif entry.id not in pinned:
                tokens += self.sizes.item(f"summary/{entry.id}")
        return tokens


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
    movable = later.movable_tokens(fitted.measured.selection)
    target = int(options.low_water * (room - (fitted.measured.tokens - movable)))
    for made in range(fitted.moves_made, len(steps.moves) + 1):
        selection = later.rung(made)
        if later.movable_tokens(selection) <= target:
            found = measure(selection)
            if found.tokens <= room:
                return Fitted(found, made, True, fitted.moves_made, "beyond_low_water")
    return fitted


def _moved_turns(steps: Ladder, fitted: Fitted) -> bool:
    made = steps.moves[: fitted.moves_made]
    return any(
        move.through or move.comes or any(not key.startswith("passage/") for key in move.leaves) for move in made
    )


def _first_kept(later: Later) -> int | None:
    """Return the first rung whose oldest movable raw turn is the one the previous plan began with."""
    previous = later.request.previous
    wanted = previous.first_kept_turn_id if previous is not None else None
    if wanted is None:
        return None
    turns, staying = later.layered.history.turns, later.staying
    place, runs, gone = later.steps.reach.gone_through, dict[int, int](), set[str]()
    for made in range(len(later.steps.moves) + 1):
        if made:
            move = later.steps.moves[made - 1]
            gone.update(move.leaves)
            place = max(place, move.through)
            if move.comes:
                runs[move.run[0]] = move.run[1]
        while place < len(turns) and (place in staying or place in runs or f"turn/{turns[place].id}" in gone):
            place = runs.get(place, place + 1)
        if place < len(turns) and turns[place].id == wanted:
            return made
    return None
