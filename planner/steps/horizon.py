"""How far back a plan must look: newest first until sizes exceed the room, a covered run as its summary (design.md §5).

Whatever lies beyond is in no rung that fits, so the answer equals that of a look at every turn (a law with a test).
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.steps.covers import borders_of, covers_of, runs_of, summary_most
from planner.steps.forms import too_many_bytes, weight_of
from planner.steps.sizes import TOLERANCE_TOKENS, Sizes
from planner.values.forms import FormSteps
from planner.values.reasons import RefusalSignal
from planner.values.request import Options
from planner.values.rung import Cover, Horizon, Layered
from planner.values.turn import Turn

_BYTES_A_TOKEN = 5
_SMALLEST_BATCH = 4_096
_MARGIN = 1.03


def horizon(sizes: Sizes, options: Options, room: int, byte_limit: int | None) -> Horizon:
    """Return how far back a plan within `room` tokens looks; sizes of all it looks at are known afterwards.

    Refuses input_too_large where a turn that may not leave has more bytes than could ever fit.
    """
    layered = sizes.measurer.layered
    walk = _Walk(sizes, layered, room, byte_limit)
    if not layered.summaries:
        index, gone_through = walk.turns_back()
        walk.learn_staying(index, ())
        return Horizon(index, gone_through, index, forms=walk.forms(index))
    return walk.over_runs(options)


class _Walk:
    def __init__(self, sizes: Sizes, layered: Layered, room: int, byte_limit: int | None) -> None:
        self.sizes = sizes
        self.layered = layered
        self.turns = layered.history.turns
        self.room = room
        self.limit = room + TOLERANCE_TOKENS
        self.byte_limit = byte_limit
        self.staying = frozenset(layered.pinned).union(layered.held)
        splicer = sizes.measurer.splicer
        self.depth = 0 if splicer is None else splicer.depth
        self.weight = self.tokens = 0
        self.play: dict[str, Cover] = {}
        self.unused: dict[str, str] = {}

    def huge(self, turn: Turn) -> bool:
        limit, forms = self.byte_limit, self.sizes.forms
        return limit is not None and forms.facts.of(turn).bytes > limit and too_many_bytes(forms.begun(turn), limit)

    def forms(self, start: int, covers: Sequence[Cover] = (), raw_from: int = 0) -> FormSteps:
        """Return the steps to shorter forms of all turns that may be raw in a rung that fits, and of passages.

        A run that begins before `raw_from` is in none.
        """
        turns, forms, store = self.turns, self.sizes.forms, self.sizes.store
        if store.results.isdisjoint(forms.offering):
            return forms.steps((), self.layered.passages)
        places = (*self.layered.older_staying(start), *range(start, len(turns)))
        never = [cover for cover in covers if cover.low < raw_from]
        if never:
            places = tuple(at for at in places if not any(cover.low <= at < cover.high for cover in never))
        looked = map(turns.__getitem__, places)
        shorter = [turn for turn in looked if store.turns[turn.id].results in forms.offering]
        return forms.steps(shorter, self.layered.passages)

    def turns_back(self, *, covered: bool = False) -> tuple[int, int]:
        """Go back turn by turn; return where the sum exceeded the room and where too large ones end.

        covered  a too large turn may be one that a summary stands for, so that it only ends this walk.
        """
        turns, known = self.turns, self.sizes.store.turns
        index, total, gone_through = len(turns), 0, 0
        always = len(turns) - self.depth
        while index > 0 and total <= self.limit:
            if index <= always:
                index, total = self._over_known(index, total)
                if index == 0 or total > self.limit:
                    break
            weights: list[int] = []
            weight = 0
            end, allowance = index, self._allowance(total)
            while index > 0 and weight < allowance:
                turn = turns[index - 1]
                if index <= always and turn.id in known:
                    break
                if self.huge(turn):
                    if not covered and index - 1 in self.staying:
                        raise RefusalSignal("input_too_large", f"turn {turn.id}")
                    gone_through = index
                    break
                weights.append(weight_of(turn))
                weight += weights[-1]
                index -= 1
                if not self.tokens and weight >= _SMALLEST_BATCH and index * weight > 2 * allowance * len(weights):
                    break  # not nearly all fits: the bytes of a token are learned before more is read
            if index > 0 and weight >= allowance:
                index, weight = self._sample(end, weights)
            if weights:
                total += self._learn_between(index, end, weight)
            if gone_through:
                # How far was read depends on what is remembered: beyond the limit nothing is said of a turn.
                within = total <= self.limit and self._narrowed(gone_through) == gone_through
                return (gone_through, gone_through) if within else (self._narrowed(index), 0)
        return self._narrowed(index), gone_through

    def _narrowed(self, index: int) -> int:
        """Return where sizes exceed the room, at `index` or later, of a template that may raise.

        Turns from `index` on were summed by the least they count in any rung; where none of them raises, none counts
        by its texts.
        """
        if not self.sizes.measurer.encoder.may_raise:
            return index
        turns, sizes, limit = self.turns, self.sizes, self.limit
        known, offering = sizes.store.turns, sizes.forms.offering
        total, found = 0, index
        for place in range(len(turns) - 1, index - 1, -1):
            size = known[turns[place].id]
            if size.rendered is None:
                return index
            if total <= limit:
                total += size.tokens if size.results not in offering else sizes.least(turns[place])
                found = place
        return found

    def _over_known(self, index: int, total: int) -> tuple[int, int]:
        """Go on over turns whose sizes are known, until one is not or their sum exceeds the limit."""
        turns, sizes, limit = self.turns, self.sizes, self.limit
        known, offering = sizes.store.turns, sizes.forms.offering
        for place in range(index - 1, -1, -1):
            turn = turns[place]
            size = known.get(turn.id)
            if size is None:
                return place + 1, total
            total += size.floor if size.results not in offering else sizes.floor(turn)
            if total > limit:
                return place, total
        return 0, total

    def _allowance(self, total: int) -> float:
        """Return how many bytes of turns to render next, so that the sizes known then exceed the room."""
        if not self.tokens:
            return max(_BYTES_A_TOKEN * (self.room - total), _SMALLEST_BATCH)
        return max(_MARGIN * self.weight / self.tokens * (self.limit - total), _SMALLEST_BATCH / 4)

    def _sample(self, end: int, weights: Sequence[int]) -> tuple[int, int]:
        """Return where to begin and the weight from there, of turns before `end` of which not all may fit.

        As long as nothing tells how many bytes a token has, a few turns are rendered alone to learn it.
        """
        whole = sum(weights)
        count = held = 0
        while not self.tokens and held < _SMALLEST_BATCH and 2 * held < whole:
            held += weights[count]
            count += 1
        return (end - count, held) if 0 < 2 * held < whole else (end - len(weights), whole)

    def _learn_between(self, index: int, end: int, weight: int) -> int:
        """Find the sizes of turns `index..end - 1`; what follows them is rendered with them.

        Returns the least they count in any rung, with every result in its shortest form.
        """
        batch, behind = self.turns[index:end], self.turns[end : end + self.depth]
        known = self.sizes.store.turns
        kept = {turn.id: known[turn.id] for turn in behind}
        self.sizes.learn([*batch, *behind], index)
        known.update(kept)  # not all that follows these was rendered
        tokens = sum(map(self.sizes.rendered, batch))
        if weight >= _SMALLEST_BATCH:
            self.weight, self.tokens = self.weight + weight, self.tokens + tokens
        if self.sizes.may_shorten(batch):
            self.sizes.forms.prepare(batch)
        return sum(map(self.sizes.floor, batch))

    def over_runs(self, options: Options) -> Horizon:
        """Go back over turns and runs, a run that its summary may stand for counted as the summary."""
        raw_from, _ = self.turns_back(covered=True)
        sizes, layered = self.sizes, self.layered
        runs = runs_of(layered)
        has_slot = sizes.measurer.encoder.bundle.profile.user_slot
        covers = covers_of(layered, runs) if has_slot else []
        most = summary_most(options, sizes, self.room)
        self.play = {cover.summary.id: cover for cover in covers if cover.stays and self.usable(cover)}
        borders = [one for one in borders_of(layered, runs) if has_slot and self.has_place(one)]
        self._require_borders(borders)
        stated = sum(sizes.item(f"summary/{name}") for name in self.play)
        stated += sum(sizes.item(f"summary/{one.summary.id}") for one in borders if one.stays)
        start, gone_through = self._lean(covers, most - stated)
        if start or gone_through:  # older than what already is too much
            self.unused |= {f"summary/{one.summary.id}": "over_budget" for one in borders if not one.stays}
            borders = [one for one in borders if one.stays]
        in_play = sorted((cover for cover in self.play.values() if cover.low >= gone_through), key=_low)
        self.learn_staying(start, in_play)
        return Horizon(
            start, gone_through, raw_from, tuple(in_play), runs, self.unused, most, has_slot,
            self.forms(max(start, gone_through), in_play, raw_from), tuple(borders),
        )  # fmt: skip

    def _require_borders(self, borders: Sequence[Cover]) -> None:
        """Refuse where a summary of purged turns that may not leave has no place: nothing else says what it says."""
        lost = self.layered.staying_summaries.difference(one.summary.id for one in borders)
        lost = lost.intersection(one.summary.id for one in borders_of(self.layered, runs_of(self.layered)))
        if lost:
            raise RefusalSignal("unrecoverable_history", f"no place for summary {min(lost)} of purged turns")

    def has_place(self, cover: Cover) -> bool:
        """Tell whether what follows a run can carry the state block (design.md §6); if not that is noted."""
        turns = self.turns
        following = turns[cover.high] if cover.high < len(turns) else self.layered.open_turn
        if following.messages[0].role == "user":
            return True
        self.unused[f"summary/{cover.summary.id}"] = "summary_slot_missing"
        return False

    def usable(self, cover: Cover) -> bool:
        """Tell whether a summary may stand for its run; what speaks against it is noted."""
        key = f"summary/{cover.summary.id}"
        if key in self.unused:
            return False
        if self.has_place(cover) and not self.sizes.saves(cover, self.byte_limit):
            self.unused[key] = "no_gain"
        return key not in self.unused

    def _lean(self, covers: Sequence[Cover], room_left: int) -> tuple[int, int]:
        """Return where the least sizes exceed the room, and where too large turns end; collect covers in play."""
        ends = {cover.high: cover for cover in covers}
        index, total, summed = len(self.turns), 0, 0
        batch: list[Turn] = []
        weight = 0
        while index > 0 and total <= self.limit:
            cover = ends.get(index)
            if cover is not None and (cover.summary.id in self.play or self.usable(cover)):
                index = cover.low
                if cover.stays:
                    continue
                size = self.sizes.item(f"summary/{cover.summary.id}")
                self.play[cover.summary.id] = cover
                summed += 0 if cover.exempt else size
                # Beyond the maximum it leaves before any turn, so that nothing is said of what stands with it.
                total += size if cover.exempt or summed <= room_left else 0
                continue
            turn = self.turns[index - 1]
            if turn.id in self.sizes.store.turns:
                total += self.sizes.floor(turn)
            elif self.huge(turn):
                if index - 1 in self.staying:
                    raise RefusalSignal("input_too_large", f"turn {turn.id}")
                self._learn(batch)
                total += sum(map(self.sizes.floor, batch))
                return (index, index) if total <= self.limit else (index, 0)
            else:
                batch.append(turn)
                weight += weight_of(turn)
            index -= 1
            if batch and (weight >= max(_BYTES_A_TOKEN * (self.room - total), _SMALLEST_BATCH) or index == 0):
                self._learn(batch)
                total += sum(map(self.sizes.floor, batch))
                batch, weight = [], 0
        self._learn(batch)
        return index, 0

    def _learn(self, batch: Sequence[Turn]) -> None:
        if batch:
            self.sizes.learn(batch[::-1])
            self.sizes.forms.prepare(batch)

    def learn_staying(self, index: int, covers: Sequence[Cover]) -> None:
        """Find the sizes of older turns that stay, and of everything that is not history."""
        batch: list[Turn] = []
        weight = 0
        for place in self.layered.older_staying(index):
            if any(cover.low <= place < cover.high for cover in covers):
                continue  # until its summary stands for it, nothing older fits either
            turn = self.turns[place]
            if turn.id in self.sizes.store.turns:
                continue
            if self.huge(turn):
                raise RefusalSignal("input_too_large", f"turn {turn.id}")
            batch.append(turn)
            weight += weight_of(turn)
            if weight >= _BYTES_A_TOKEN * _SMALLEST_BATCH:
                self.sizes.learn(batch)
                batch, weight = [], 0
        if batch or self.sizes.base is None:
            self.sizes.learn(batch)


def _low(cover: Cover) -> int:
    return cover.low
