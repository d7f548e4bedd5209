"""Requests with shorter forms, and their rungs on the toys by the toy's own rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from planner.encoding.encoder import Encoder
from planner.encoding.tracked import own as tracked
from planner.planner import Planner
from planner.steps.duplicates import Signatures, duplicates
from planner.steps.evidence import with_evidence
from planner.steps.forms import form_rules, form_texts, short_texts
from planner.steps.frame import Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.framing import Framing, carried_framing
from planner.steps.ladder import ladder, rung
from planner.steps.layer import layer
from planner.steps.measure import Measured, Measurer
from planner.steps.size_store import SizeStore
from planner.steps.sizes import Sizes
from planner.values.plan import Plan
from planner.values.prompt import Counters
from planner.values.receipt import FormUse
from planner.values.request import Options, PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from tests.laws.common import everything, ids_of_rung, with_current
from tests.oracles.forms import Forms, Key, Rung, form_rungs
from tests.strategies import PLAIN_TEXT, requests

LOG = "\n".join(["pump on", *["no answer, trying again"] * 6, "pump off", *["idle"] * 30])
JSON = '{"b": 1.50, "a": [ 1,  2, {"k": "x  y"} ],\n "b": -0}'
LONG = st.one_of(PLAIN_TEXT.map(lambda text: text * 4), st.sampled_from((LOG, JSON, LOG + LOG)))
SHRINKING = ("off", "json", "logs", "all")


@st.composite
def short_rows(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    """Draw forms of a text: pieces of it, one sometimes as long as the one before."""
    lengths = draw(st.lists(st.integers(1, max(1, len(text))), max_size=3))
    pieces = (text[:length] for length in sorted(lengths, reverse=True))
    return tuple(piece for piece in pieces if piece.strip())


@st.composite
def formed(draw: st.DrawFn, turn: Turn) -> Turn:
    """Draw longer results with forms for a turn."""
    return replace(turn, messages=tuple(draw(_formed_message(message)) for message in turn.messages))


@st.composite
def _formed_message(draw: st.DrawFn, message: Message) -> Message:
    if message.tool_result is None:
        return message
    text = draw(st.one_of(st.just(message.tool_result.text), LONG, LONG))
    reason = draw(st.sampled_from((None,) * 9 + ("pending-confirmation",)))
    result = replace(message.tool_result, text=text, short_forms=draw(short_rows(text)))
    return replace(message, tool_result=result, protection_reason=reason)


def form_options(draw: st.DrawFn) -> Options:
    """Draw whether stubs and shrinking are allowed."""
    return Options(
        stubs=draw(st.booleans()), shrink_results=draw(st.sampled_from(SHRINKING)),
        low_value_line=draw(st.sampled_from((None, None, 0.3))),
    )  # fmt: skip


@st.composite
def form_requests(draw: st.DrawFn, bundle_id: str, *args: Any) -> PlanRequest:
    """Draw a request whose results and passages have forms."""
    request = draw(requests(bundle_id, *args, options=form_options))
    turns = tuple(draw(formed(turn)) for turn in request.turns)
    passages = tuple(
        replace(passage, text=passage.text * 3, short_forms=draw(short_rows(passage.text)))
        for passage in request.passages
    )
    return replace(request, turns=turns, passages=passages)


def own_id(request: PlanRequest) -> str:
    """Return the id of the request's turn."""
    waiting = [turn.id for turn in request.turns if turn.state == "open"]
    return (request.request.id or "request") if request.request.text is not None else waiting[-1]


def rows_of(planner: Planner, request: PlanRequest) -> dict[Key, list[tuple[str, str]]]:
    """Return the forms that are steps: each shorter in tokens than the last, none of what is protected."""
    engine = planner.encoder().bundle.engine
    out: dict[Key, list[tuple[str, str]]] = {}

    def take(key: Key, text: str, forms: list[tuple[str, str]]) -> None:
        last = len(engine.encode(text).ids)
        for name, shorter in forms:
            tokens = len(engine.encode(shorter).ids)
            if tokens < last:
                out.setdefault(key, []).append((name, shorter))
                last = tokens

    rules = form_rules(request.options, None, None)
    for turn in sorted(request.turns, key=lambda turn: turn.sequence):
        if turn.id == own_id(request) or (turn.state == "completed" and not turn.pinned):
            for place, forms in form_texts(turn, rules).items():
                take((f"turn/{turn.id}", place), turn.messages[place].words(), forms)
    for passage in request.passages:
        take((f"passage/{passage.citation_id}", 0), passage.text, short_texts(passage.short_forms))
    return out


def rungs_of(planner: Planner, request: PlanRequest) -> list[Rung]:
    """Return every rung of a request on a toy."""
    return form_rungs(request, own_id(request), rows_of(planner, request))


def with_texts(request: PlanRequest, forms: Forms) -> PlanRequest:
    """Return the request as if its results and passages had only ever had these texts."""
    turns = tuple(replace(turn, messages=tuple(_texted(turn, place, forms) for place in range(len(turn.messages))))
                  for turn in request.turns)  # fmt: skip
    passages = tuple(
        replace(one, text=forms.get((f"passage/{one.citation_id}", 0), ("", one.text))[1]) for one in request.passages
    )
    return replace(request, turns=turns, passages=passages)


def _texted(turn: Turn, place: int, forms: Forms) -> Message:
    message, found = turn.messages[place], forms.get((f"turn/{turn.id}", place))
    if found is None or message.tool_result is None:
        return message
    return replace(message, tool_result=replace(message.tool_result, text=found[1]))


def ids_of(planner: Planner, request: PlanRequest, found: Rung) -> list[int]:
    """Return the ids of a rung by the toy's own rules."""
    turns, cited, forms = found
    return ids_of_rung(planner, with_texts(request, forms), turns, cited)


def named(uses: tuple[FormUse, ...]) -> set[tuple[str, int | None, str]]:
    """Return what a receipt says of forms: item, sequence of the message, form."""
    return {(use.id, use.sequence, use.form) for use in uses}


def expected_names(request: PlanRequest, found: Rung) -> set[tuple[str, int | None, str]]:
    """Return what the receipt of a rung must say of forms."""
    turns, cited, forms = found
    by_key = {f"turn/{turn.id}": turn for turn in request.turns}
    kept = {*(f"turn/{name}" for name in turns), *(f"passage/{name}" for name in cited), f"turn/{own_id(request)}"}
    return {
        (key, by_key[key].sequence_of(place) if key in by_key else None, name)
        for (key, place), (name, _) in forms.items()
        if key in kept
    }


def measured_rungs(encoder: Encoder, request: PlanRequest, summaries: tuple[SummaryRecord, ...] = ()) -> list[Measured]:
    """Measure every rung of the whole ladder, each on its own, nothing estimated; summaries are taken as current."""
    layered = layer(request, with_current(request, summaries))
    layered = with_evidence(layered, layered.passages)
    line = request.options.low_value_line
    layered = replace(layered, twins=duplicates(layered.passages, layered.pinned_passages, Signatures(), line))
    framing = Framing(encoder.bundle.profile, frozenset(encoder.bundle.manifest.concessions), tracked)
    framers = (Framer(layered, one, {}, request.now, {}, FixedParts()) for one in (framing, carried_framing(framing)))
    measurer = Measurer(encoder, layered, *framers, Counters())
    known = Sizes(measurer, SizeStore(), form_rules(request.options, None, None))
    known.learn(layered.history.turns)
    reach = replace(everything(known, request), forms=known.forms.steps(
        [turn for turn in layered.history.turns if turn.state == "completed" and not turn.pinned], layered.passages
    ))  # fmt: skip
    steps = ladder(layered, request.options, known.item, reach=reach)
    return [measurer.measure(rung(steps, layered, layered.passages, made)) for made in range(len(steps.moves) + 1)]


def form_names(answer: Plan) -> Mapping[str, list[str]]:
    """Return the names of the forms of each item."""
    out: dict[str, list[str]] = {}
    for use in answer.receipt.forms:
        out.setdefault(use.id, []).append(use.form)
    return out
