"""What the laws share: toy planners, windows laid out from exact sizes, and answers as bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from planner.encoding.encoder import Encoder
from planner.encoding.tracked import own
from planner.pipeline import Job, Stores, run
from planner.planner import Planner
from planner.steps.frame import Framer
from planner.steps.frame_blocks import state_block
from planner.steps.frame_fixed import FixedParts
from planner.steps.framing import Framing, carried_framing
from planner.steps.ladder import ladder, rung
from planner.steps.layer import layer
from planner.steps.measure import Measurer
from planner.steps.recall import recall
from planner.steps.seal import Sealing
from planner.steps.size_store import SizeStore
from planner.steps.sizes import Sizes
from planner.values.digest import chain_of, ids_bytes, request_digest
from planner.values.forms import with_forms
from planner.values.plan import Plan, Refusal
from planner.values.prompt import Counters
from planner.values.request import PlanRequest
from planner.values.rung import Cover, History, Horizon, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn
from planner.wire.dump import dump_plan_file, dump_receipt, dump_refusal
from tests.oracles.chat import chat
from tests.oracles.rungs import rungs
from tests.support.toy import ToyBundle, ToyEngine, toy_ids, toy_text

TOYS = (("plain", "char"), ("jitter", "pair"))


@cache
def toy(template: str = "plain", pieces: str = "char") -> Planner:
    """Return one planner per toy bundle; one token may cover unbounded text, so nothing is too large."""
    return Planner(ToyBundle(template, pieces, longest_token_bytes=None))


def own_turn_id(request: PlanRequest) -> str:
    """Return the id of the request's turn."""
    return request.request.turn_id or request.request.id or "request"


def ids_of_rung(planner: Planner, request: PlanRequest, turns: tuple[str, ...], cited: tuple[str, ...]) -> list[int]:
    """Return the ids of a rung by the toy's own rules, without the planner."""
    engine = planner.encoder().bundle.engine
    template = planner.bundle_id.split("-")[1]
    declared = [dict(tool.declaration) for tool in request.tools]
    loud = bool(request.template_options.get("loud"))
    return toy_ids(engine, toy_text(chat(request, turns, cited), declared, template, loud=loud))


def sizes(planner: Planner, request: PlanRequest) -> list[int]:
    """Return the exact size of every rung, fullest first."""
    return [len(ids_of_rung(planner, request, *rung)) for rung in rungs(request)]


def with_room(request: PlanRequest, room_tokens: int) -> PlanRequest:
    """Return the request with so much room for its prompt."""
    reserved, margin = request.reserved_output_tokens or 0, request.safety_margin_tokens or 0
    return replace(request, max_input_tokens=max(reserved + 1, room_tokens + reserved + margin))


def room_of(request: PlanRequest) -> int:
    """Return the room of a request whose three figures are all given."""
    assert request.max_input_tokens is not None
    return request.max_input_tokens - (request.reserved_output_tokens or 0) - (request.safety_margin_tokens or 0)


def between(low: int, high: int, share: float) -> int:
    """Return a size between two sizes."""
    return low + round((high - low) * share)


def answer_bytes(answer: Plan | Refusal) -> bytes:
    """Return everything of an answer that is not diagnostics; only text mode promises the prompt's text."""
    if isinstance(answer, Refusal):
        return dump_refusal(replace(answer, diagnostics={}))
    shown = (answer.prompt or "") if answer.receipt.mode == "text" else ""
    assert shown or answer.receipt.mode != "text", "text mode hands over the text"
    parts = (ids_bytes(answer.ids), dump_receipt(answer.receipt), dump_plan_file(answer.plan_file),
             shown.encode(), str(answer.max_output_tokens).encode())  # fmt: skip
    return b"\0".join(parts)


def said(answer: Plan) -> str:
    """Return the prompt of a toy plan as its ids say it: a plan in ids mode need not carry the text."""
    return ToyEngine("char").decode(answer.ids)


def kept(answer: Plan, kind: str) -> tuple[str, ...]:
    """Return the kept ids of one kind, in order."""
    pairs = (entry.partition("/") for entry in answer.kept)
    return tuple(name for found, _, name in pairs if found == kind)


def with_current(request: PlanRequest, summaries: tuple[SummaryRecord, ...]) -> History:
    """Return the history with these summaries taken as current, whatever a check of theirs would say."""
    ordered = tuple(sorted(summaries, key=lambda summary: summary.covers_to))
    return replace(recall(request), summaries=ordered)


def plan_with(encoder: Encoder, request: PlanRequest, summaries: tuple[SummaryRecord, ...]) -> Plan | Refusal:
    """Plan with summaries taken as current."""
    ordered = sorted(request.turns, key=lambda turn: turn.sequence)
    digest = request_digest(request, chain_of(ordered).value())
    sealing = Sealing(request, encoder.bundle.manifest, digest)
    return run(Job(request, with_current(request, summaries), encoder, sealing, Stores()))


@dataclass(frozen=True)
class Scanned:
    """One rung of a full scan: its exact size, why it cannot be carried, and what it keeps."""

    tokens: int
    reason: str | None
    turns: tuple[str, ...]
    passages: tuple[str, ...]


def everything(known: Sizes, request: PlanRequest) -> Horizon:
    """Return the reach of a plan that looks at every turn: the oracle of `horizon`, which stops early."""
    layered, measurer = known.measurer.layered, known.measurer
    if not layered.summaries:
        return Horizon()
    turns = layered.history.turns
    covers, runs, unused = [], {}, {}
    for summary in layered.summaries:
        run = [at for at, turn in enumerate(turns) if summary.covers_from <= turn.sequence <= summary.covers_to]
        low, high = (run[0], run[-1] + 1) if run else (0, 0)
        runs[summary.id] = (low, high)
        if not run or set(run) & set(layered.pinned):
            continue
        following = turns[high] if high < len(turns) else layered.open_turn
        block = sum(measurer.encoder.alone(text, measurer.counters) for text in [_block(summary)])
        if following.messages[0].role != "user":
            unused[f"summary/{summary.id}"] = "summary_slot_missing"
        elif block >= sum(_least_texts(known, turns[at]) for at in run):
            unused[f"summary/{summary.id}"] = "no_gain"
        else:
            stays = bool(set(run) & set(layered.held))
            covers.append(Cover(summary, low, high, stays, bool(set(run) & set(layered.history.withdrawing))))
    stated = request.options.sections.summary.max
    fixed = measurer.text_tokens(Selection(history=()))
    most = max(0, room_of(request) - fixed) // 3 if stated is None else stated
    return Horizon(covers=tuple(covers), runs=runs, unused=unused, summary_most=most)


def _least_texts(known: Sizes, turn: Turn) -> int:
    """Return the tokens of a turn's texts with every result in its shortest form."""
    shown = known.forms.chain(turn)
    shortest = {step.place: step.form for step in shown.steps}
    return known.measurer.entry_text_tokens(with_forms(turn, tuple(sorted(shortest.items()))))


def _block(summary: SummaryRecord) -> str:
    return "".join(piece if isinstance(piece, str) else piece.text for piece in state_block([summary]))


def every_rung(
    encoder: Encoder, request: PlanRequest, summaries: tuple[SummaryRecord, ...] | None = None
) -> list[Scanned]:
    """Measure every rung of the whole ladder, each on its own; nothing is estimated and nothing left out.

    summaries  taken as current; without them the request's own are verified.
    """
    layered = layer(request, recall(request) if summaries is None else with_current(request, summaries))
    names = frozenset({*request.options.concessions, *encoder.bundle.manifest.concessions})
    framing = Framing(encoder.bundle.profile, names, own)
    as_allowed, as_carried = (
        Framer(layered, one, dict(request.template_options), request.now, {}, FixedParts())
        for one in (framing, carried_framing(framing))
    )
    measurer = Measurer(encoder, layered, as_allowed, as_carried, Counters())  # no splicer: every rung whole
    known = Sizes(measurer, SizeStore())
    known.learn(layered.history.turns)
    steps = ladder(layered, request.options, known.item, reach=everything(known, request))
    found = []
    for made in range(len(steps.moves) + 1):
        selection = rung(steps, layered, layered.passages, made)
        measured = measurer.measure(selection)
        turns = [f"{'summary' if isinstance(entry, SummaryRecord) else 'turn'}/{entry.id}"
                 for entry in (*selection.history, layered.open_turn)]  # fmt: skip
        cited = tuple(f"passage/{entry.citation_id}" for entry in selection.passages)
        reason = measured.problem.reason if measured.problem is not None else None
        found.append(Scanned(measured.tokens, reason, tuple(turns), cited))
    return found
