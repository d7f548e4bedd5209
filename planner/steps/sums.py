"""Summed sizes of rungs, which only say what to measure: never what a plan counts (design.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.steps.frame_blocks import NOTICE_KEY
from planner.steps.ladder import outside
from planner.steps.size_store import BEYOND, TurnSize
from planner.steps.sizes import Sizes
from planner.values.constraint import Constraint
from planner.values.forms import Form, FormStep
from planner.values.passage import Passage
from planner.values.rung import Cover, Ladder, Layered, Move
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


class Sums:
    """Sizes of rungs, fullest first, added up only as far as they are looked at."""

    def __init__(self, sums: Iterable[int]) -> None:
        """Take one size a rung."""
        self._more = iter(sums)
        self._seen: list[int] = []

    def __getitem__(self, at: int) -> int:
        """Return the size of a rung."""
        while len(self._seen) <= at:
            self._seen.append(next(self._more))
        return self._seen[at]


def estimates(steps: Ladder, layered: Layered, sizes: Sizes, passages: Sequence[Passage]) -> Sums:
    """Return the summed size of every rung, in tokens of its carried form."""
    base = sizes.base
    if base is None:
        raise AssertionError("sizes were not learned")
    turns, reach = layered.history.turns, steps.reach
    runs = [(cover.low, cover.high) for cover in reach.covers]
    begin = max(reach.start, reach.gone_through)
    older = layered.older_staying(begin)
    indexes = list(outside(runs, older, begin, len(turns))) if runs else [*older, *range(begin, len(turns))]
    known = sizes.store.turns
    held = BEYOND if reach.start > reach.gone_through else 0
    if layered.plain and not passages and not layered.conflicts and base.rendered is not None and reach.forms.empty:
        figures = [known[turns[index].id].rendered for index in indexes]
        if None not in figures:
            return Sums(_plain_sums(steps, known, base.rendered + sum(figures), held))  # type: ignore[arg-type]
    return Sums(_Mixed(steps, layered, sizes, passages, indexes).sums(held))


def _plain_sums(steps: Ladder, known: Mapping[str, TurnSize], total: int, held: int) -> Iterator[int]:
    yield total + held
    for move in steps.moves:
        for key in move.leaves:
            total -= known[key[5:]].rendered or 0
        yield total


@dataclass(slots=True, eq=False)
class _Node:
    """A turn, a run that is raw, or a summary, between its neighbours.

    `texts` are the tokens of its texts alone, `speaks` says that a user message is in it, `raises` how many of its
    turns do not render, `shorter` how many tokens of its texts shorter forms have saved.
    """

    key: str
    tokens: int = 0
    texts: int = 0
    turns: tuple[Turn, ...] = field(default=(), repr=False)
    speaks: bool = True
    raises: int = 0
    shorter: int = 0
    before: _Node | None = field(default=None, repr=False)
    after: _Node | None = field(default=None, repr=False)

    def ends_block(self) -> int:
        """Count 1 for the last summary of a row of them: each row is one state block."""
        following = self.after
        alone = following is None or not following.key.startswith("summary/")
        return int(alone and self.key.startswith("summary/"))


class _Mixed:
    """Sums of rungs with passages or state blocks, or with turns that only count by their texts."""

    def __init__(
        self, steps: Ladder, layered: Layered, sizes: Sizes, passages: Sequence[Passage], indexes: Sequence[int]
    ) -> None:
        self.steps, self.layered, self.sizes = steps, layered, sizes
        self.cited = len(passages)
        self.items = sum(sizes.item(f"passage/{passage.citation_id}") for passage in passages)
        self.area = sizes.area() if passages else 0
        self.told = len(layered.conflicts)
        self.items += sum(sizes.item(one.key) for one in layered.conflicts)
        self.conflict_frame = sizes.conflict_frame() if layered.conflicts else 0
        rendered = None if sizes.base is None else sizes.base.rendered
        self.base, self.by_texts = rendered or 0, rendered is None
        turns = layered.history.turns
        placed = [(index, self._turn_node(turns[index])) for index in indexes]
        placed += [(cover.low, self._run_node(cover)) for cover in steps.reach.covers]
        placed += [(-1, self._summary_node(cover.summary)) for cover in steps.reach.borders]
        nodes = [node for _, node in sorted(placed, key=lambda entry: entry[0])]
        # Texts alone are asked for only where a turn, or everything, counts by them.
        self.textual = self.by_texts or any(node.raises for node in nodes)
        self.fixed_texts = sizes.fixed_texts() if self.textual else 0
        self.nodes: dict[str, _Node] = {}
        self.own_saved = self.own_saved_texts = 0
        self.shown: dict[tuple[str, int], Form] = {}
        self.runs = {f"turn/{turn.id}": node for node in nodes for turn in node.turns}
        self.end = _Node("")
        self.end.before = self.end.after = self.end
        self.blocks = self.raising = self.history = self.texts = 0
        for node in nodes:
            self._put(node, self.end)
        self.lost = steps.reach.gone_through > 0 or bool(layered.history.revoked)
        self.stating = self.stated = self.stated_texts = 0
        raw = {turn.id for node in nodes for turn in node.turns} | {layered.open_turn.id}
        # Those of unread turns too: as long as these are raw, the sum says that nothing fits.
        self._state(*(entry for entry in layered.constraints if entry.turn_id not in raw))

    def _turn_node(self, turn: Turn) -> _Node:
        sizes = self.sizes
        speaks = any(message.role == "user" and message.accepted for message in turn.messages)
        return _Node(f"turn/{turn.id}", sizes.rendered(turn), 0, (turn,), speaks, int(sizes.raises(turn)))

    def _summary_node(self, summary: SummaryRecord) -> _Node:
        key = f"summary/{summary.id}"
        return _Node(key, self.sizes.item(key), self.sizes.alone(summary.summary_text))

    def _run_node(self, cover: Cover) -> _Node:
        key = f"run/{cover.summary.id}"
        if cover.low < self.steps.reach.raw_from:
            return _Node(key, BEYOND, BEYOND)
        turns = tuple(self.layered.history.turns[index] for index in range(cover.low, cover.high))
        return _Node(key, sum(map(self.sizes.rendered, turns)), 0, turns, raises=sum(map(self.sizes.raises, turns)))

    def _put(self, node: _Node, after: _Node) -> None:
        before = after.before or self.end
        self.blocks -= before.ends_block()
        node.before, node.after = before, after
        before.after = after.before = node
        self.blocks += before.ends_block() + node.ends_block()
        self.nodes[node.key] = node
        self._count(node, 1)

    def _take(self, node: _Node) -> _Node:
        """Take a node out; return the one after it."""
        before, after = node.before or self.end, node.after or self.end
        self.blocks -= before.ends_block() + node.ends_block()
        before.after, after.before = after, before
        self.blocks += before.ends_block()
        del self.nodes[node.key]
        self._count(node, -1)
        return after

    def _count(self, node: _Node, sign: int) -> None:
        self.history += sign * node.tokens
        self.raising += sign * node.raises
        if self.textual:
            self.texts += sign * ((node.texts or sum(map(self.sizes.text, node.turns))) - node.shorter)

    def _state(self, *constraints: Constraint) -> None:
        for entry in constraints:
            if entry.text is not None:
                self.stating += 1
                self.stated += self.sizes.item(f"constraint/{entry.id}")
                self.stated_texts += self.sizes.alone(entry.text) if self.textual else 0

    def _state_of(self, turns: Sequence[Turn]) -> None:
        if self.layered.constraints and turns:
            gone = {turn.id for turn in turns}
            self._state(*(entry for entry in self.layered.constraints if entry.turn_id in gone))

    def sums(self, held: int) -> Iterator[int]:
        """Yield the size of every rung."""
        yield held + self._total()
        for move in self.steps.moves:
            if move.through:
                held = 0
                self.lost = True
            self._make(move)
            yield held + self._total()

    def _make(self, move: Move) -> None:
        if move.shows is not None:
            self._shorten(move.shows)
        for key in move.leaves:
            if key.startswith(("passage/", "conflict/")):
                form = self.shown.get((key, 0))
                self.items -= self.sizes.item(key) - (0 if form is None else form.saved)
                self.cited -= key.startswith("passage/")
                self.told -= key.startswith("conflict/")
                continue
            node = self.nodes[key]
            self._take(node)
            self._state_of(node.turns)
            self.lost = True
        for key in move.comes:
            name = key.partition("/")[2]
            run = self.nodes[f"run/{name}"]
            after = self._take(run)
            summary = next(cover.summary for cover in self.steps.reach.covers if cover.summary.id == name)
            texts = self.sizes.alone(summary.summary_text) if self.textual else 0
            self._put(_Node(key, self.sizes.item(key), texts), after)
            self._state_of(run.turns)

    def _shorten(self, step: FormStep) -> None:
        """Count one text in its next form, wherever it stands."""
        key, place, form = step
        before = self.shown.get((key, place))
        self.shown[key, place] = form
        saved, alone = form.saved, form.saved_alone
        if before is not None:
            saved, alone = saved - before.saved, alone - before.saved_alone
        if key.startswith("passage/"):
            self.items -= saved
        elif key == f"turn/{self.layered.open_turn.id}":
            self.own_saved += saved
            self.own_saved_texts += alone
        else:
            node = self.runs[key]
            if self.nodes.get(node.key) is not node:
                return  # it left, or its summary came, before this step (giveWayOrder)
            self._count(node, -1)
            counts_by_texts = self.sizes.raises(next(turn for turn in node.turns if f"turn/{turn.id}" == key))
            node.tokens -= alone if counts_by_texts else saved
            node.shorter += alone
            self._count(node, 1)

    def _total(self) -> int:
        notice = self.lost and self.layered.notice
        told = self.sizes.item(NOTICE_KEY) if notice else 0
        if self.raising or self.by_texts:
            return self.fixed_texts - self.own_saved_texts + self.texts + self.stated_texts + self.items + told
        total = self.base - self.own_saved + self.history + self.items + self._fences() + self.stated + told
        head = bool(self.stating) or notice
        blocks = self.blocks + (1 if head and not self._summary_before_words() else 0)
        if blocks:
            first, later, label = self.sizes.frames()
            total += first + later * (blocks - 1) + (label if self.stating else 0)
        return total

    def _fences(self) -> int:
        return (self.area if self.cited else 0) + (self.conflict_frame if self.told else 0)

    def _summary_before_words(self) -> bool:
        """Tell whether a summary stands before the first user message, so that one block holds both."""
        node = self.end.after or self.end
        while node is not self.end:
            if node.key.startswith("summary/"):
                return True
            if node.speaks:
                return False
            node = node.after or self.end
        return False
