"""Sizes of single items, from small renders: what lets `fit` measure one rung instead of all (design.md §5).

A size is a difference of token indexes at run borders, so sizes add up exactly wherever a template writes a
turn the same way whatever stands beside it. They only choose which rungs are measured; what is planned is
always measured whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.encoding.encoder import Encoding
from planner.encoding.spliced import request_begins_with
from planner.steps.form_book import FormBook, selection_of
from planner.steps.forms import NO_RULES, FormRules, too_many_bytes
from planner.steps.frame import Framed
from planner.steps.frame_blocks import (
    CONFLICTS_CLOSE,
    CONFLICTS_OPEN,
    CONFLICTS_WORDING,
    CONSTRAINTS_LABEL,
    NOTICE,
    citation_area,
    conflict_lines,
    passage_line,
    plain_text,
    state_block,
    state_frame,
    state_lines,
)
from planner.steps.ladder import RungKey, rung_key
from planner.steps.measure import Measured, Measurer
from planner.steps.size_store import BEYOND, SizeStore, TurnSize
from planner.values.forms import Shown
from planner.values.passage import Passage
from planner.values.rung import Cover
from planner.values.turn import Turn

TOLERANCE_TOKENS = 8
_BORDER_TOKENS = 4
"""Tokens by which a text alone may have fewer than it is charged in a prompt, at both of its borders."""


class Sizes:
    """Sizes for one request; turns seen before are not rendered again."""

    def __init__(self, measurer: Measurer, store: SizeStore, rules: FormRules = NO_RULES) -> None:
        """Start with what the store knows."""
        self.measurer = measurer
        self.store = store
        self.forms = FormBook(measurer, rules, store.chains, store.facts)
        store.begin(rules.byte_limit)
        self.base: TurnSize | None = None
        self.rungs: dict[RungKey, Measured] = {}
        self._passages: dict[str, int] = {}
        self._cited: dict[str, Passage] = {}
        self._stated: dict[str, int] = {}
        self._frames: tuple[int, int, int] | None = None

    def learn(self, turns: Sequence[Turn], start: int | None = None) -> None:
        """Find the sizes of turns, and of everything that is not history, by one render if it goes.

        start  index of the first of them in the history where they stand there side by side.
        """
        measurer = self.measurer
        given = len(turns)
        turns = [turn for turn in turns if not self._known_to_raise(turn)]
        selection = selection_of(turns, self._firsts(turns))
        framed, encoding = measurer.tail(selection)
        if encoding.failure is None and not encoding.lost:
            self._record(turns, framed, encoding)
            if start is not None and len(turns) == given:
                measurer.learn_stretch(selection, encoding, start)
            layered = measurer.layered
            whole = len(turns) == len(layered.history.turns) and not layered.passages and not layered.conflicts
            if whole:
                self.rungs[rung_key(selection)] = Measured(encoding.tokens, selection, framed, encoding)
            return
        framed = measurer.carried.frame(selection)
        encoding = measurer.encoder.certified(framed.inputs, measurer.counters, kind="mini_renders")
        if encoding.failure is None:
            self._record(turns, framed, encoding)
        elif len(turns) > 1:
            middle = len(turns) // 2
            self.learn(turns[:middle])
            self.learn(turns[middle:])
        else:
            for turn in turns:
                self._count_texts(turn)
            if self.base is None and turns:
                self.learn([])
            elif self.base is None:
                self.base = TurnSize(None, self.fixed_texts())

    def _known_to_raise(self, turn: Turn) -> bool:
        """Take the texts alone where the profile says that no form of this turn renders."""
        measurer = self.measurer
        profile = measurer.encoder.bundle.profile
        raising = [shape for shape in ("tool_call", "tool_result") if getattr(profile, shape) == "raises"]
        if not raising or measurer.carried.turn(turn).shapes.isdisjoint(raising):
            return False
        self._count_texts(turn)
        return True

    def _count_texts(self, turn: Turn) -> None:
        tokens = self.measurer.entry_text_tokens(self.forms.begun(turn))
        facts = self.store.facts.of(turn)
        self.store.put(turn.id, TurnSize(None, tokens, facts.results, facts.bytes))

    def _firsts(self, turns: Sequence[Turn]) -> dict[str, Shown]:
        firsts = self.forms.firsts(turns)
        if firsts:
            self.store.begun_short.update(turn.id for turn in turns if f"turn/{turn.id}" in firsts)
        return firsts

    def _record(self, turns: Sequence[Turn], framed: Framed, encoding: Encoding) -> None:
        assembled = encoding.assembled
        if assembled is None:
            return
        omitted: dict[str, int] = {}
        allowed = self.measurer.framer.framing.applies("omit_text_beside_call")
        for leaf in () if allowed else framed.omitted:
            tokens = self.measurer.encoder.alone(leaf.text, self.measurer.counters)
            omitted[leaf.turn] = omitted.get(leaf.turn, 0) + tokens
        slices = self._slices(turns, encoding)
        held = sum(tokens for _, tokens in slices)
        by_id = {turn.id: turn for turn in turns}
        for turn_id, tokens in slices:
            turn = by_id[turn_id]
            facts = self.store.facts.of(turn)
            words = self._least_words(turn, assembled.charges) if self.measurer.encoder.may_raise else None
            size = tokens + omitted.get(turn_id, 0)
            self.store.put(turn_id, TurnSize(size, None, facts.results, facts.bytes, words))
        if self.base is None:
            own = self.measurer.layered.open_turn.id
            self.base = TurnSize(encoding.tokens - held + omitted.get(own, 0))

    def _least_words(self, turn: Turn, charges: Mapping[str, int]) -> int:
        """Return what the texts of a turn alone have at least: what it was charged, less a few tokens a border."""
        if any(message.reasoning for message in turn.messages):
            return self.measurer.entry_text_tokens(self.forms.begun(turn))  # it is charged and is none of the texts
        borders = sum(1 + len(message.tool_calls) for message in turn.messages)
        return max(0, charges.get(f"turn/{turn.id}", 0) - _BORDER_TOKENS * borders)

    def _slices(self, turns: Sequence[Turn], encoding: Encoding) -> list[tuple[str, int]]:
        assembled = encoding.assembled
        if assembled is None:
            return []
        starts = assembled.starts
        own = request_begins_with(assembled, [f"turn/{turn.id}" for turn in turns])
        stop = encoding.tokens if own is None else starts[own]
        # Some templates put tools or policy before the last user message: that is not the turn before it.
        fixed = [at for item, at in starts.items() if assembled.labels[item].section in ("policy", "tool")]
        out: list[tuple[str, int]] = []
        for turn in reversed(turns):
            start = starts.get(f"turn/{turn.id}", stop)
            end = min((at for at in fixed if start < at < stop), default=stop)
            out.append((turn.id, max(0, end - start)))
            stop = min(stop, start)
        return out

    def refresh(self, measured: Measured) -> None:
        """Take the sizes of a rung just measured; its first turn may hold more than its own (a folded policy)."""
        selection = measured.selection
        if measured.problem is not None or measured.encoding is None or selection.has_head:
            return
        if not all(isinstance(entry, Turn) for entry in selection.history):
            return  # a state block would be counted with the turn before it
        kept = [entry for entry in measured.selection.history if isinstance(entry, Turn)]
        known, short = self.store.turns, selection.forms
        for turn_id, tokens in self._slices(kept, measured.encoding):
            if turn_id != kept[0].id and f"turn/{turn_id}" not in short:
                before = known[turn_id]
                known[turn_id] = TurnSize(tokens, None, before.results, before.bytes, before.words)

    def rendered(self, turn: Turn) -> int:
        """Return a turn's size in whichever form is known."""
        return self.store.turns[turn.id].tokens

    def text(self, turn: Turn) -> int:
        """Return the size of a turn's texts alone."""
        size = self.store.turns[turn.id]
        if size.text is None:
            size = replace(size, text=self.measurer.entry_text_tokens(self.forms.begun(turn)))
            self.store.turns[turn.id] = size
        return size.text or 0

    def may_shorten(self, turns: Sequence[Turn]) -> bool:
        """Tell whether results of any of these turns may have shorter forms."""
        known, offering = self.store.turns, self.forms.offering
        return any(known[turn.id].results in offering for turn in turns)

    def least(self, turn: Turn) -> int:
        """Return a turn's size with every result in its shortest form."""
        size = self.store.turns[turn.id]
        if size.results not in self.forms.offering:
            return size.tokens
        chain = self.forms.chain(turn)
        return size.tokens - (chain.saved_alone if size.rendered is None else chain.saved)

    def floor(self, turn: Turn) -> int:
        """Return the least a turn counts in any rung, every result in its shortest form."""
        size = self.store.turns[turn.id]
        if size.results not in self.forms.offering:
            return size.floor
        if size.words is None:
            return self.least(turn)
        chain = self.forms.chain(turn)
        return max(0, size.floor - max(chain.saved, chain.saved_alone))

    def raises(self, turn: Turn) -> bool:
        """Tell whether the template fails on this turn even with every concession."""
        return self.store.turns[turn.id].rendered is None

    def item(self, key: str) -> int:
        """Return the size of a turn, a passage, or a line of a state block by `kind/id`."""
        kind, _, item_id = key.partition("/")
        if kind == "turn":
            size = self.store.turns.get(item_id)
            return BEYOND if size is None else size.tokens
        if kind == "passage":
            return self._passage(item_id)
        return self._line(key, kind, item_id)

    def _passage(self, citation_id: str) -> int:
        known = self._passages.get(citation_id)
        if known is None:
            measurer = self.measurer
            if not self._cited:
                self._cited = {passage.citation_id: passage for passage in measurer.layered.passages}
            passage = self.forms.begun_passage(self._cited[citation_id])
            known = self._passages[citation_id] = self.alone(passage_line(passage))
        return known

    def area(self) -> int:
        """Return the size of the citation area's own frame."""
        measurer = self.measurer
        if not measurer.layered.passages:
            return 0
        pieces = citation_area(measurer.layered.passages[:1])
        return self.alone(str(pieces[0]) + str(pieces[-1]))

    def conflict_frame(self) -> int:
        """Return the size of what stands around the lines of disputed facts."""
        return self.alone(f"{CONFLICTS_OPEN}\n{CONFLICTS_WORDING}\n{CONFLICTS_CLOSE}\n")

    def alone(self, text: str) -> int:
        """Return how many tokens a text has by itself."""
        return self.measurer.encoder.alone(text, self.measurer.counters)

    def _line(self, key: str, kind: str, item_id: str) -> int:
        """Return the size of one entry of a fenced block, without fence, label of the constraints and wording."""
        known = self._stated.get(key)
        if known is None:
            layered = self.measurer.layered
            if kind == "summary":
                pieces = state_lines([next(one for one in layered.summaries if one.id == item_id)])
            elif kind == "constraint":
                pieces = state_lines((), [next(one for one in layered.constraints if one.id == item_id)])[1:]
            elif kind == "conflict":
                pieces = conflict_lines(next(one for one in layered.conflicts if one.key == key))
            else:
                pieces = [f"{NOTICE}\n"]
            known = self._stated[key] = self.alone(plain_text(pieces))
        return known

    def frames(self) -> tuple[int, int, int]:
        """Return the sizes of the first state block's frame, of a later one's, and of the constraints' label."""
        if self._frames is None:
            first, later = ("".join(state_frame(first=first)) for first in (True, False))
            self._frames = (self.alone(first), self.alone(later), self.alone(f"{CONSTRAINTS_LABEL}\n"))
        return self._frames

    def fixed_texts(self) -> int:
        """Return the tokens of everything that is not history, each text alone: the same in every plan."""
        return self.measurer.text_tokens(selection_of((), self.forms.firsts(())))

    def saves(self, cover: Cover, byte_limit: int | None) -> bool:
        """Tell whether a summary's block has fewer tokens than the texts of its turns (X42).

        Texts are counted alone, so that the answer depends on nothing beside them; few turns are read.
        """
        block = self.alone(plain_text(state_block([cover.summary])))
        turns, held = self.measurer.layered.history.turns, 0
        for index in range(cover.high - 1, cover.low - 1, -1):
            turn = turns[index]
            begun = self.forms.begun(turn)
            if byte_limit is not None and too_many_bytes(begun, byte_limit):
                return True
            held += self.measurer.entry_text_tokens(begun)
            # Before the summary stands there, results are in their shortest form.
            if self.store.facts.of(turn).results in self.forms.offering:
                held -= self.forms.chain(turn).saved_alone
            if held > block:
                return True
        return False
