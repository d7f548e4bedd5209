"""Decide when the spliced speed may be used for a rung, and keep the ids it needs (design.md §4.8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from planner.encoding.assemble import Assembled
from planner.encoding.encoder import Encoder, Encoding
from planner.encoding.spliced import Block, FrozenTurn, freeze, splice
from planner.steps.frame import Framed, Framer
from planner.steps.frame_turn import FramedTurn
from planner.values.request import PlanRequest
from planner.values.rung import Layered, Selection
from planner.values.turn import Turn


@dataclass(slots=True)
class FrozenStore:
    """Ids of turns by turn id, valid for one system message and one list of tools."""

    turns: dict[str, FrozenTurn] = field(default_factory=dict)
    fixed_of: Any = None
    block: Block = field(default_factory=Block)


class Splicer:
    """Ids of a conversation's old turns; `tail` is the last render of its end."""

    def __init__(self, depth: int, store: FrozenStore) -> None:
        """`depth` is the number of following turns a turn's text may depend on, from the self-test."""
        self.depth = depth
        self.store = store
        self.tail: tuple[Selection, Framed, Encoding] | None = None
        self._cut: tuple[Assembled, list[str], dict[str, FrozenTurn]] | None = None

    def tail_of(self, selection: Selection, layered: Layered, framer: Framer) -> Selection | None:
        """Return what must be rendered of a rung, None where it cannot be spliced.

        A rung can be where it is a plain suffix of the history without a state block at its head, each turn is
        ordinary and in its longest form, and all but the last `depth` turns are known.
        """
        history = selection.history
        if (
            selection.has_head
            or not selection.whole_turns
            or (layered.summaries and not all(isinstance(entry, Turn) for entry in history))
        ):
            return None
        turns = layered.history.turns
        if len(history) <= self.depth or len(history) > len(turns):
            return None
        if history[0] is not turns[len(turns) - len(history)]:
            return None
        known = self.store.turns
        if not all(map(known.__contains__, [entry.id for entry in history[: -self.depth]])):
            return None
        end = history[-self.depth :]
        if not all(isinstance(entry, Turn) and ordinary(framer.turn(entry)) for entry in end):
            return None
        if not ordinary(framer.open_turn()):
            return None
        return Selection(history=history[-self.depth :], passages=selection.passages, conflicts=selection.conflicts)

    def join(self, selection: Selection, end: Selection, tail: Assembled) -> Assembled | None:
        """Return the whole rung from its rendered end and the frozen turns before it."""
        items = [f"turn/{entry.id}" for entry in end.history]
        fresh = self._freeze(tail, items)
        if len(fresh) != len(items):
            return None
        for item, turn in fresh.items():
            self.store.turns[item.partition("/")[2]] = turn
        known = self.store.turns
        before = [known[entry.id] for entry in selection.history[: -self.depth]]
        return splice(tail, before, items[0], self.store.block)

    def learn(self, selection: Selection, assembled: Assembled, framer: Framer, *, unsettled: int = 0) -> None:
        """Keep the ids of turns that were rendered side by side, where each is an ordinary one.

        unsettled  how many of the last are not kept, because what follows them was not rendered.
        """
        entries = [entry for entry in selection.history if isinstance(entry, Turn)]
        if (
            selection.has_head
            or not selection.whole_turns
            or len(entries) != len(selection.history)
            or not ordinary(framer.open_turn())
        ):
            return
        if not all(ordinary(framer.turn(entry)) for entry in entries):
            return
        fresh = self._freeze(assembled, [f"turn/{entry.id}" for entry in entries])
        for item, turn in islice(fresh.items(), max(0, len(fresh) - unsettled)):
            self.store.turns[item.partition("/")[2]] = turn

    def _freeze(self, assembled: Assembled, items: list[str]) -> dict[str, FrozenTurn]:
        """Cut a render into its turns; once where it is learned from first and joined then."""
        if self._cut is None or self._cut[0] is not assembled or self._cut[1] != items:
            self._cut = assembled, items, freeze(assembled, items)
        return self._cut[2]


def ordinary(framed: FramedTurn) -> bool:
    """Tell whether the self-test speaks for a turn: it opens with a user message and spells nothing parsed.

    The framing before a turn belongs to the one before, so all must open alike.
    """
    return framed.opens_with_user and not framed.parsed


def make_splicer(encoder: Encoder, framer: Framer, request: PlanRequest, store: FrozenStore | None) -> Splicer | None:
    """Return a splicer where the bundle's self-test allows it and nothing of the request differs from it.

    Without a store there is none: a plan that stands alone has no old turns' ids, and is rendered whole.
    """
    depth = encoder.bundle.profile.splice_depth
    if (
        depth is None
        or store is None
        or not encoder.splicing
        or request.template_options
        or request.options.mode != "ids"
        or framer.framing.applies("join_same_role")
    ):
        return None
    fixed_of = framer.fixed_key()
    if store.fixed_of != fixed_of:
        store.turns.clear()
        store.fixed_of = fixed_of
    return Splicer(depth, store)
