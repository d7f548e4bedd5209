"""Find the fewest things the caller could leave out of a request so that it fits, by the exact count (R30).

Tools and preferences are the caller's offer; policy, data scope, output schema and required parameters are the task
itself and are never named. The planner drops none of them (R28).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.steps.frame import Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.measure import Measured, Measurer


def smallest_drop(measurer: Measurer, last: Measured, room: int) -> tuple[str, ...]:
    """Return the `kind/id` of the fewest tools and preferences without which the last rung fits, else nothing.

    The largest leave first, and the last of them is the smallest that is enough; each answer was measured. Both
    searches halve, because leaving out more never makes a prompt longer.
    """
    if last.encoding is None or last.encoding.assembled is None:
        return ()
    charges = last.encoding.assembled.charges
    layered = measurer.layered
    own = [f"tool/{tool.id}" for tool in layered.tools]
    own += [f"preference/{item.id}" for item in layered.preferences]
    own.sort(key=lambda item: (-charges.get(item, 0), item))

    def fits(dropped: Sequence[str]) -> bool:
        return _measure(measurer, last, frozenset(dropped)) <= room

    if not own or not fits(own):
        return ()
    fewest = _first(1, len(own), lambda count: fits(own[:count]))
    kept = own[: fewest - 1]
    beyond = _first(fewest, len(own), lambda at: at == len(own) or not fits([*kept, own[at]]))
    return (*kept, own[beyond - 1])


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first of low..high for which `holds`, which stays true once it is; it holds for `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _measure(measurer: Measurer, last: Measured, dropped: frozenset[str]) -> int:
    layered = measurer.layered
    lean = replace(
        layered,
        tools=tuple(tool for tool in layered.tools if f"tool/{tool.id}" not in dropped),
        preferences=tuple(item for item in layered.preferences if f"preference/{item.id}" not in dropped),
    )
    # Fixed parts of their own: those of the request are remembered for its next plan.
    allowed, carried = (
        Framer(lean, one.framing, one.options, one.now, one.turns, FixedParts())
        for one in (measurer.framer, measurer.carried)
    )
    return Measurer(measurer.encoder, lean, allowed, carried, measurer.counters).measure(last.selection).tokens
