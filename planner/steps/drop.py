"""Find the fewest things the caller could leave out of a request so that it fits, by the exact count (R30).

Tools and preferences are the caller's offer; policy, data scope, output schema and required parameters are the task
itself and are never named. The planner drops none of them (R28).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

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

    known: dict[tuple[str, ...], int] = {(): last.tokens}

    def tokens(dropped: Sequence[str]) -> int:
        key = tuple(dropped)
        if key not in known:
            known[key] = _measure(measurer, last, frozenset(key))
        return known[key]

    if not own or tokens(own) > room:
        return ()
    # What is charged to them says where to begin: one that leaves takes little more than its own tokens along.
    sizes = [charges.get(item, 0) for item in own]
    guess = bisect_left(list(accumulate(sizes)), last.tokens - room) + 1
    fewest = _first(1, len(own), guess, lambda count: tokens(own[:count]) <= room)
    kept = own[: fewest - 1]
    frame = tokens(kept) - tokens(own[:fewest]) - sizes[fewest - 1]
    guess = next((at for at in range(fewest, len(own)) if sizes[at] + frame < tokens(kept) - room), len(own))
    beyond = _first(fewest, len(own), guess, lambda at: at == len(own) or tokens([*kept, own[at]]) > room)
    return (*kept, own[beyond - 1])


def _first(low: int, high: int, guess: int, holds: Callable[[int], bool]) -> int:
    """Return the first of low..high for which `holds`, which stays true once it is; it holds for `high`.

    The search goes out from the guess in growing steps, and halves what is left.

    >>> [_first(1, 9, guess, lambda at: at >= 4) for guess in (1, 4, 5, 9, 20)]
    [4, 4, 4, 4, 4]
    """
    middle, step = min(max(guess, low), high), 1
    if middle == high or holds(middle):
        high = middle
        while low < high:
            middle = max(low, high - step)
            if not holds(middle):
                low = middle + 1
                break
            high, step = middle, 2 * step
    else:
        low = middle + 1
        while low < high:
            middle = min(high, low + step - 1)
            if middle == high or holds(middle):
                high = middle
                break
            low, step = middle + 1, 2 * step
    return low + bisect_left(range(low, high), True, key=holds)


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
