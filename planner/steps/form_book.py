"""What each shorter form saves, measured: by one render for each step of the forms, not by a guess (design.md §5).

Whether a form is a step at all depends on the tokens of its text alone, so that every plan of one bundle steps
alike; what a prompt saves is the difference of slices of small renders in which each message has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.steps.forms import (
    NO_RULES,
    FactsBook,
    FormRules,
    first_passage,
    first_shown,
    form_texts,
    left_after,
    may_fit,
    short_texts,
)
from planner.steps.frame_blocks import passage_line
from planner.steps.measure import Measurer
from planner.values.forms import Form, FormStep, FormSteps, Shown, with_forms
from planner.values.hidden import strip_hidden
from planner.values.passage import Passage
from planner.values.rung import Selection
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one turn's results: lossless ones first, each list oldest result first, one form a step."""

    first: Shown = ()
    lossless: tuple[FormStep, ...] = ()
    lossy: tuple[FormStep, ...] = ()
    saved: int = 0
    saved_alone: int = 0

    @property
    def steps(self) -> tuple[FormStep, ...]:
        """Every step in order."""
        return self.lossless + self.lossy


NO_CHAIN = Chain()
Rows = dict[int, list[Form]]
"""The forms of each result by its place, longest first, the one a plan begins with in front."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The steps of a turn, with what they were found from: they outlive a plan."""

    rules: FormRules
    turn: Turn = field(repr=False)
    rows: Rows = field(repr=False)
    chain: Chain = field(repr=False)


Known = dict[str, Learned]


@dataclass(slots=True)
class FormBook:
    """The forms of one request's turns and passages.

    `known` and `facts` outlive the plan; `pinned` holds ids of turns that stay as they are, found when first asked
    for. `offering` are the results (`results_in`) for which a turn may have forms at all.
    """

    measurer: Measurer
    rules: FormRules = NO_RULES
    known: Known = field(default_factory=dict)
    facts: FactsBook = field(default_factory=FactsBook)
    pinned: frozenset[str] | None = None
    offering: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        """Note which results have forms under these rules."""
        self.offering = frozenset((1, 2) if self.rules.any else (2,))

    def may_shorten(self, turn: Turn) -> bool:
        """Tell whether results of a turn may give way: those of the request's own turn, and of unpinned ones."""
        if turn.id == self.measurer.layered.open_turn.id:
            return True
        if self.pinned is None:
            layered = self.measurer.layered
            self.pinned = frozenset(layered.history.turns[index].id for index in layered.pinned)
        return turn.id not in self.pinned

    def first(self, turn: Turn) -> Shown:
        """Return the forms a turn begins with; mostly none."""
        facts, limit = self.facts.of(turn), self.rules.byte_limit
        if limit is None or facts.bytes <= limit or facts.results not in self.offering or not self.may_shorten(turn):
            return ()
        shown = first_shown(turn, self.rules, whole=turn.id != self.measurer.layered.open_turn.id)
        return tuple((place, form._replace(tokens=self._of_result(form.text))) for place, form in shown)

    def firsts(self, turns: Iterable[Turn]) -> dict[str, Shown]:
        """Return what turns begin with, the request's own too, by `turn/id`."""
        if self.rules.byte_limit is None:
            return {}
        every = ((turn, self.first(turn)) for turn in (*turns, self.measurer.layered.open_turn))
        return {f"turn/{turn.id}": shown for turn, shown in every if shown}

    def begun(self, turn: Turn) -> Turn:
        """Return a turn as the ladder begins with it."""
        return with_forms(turn, self.first(turn))

    def begun_passage(self, passage: Passage) -> Passage:
        """Return a passage as the ladder begins with it."""
        shown = first_passage(passage, self.rules)
        return passage if shown is None else replace(passage, text=shown.text)

    def chain(self, turn: Turn) -> Chain:
        """Return the steps of a turn."""
        if not self.may_shorten(turn):
            return NO_CHAIN
        if not self._is_known(turn):
            self._learn((turn,))
        return self.known[turn.id].chain

    def prepare(self, turns: Iterable[Turn]) -> None:
        """Find the steps of all of these turns that have some and are not known yet, together."""
        new = [turn for turn in turns if self.facts.of(turn).results in self.offering and self.may_shorten(turn)]
        self._learn([turn for turn in new if not self._is_known(turn)])

    def _is_known(self, turn: Turn) -> bool:
        known = self.known.get(turn.id)
        return known is not None and known.rules == self.rules and known.turn == turn

    def _learn(self, turns: Sequence[Turn]) -> None:
        """Find the steps of turns, by as many small renders as the longest row of forms has steps."""
        before = {turn.id: self._before(turn) for turn in turns}
        rows = {turn.id: self._rows(turn, before[turn.id][0]) for turn in turns}
        measured = self._measured([turn for turn in turns if rows[turn.id]], rows)
        for turn in turns:
            every = {**before[turn.id][1], **measured.get(turn.id, {})}
            chain = _chain(f"turn/{turn.id}", self.first(turn), every)
            self.known[turn.id] = Learned(self.rules, turn, every, chain)

    def _before(self, turn: Turn) -> tuple[int, Rows]:
        """Return how many messages of a turn that grew are known, and the rows of their results."""
        known = self.known.get(turn.id)
        if known is None or known.rules != self.rules or known.chain.first or self.first(turn):
            return 0, {}
        count = len(known.turn.messages)
        return (count, known.rows) if turn.messages[:count] == known.turn.messages else (0, {})

    def _rows(self, turn: Turn, since: int) -> Rows:
        """Return the forms of each result from a place on that are steps, the one it begins with in front."""
        first = dict(self.first(turn))
        out: Rows = {}
        for place, texts in form_texts(turn, self.rules, since).items():
            shown = first.get(place)
            text = turn.messages[place].words() if shown is None else shown.text
            if self.rules.beyond(text):
                continue  # it is never encoded, and none of its forms could fit
            row = self._row(shown or Form("", text), left_after(texts, shown), self._of_result)
            if len(row) > 1:
                out[place] = row
        return out

    def _row(self, shown: Form, texts: Iterable[tuple[str, str]], count: Callable[[str], int]) -> list[Form]:
        row, whole = [shown._replace(tokens=count(shown.text))], self._alone(shown.text)
        for name, text in texts:
            if not self.rules.beyond_plain(text):
                tokens = count(text)
                if 0 < tokens < row[-1].tokens:
                    row.append(Form(name, text, tokens, saved_alone=whole - self._alone(text)))
        return row

    def _of_result(self, text: str) -> int:
        """Return the tokens of a result's text alone, less the hidden characters that its channel strips."""
        strips = "tool_result" in self.measurer.framer.framing.strips
        return self._alone(strip_hidden(text) if strips else text)

    def _alone(self, text: str) -> int:
        return self.measurer.encoder.alone(text, self.measurer.counters)

    def _measured(self, turns: Sequence[Turn], rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return the rows with what each form saves as rendered; where the template raises, as counted alone."""
        sizes: dict[tuple[str, int], list[int]] = {}
        longest = max((len(row) for turn in turns for row in rows[turn.id].values()), default=0)
        begun = {turn.id: self.begun(turn) for turn in turns}
        for step in range(longest):
            shown = {turn.id: with_forms(begun[turn.id], _at(rows[turn.id], step)) for turn in turns}
            slices = self.measurer.slices([_around(turn, min(rows[name])) for name, turn in shown.items()])
            if slices is None:
                break
            for turn in turns:
                for place in rows[turn.id]:
                    sizes.setdefault((turn.id, place), []).append(slices.get((turn.id, place), 0))
        out: dict[str, Rows] = {}
        for turn in turns:
            for place, row in rows[turn.id].items():
                held = sizes.get((turn.id, place), [])
                saved = [held[0] - one for one in held] if len(held) >= len(row) else [one.saved_alone for one in row]
                out.setdefault(turn.id, {})[place] = [
                    form._replace(saved=tokens) for form, tokens in zip(row, saved, strict=False)
                ]
        return out

    def cited(self, passages: Iterable[Passage]) -> dict[str, tuple[FormStep, ...]]:
        """Return the steps of passages by `passage/id`; what one saves is the difference of its lines."""
        out: dict[str, tuple[FormStep, ...]] = {}
        for passage in passages:
            if not passage.short_forms or not may_fit(passage, self.rules):
                continue
            shown = first_passage(passage, self.rules)
            row = self._row(
                shown or Form("", passage.text), left_after(short_texts(passage.short_forms), shown), self._alone
            )
            lines = [self._alone(passage_line(replace(passage, text=form.text))) for form in row]
            key = f"passage/{passage.citation_id}"
            steps = tuple(
                FormStep(key, 0, form._replace(saved=lines[0] - line))
                for form, line in zip(row[1:], lines[1:], strict=True)
            )
            if steps:
                out[key] = steps
        return out

    def steps(self, old: Iterable[Turn], passages: Sequence[Passage]) -> FormSteps:
        """Return the steps of a ladder over these turns, oldest first, and these passages.

        Everything lossless of the old turns comes before anything else of them, and so in the open turn.
        """
        turns = list(old)
        own = self.measurer.layered.open_turn
        chains = [self.chain(turn) for turn in turns]
        of_own = self.chain(own) if self.facts.of(own).results in self.offering else NO_CHAIN
        first = self.firsts(turns)
        for passage in passages:
            shown = first_passage(passage, self.rules)
            if shown is not None:
                first[f"passage/{passage.citation_id}"] = ((0, shown._replace(tokens=self._alone(shown.text))),)
        lossless = [step for chain in chains for step in chain.lossless]
        lossy = [step for chain in chains for step in chain.lossy]
        return FormSteps((*lossless, *lossy), of_own.steps, self.cited(passages), first)


def _at(rows: Mapping[int, Sequence[Form]], step: int) -> Shown:
    """Return what stands at one step: each result at that form of its row, or at its last."""
    return tuple((place, row[min(step, len(row) - 1)]) for place, row in rows.items())


def _around(turn: Turn, place: int) -> Turn:
    """Return a turn's question and its messages from the call on whose result stands at a place, ids their places.

    What a template writes for a message depends on nothing farther away, so the rest need not be rendered.
    """
    messages = [replace(message, id=str(at)) for at, message in enumerate(turn.messages)]
    result = turn.messages[place].tool_result
    begin = place
    while begin > 0 and result is not None:
        begin -= 1
        if any(call.id == result.call_id for call in messages[begin].tool_calls):
            break
    asked = next((at for at, message in enumerate(messages) if message.role == "user" and message.accepted), 0)
    return replace(turn, messages=(*messages[: min(asked + 1, begin)], *messages[begin:]))


def _chain(key: str, first: Shown, rows: Rows) -> Chain:
    steps = [FormStep(key, place, form) for place, row in rows.items() for form in row[1:]]
    least = [row[-1] for row in rows.values()]
    return Chain(
        first,
        tuple(step for step in steps if step.form.lossless),
        tuple(step for step in steps if not step.form.lossless),
        sum(form.saved for form in least),
        sum(form.saved_alone for form in least),
    )


def selection_of(turns: Sequence[Turn], firsts: Mapping[str, Shown]) -> Selection:
    """Return a selection of whole turns as the ladder begins with them."""
    return Selection(history=tuple(turns), forms=firsts)
