"""Frame, encode and count one rung: the only place that counts tokens for a plan (design.md §2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.encoding.encoder import Encoder, Encoding
from planner.steps.explain import Problem, explain_loss, explain_raise
from planner.steps.frame import Framed, Framer
from planner.steps.frame_blocks import NOTICE
from planner.steps.frame_fixed import FixedParts
from planner.steps.frame_turn import FramedTurn
from planner.steps.framing import Framing, carried_framing
from planner.steps.splice import FrozenStore, Splicer, make_splicer
from planner.values.prompt import Counters
from planner.values.request import PlanRequest
from planner.values.rung import Layered, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

MAX_EXPLAINING_RENDERS = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """A rung's size; `problem` is set where the template cannot carry it and the size is the carried form."""

    tokens: int
    selection: Selection = field(repr=False)
    framed: Framed | None = field(default=None, repr=False)
    encoding: Encoding | None = field(default=None, repr=False)
    problem: Problem | None = None


class Measurer:
    """Measures rungs of one request; `splicer` is None where only the certified speed is allowed."""

    def __init__(
        self,
        encoder: Encoder,
        layered: Layered,
        framer: Framer,
        carried: Framer,
        counters: Counters,
        splicer: Splicer | None = None,
    ) -> None:
        """Take the framer of what is allowed and the one of everything conceded."""
        self.encoder = encoder
        self.layered = layered
        self.framer = framer
        self.carried = carried
        self.counters = counters
        self.splicer = splicer

    def measure(self, selection: Selection) -> Measured:
        """Return the exact size of a rung, carried form where it cannot be carried.

        Refuses control_token_forged, template_budget.
        """
        if self.splicer is not None:
            found = self._spliced(self.splicer, selection)
            if found is not None:
                return found
        return self.certified(selection)

    def certified(self, selection: Selection, *, kind: str = "renders") -> Measured:
        """Measure by one render of the whole rung."""
        framed = self.framer.frame(selection)
        encoding = self.encoder.certified(framed.inputs, self.counters, kind=kind)
        if encoding.failure is None and not encoding.lost:
            if self.splicer is not None and encoding.assembled is not None:
                self.splicer.learn(selection, encoding.assembled, self.framer)
            return Measured(encoding.tokens, selection, framed, encoding)
        tokens, conceded_raises = self._carried_tokens(selection)
        if encoding.failure is None:
            problem = explain_loss(encoding.lost, framed, self.encoder.bundle.profile)
        else:
            found = explain_raise(
                framed,
                self.encoder.bundle.profile,
                has_policy=self.framer.system is not None,
                conceded_raises=conceded_raises,
            )
            problem = found or self._unexplained(selection)
        return Measured(tokens, selection, framed, encoding, problem)

    def tail(self, selection: Selection) -> tuple[Framed, Encoding]:
        """Render the fixed parts with the selection's turns; remembered for the last selection asked for."""
        framed = self.framer.frame(selection)
        encoding = self.encoder.certified(framed.inputs, self.counters, kind="mini_renders")
        if self.splicer is not None:
            self.splicer.tail = (selection, framed, encoding)
        return framed, encoding

    def learn_stretch(self, selection: Selection, encoding: Encoding, start: int) -> None:
        """Keep the ids of turns side by side in the history, from index `start` on, that were rendered for their sizes.

        What the history goes on with is not in that render, so its last turns are not kept.
        """
        splicer = self.splicer
        if splicer is None or encoding.assembled is None or encoding.ambiguous:
            return
        whole = start + len(selection.history) == len(self.layered.history.turns)
        splicer.learn(selection, encoding.assembled, self.framer, unsettled=0 if whole else splicer.depth)

    def slices(self, turns: Sequence[Turn]) -> dict[tuple[str, int], int] | None:
        """Return the tokens of each message, by turn id and the message's id as a number, None where it raises.

        turns  as they are to be shown, each message with a number as its id; the request's own may be among them.
        A slice goes from the run that begins with a message to that of the next one.
        """
        own = self.layered.open_turn
        given = {turn.id: turn for turn in turns}
        asked = next(message for message in own.messages if message.role == "user" and message.accepted)
        opened = given.pop(own.id, None) or replace(own, messages=(replace(asked, id="0"),))
        layered = replace(self.layered, history=replace(self.layered.history, open_turn=opened))
        framed = self.carried.measuring(layered).frame(Selection(tuple(given.values())))
        encoding = self.encoder.certified(framed.inputs, self.counters, kind="mini_renders")
        if encoding.assembled is None:
            return None
        starts = [(at, item) for item, at in encoding.assembled.starts.items() if item.startswith("turn/")]
        starts.sort()
        ends = [at for at, _ in starts[1:]] + [encoding.tokens]
        out: dict[tuple[str, int], int] = {}
        for (at, item), end in zip(starts, ends, strict=True):
            turn_id, _, place = item.removeprefix("turn/").rpartition("#")
            out[turn_id, int(place)] = end - at
        return out

    def _spliced(self, splicer: Splicer, selection: Selection) -> Measured | None:
        end = splicer.tail_of(selection, self.layered, self.framer)
        if end is None:
            return None
        known = splicer.tail
        framed, encoding = known[1:] if known is not None and known[0] == end else self.tail(end)
        assembled = encoding.assembled
        if assembled is None or encoding.lost or encoding.ambiguous:
            return None
        joined = splicer.join(selection, end, assembled)
        if joined is None:
            return None
        self.counters.speed = "spliced"
        whole = self.framer.describe(selection, framed)
        return Measured(len(joined.ids), selection, whole, Encoding(None, joined, (), encoding.detail_lost, ()))

    def first_message_only(self) -> Measurer:
        """Return a measurer of the same request whose open turn is its first user message alone."""
        own = self.layered.open_turn
        first = next(message for message in own.messages if message.role == "user" and message.accepted)
        history = replace(self.layered.history, open_turn=replace(own, messages=(first,)))
        layered = replace(self.layered, history=history)
        return Measurer(
            self.encoder, layered, self.framer.with_layered(layered), self.carried.with_layered(layered),
            self.counters,
        )  # fmt: skip

    def _carried_tokens(self, selection: Selection) -> tuple[int, bool]:
        """Return the size of the carried form, and whether even that raises."""
        framed = self.carried.frame(selection)
        encoding = self.encoder.certified(framed.inputs, self.counters, kind="probe_renders")
        if encoding.failure is not None:
            return self.text_tokens(selection), True
        left_out = sum(self.encoder.alone(leaf.text, self.counters) for leaf in framed.omitted)
        return encoding.tokens + left_out, False

    def text_tokens(self, selection: Selection) -> int:
        """Sum the parts encoded alone: the size of what does not render at all (design.md §2)."""
        layered = self.layered
        total = self._alone([item.text for item in (*layered.policy, *layered.data_scope)])
        if layered.output_schema is not None:
            total += self._alone([json.dumps(layered.output_schema.schema, ensure_ascii=False)])
        total += self._alone([json.dumps(tool.declaration, ensure_ascii=False) for tool in layered.tools])
        total += self._alone([passage.text for passage in selection.passages])
        total += self._alone([text for one in selection.conflicts for text in (one.fact_value, one.other_value or "")])
        total += self._alone([entry.text or "" for entry in selection.constraints])
        total += self._alone([NOTICE] if selection.notice else [])
        for entry in (*selection.history, layered.open_turn):
            total += self.entry_text_tokens(entry if isinstance(entry, SummaryRecord) else selection.shown(entry))
        return total

    def entry_text_tokens(self, entry: Turn | SummaryRecord) -> int:
        """Sum one turn's or summary's texts and calls, each encoded alone."""
        if isinstance(entry, SummaryRecord):
            return self._alone([entry.summary_text])
        return self._alone(turn_texts(entry))

    def _alone(self, texts: Sequence[str]) -> int:
        return sum(self.encoder.alone(text, self.counters) for text in texts)

    def _unexplained(self, selection: Selection) -> Problem:
        """Find the oldest turn without which the rung renders, within a few tries."""
        for index, entry in enumerate(selection.history[:MAX_EXPLAINING_RENDERS]):
            rest = (*selection.history[:index], *selection.history[index + 1 :])
            framed = self.framer.frame(replace(selection, history=rest))
            if self.encoder.certified(framed.inputs, self.counters, kind="probe_renders").failure is None:
                return Problem("template_refuses_shape", f"turn {entry.id}")
        return Problem("template_refuses_shape", "the list as a whole")


def turn_texts(turn: Turn) -> list[str]:
    """List a turn's message texts and its calls as JSON, in order."""
    out: list[str] = []
    for message in turn.messages:
        if not message.accepted:
            continue
        out.append(message.words())
        out += [
            json.dumps({"name": call.name, "arguments": _object(call.arguments)}, ensure_ascii=False)
            for call in message.tool_calls
        ]
    return [text for text in out if text]


def _object(arguments: Any) -> Any:
    # One size for both storage forms of the same call (D06).
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


@dataclass(slots=True)
class FrameStore:
    """Framed turns by id, and the framed fixed parts, of one framing."""

    turns: dict[str, FramedTurn] = field(default_factory=dict)
    fixed: FixedParts = field(default_factory=FixedParts)


def make_measurer(
    encoder: Encoder,
    layered: Layered,
    framing: Framing,
    request: PlanRequest,
    counters: Counters,
    stores: tuple[FrameStore, FrameStore, FrozenStore | None],
) -> Measurer:
    """Build the measurer of one request over stores that may outlive it: as allowed, all conceded, frozen."""
    options, now = dict(request.template_options), request.now
    allowed, carried, frozen = stores
    framer = Framer(layered, framing, options, now, allowed.turns, allowed.fixed)
    return Measurer(
        encoder,
        layered,
        framer,
        Framer(layered, carried_framing(framing), options, now, carried.turns, carried.fixed),
        counters,
        make_splicer(encoder, framer, request, frozen),
    )
