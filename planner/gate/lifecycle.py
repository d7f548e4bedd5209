"""Lifecycle samples: what the platform does to an app, played on a ledger of its own (R181, R208, X11, X12).

A script writes the sample's turns into a fresh ledger, lets things happen and plans from it. Killing is dropping
every handle without closing; what a plan must still hold is then judged like any other answer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from planner.encoding.encoder import Encoder
from planner.gate.lifecycle_summaries import OUTCOMES, Asked, ask, stale_records, store
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active
from planner.prepare import LedgerConversation
from planner.values.bundle import Bundle
from planner.values.digest import canonical
from planner.values.field_rules import invalid
from planner.values.gate import Event, Expectation, Reason, Sample
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from planner.wire.parse import parse_record

CONVERSATION = "c1"


class Stage(Protocol):
    """The bundle a script begins with."""

    @property
    def bundle(self) -> Bundle:
        """Its files."""

    @property
    def others(self) -> Mapping[str, Bundle]:
        """Bundles a script may switch to, by id."""


@dataclass(frozen=True, slots=True)
class Played:
    """One plan of a script: what was asked as a whole, the answer, what is demanded of it, and the bundle then.

    stale  stored summaries that the ledger held for no longer current; those in force are the request's.
    """

    request: PlanRequest
    answer: Plan | Refusal
    expect: Expectation
    bundle: Bundle
    stale: tuple[SummaryRecord, ...] = ()


@dataclass(slots=True)
class _Scene:
    path: str
    request: PlanRequest
    bundle: Bundle
    others: Mapping[str, Bundle]
    ledger: Ledger
    expect: Expectation
    generation: int = 1
    records: Mapping[str, SummaryRecord] = field(default_factory=dict)
    summaries: dict[str, Asked] = field(default_factory=dict)
    played: list[Played] = field(default_factory=list)
    broken: list[Reason] = field(default_factory=list)


def play(sample: Sample, request: PlanRequest, stage: Stage) -> tuple[list[Played], list[Reason]]:
    """Play a sample's script; returns every plan of it, and the steps that ended otherwise than they must.

    Event kinds: `kill`, `rotate`, `background`, `restore`, `switch_bundle` {to}, `branch` {at}, `resend` {turn},
    `edit` {message, text}, `withdraw` {turn}, `cancel` {turn}, `plan` {..Expectation}, `late_answer` {generation}: an
    answer of another generation comes back and must be refused. `summary` {id, saved} stores a summary of the request,
    verified as the ledger is then or was at its `ask_summary` {id}; `saved` is how that must end, `accepted` if unsaid.
    """
    with tempfile.TemporaryDirectory(prefix="planner-gate-") as folder:
        path = f"{folder}/chat.db"
        ledger = Ledger.open(path)
        _write(ledger, request.turns)
        asked = replace(request, turns=(), summaries=(), conversation_id=None)
        scene = _Scene(path, asked, stage.bundle, stage.others, ledger, sample.expect)
        scene.records = {record.id: _of_the_ledger(record, request) for record in request.summaries}
        scene.generation = ledger.head(CONVERSATION).generation
        try:
            for step, event in enumerate(sample.events):
                _step(scene, event, f"event {step} {event.kind}")
        finally:
            scene.ledger.close()
    return scene.played, scene.broken


def _write(ledger: Ledger, turns: tuple[Turn, ...]) -> None:
    """Write a sample's turns, each where the sample has it: a summary names its turns by their sequences."""
    last = -1
    for turn in sorted(turns, key=lambda turn: turn.sequence):
        messages = turn.messages
        if messages and messages[0].sequence is None and turn.sequence > last:
            messages = (replace(messages[0], sequence=turn.sequence), *messages[1:])
        done = ledger.append(
            CONVERSATION, turn.id, messages, state=turn.state, must_preserve=turn.must_preserve,
            supersedes=turn.supersedes, open_items=turn.open_items, material=turn.material,
            sequence=turn.sequence if not messages and turn.sequence > last else None,
        )  # fmt: skip
        last = max(last + 1, turn.sequence, *done.sequences)


def _step(scene: _Scene, event: Event, name: str) -> None:
    try:
        _ACTIONS[event.kind](scene, event, name)
    except (PlannerFault, RefusalSignal, KeyError):
        scene.broken.append(Reason("lifecycle_broken", name))


def _plan(scene: _Scene, event: Event, name: str) -> None:
    expect = demanded(scene.expect, event.fields)
    chat = LedgerConversation(scene.ledger, CONVERSATION, _encoder(scene.bundle))
    asked = replace(scene.request, model_bundle_id=scene.bundle.manifest.id)
    answer = chat.plan(asked)
    view = scene.ledger.view(CONVERSATION, active=Active(asked.policy_version))
    whole = replace(
        asked, turns=tuple(scene.ledger.turns(CONVERSATION)), summaries=view.summaries, generation=view.generation,
        revision=view.revision, conversation_id=CONVERSATION,
    )  # fmt: skip
    stale = stale_records(scene.ledger, view, asked.policy_version)
    scene.played.append(Played(whole, answer, expect, scene.bundle, stale))
    if answer.receipt.generation != scene.generation:
        scene.broken.append(Reason("lifecycle_broken", name))


def _encoder(bundle: Bundle) -> Encoder:
    encoder = Encoder(bundle)
    encoder.splicing = False  # the text of the prompt is compared with its ids
    return encoder


def _reopen(scene: _Scene, event: Event, name: str) -> None:
    """Open the same file again; the generation must be the one from before (X12)."""
    if event.kind != "kill":
        scene.ledger.close()
    scene.ledger = Ledger.open(scene.path)
    if scene.ledger.head(CONVERSATION).generation != scene.generation:
        scene.broken.append(Reason("lifecycle_broken", name))


def _switch_bundle(scene: _Scene, event: Event, _: str) -> None:
    scene.bundle = scene.others[event.fields["to"]]


def _branch(scene: _Scene, event: Event, name: str) -> None:
    scene.ledger.branch(CONVERSATION, f"b{len(scene.played)}", at_turn_id=event.fields["at"])
    _moved(scene, scene.ledger.switch(CONVERSATION, f"b{len(scene.played)}"), name)


def _resend(scene: _Scene, event: Event, name: str) -> None:
    _moved(scene, scene.ledger.resend(CONVERSATION, event.fields["turn"]), name)


def _moved(scene: _Scene, generation: int, name: str) -> None:
    """A page switch, a branch and a resend begin a new generation (R54)."""
    if generation <= scene.generation:
        scene.broken.append(Reason("lifecycle_broken", name))
    scene.generation = generation


def _edit(scene: _Scene, event: Event, _: str) -> None:
    name = event.fields["message"]
    found = {m.id: m for turn in scene.ledger.turns(CONVERSATION) for m in turn.messages}[name]
    scene.ledger.edit(CONVERSATION, name, replace(found, text=event.fields["text"]))


def _withdraw(scene: _Scene, event: Event, _: str) -> None:
    scene.ledger.withdraw(CONVERSATION, event.fields["turn"])


def _cancel(scene: _Scene, event: Event, _: str) -> None:
    scene.ledger.cancel(CONVERSATION, event.fields["turn"])


def _ask_summary(scene: _Scene, event: Event, _: str) -> None:
    record = scene.records[event.fields["id"]]
    scene.summaries[record.id] = ask(scene.ledger, CONVERSATION, record)


def _summary(scene: _Scene, event: Event, name: str) -> None:
    """A summary that was verified before what happened since may come too late (R116)."""
    if event.fields["id"] not in scene.summaries:
        _ask_summary(scene, event, name)
    if store(scene.ledger, scene.summaries.pop(event.fields["id"])) != event.fields.get("saved", OUTCOMES[0]):
        scene.broken.append(Reason("lifecycle_broken", name))


def _of_the_ledger(record: SummaryRecord, request: PlanRequest) -> SummaryRecord:
    """Return a record of the sample's conversation as one of the ledger's; one of another stays that."""
    of_this = record.conversation_id == (request.conversation_id or CONVERSATION)
    return replace(record, conversation_id=CONVERSATION) if of_this else record


def _late_answer(scene: _Scene, event: Event, name: str) -> None:
    """What was begun under an older generation may not be written any more (R53)."""
    late = Message("assistant", "late", "Too late.")
    try:
        scene.ledger.append(CONVERSATION, "late", (late,), generation=event.fields["generation"])
    except PlannerFault as fault:
        if fault.code == "stale_generation":
            return
    scene.broken.append(Reason("lifecycle_broken", name))


_ACTIONS: Mapping[str, Callable[[_Scene, Event, str], None]] = {
    "plan": _plan,
    "kill": _reopen,
    "rotate": _reopen,
    "background": _reopen,
    "restore": _reopen,
    "switch_bundle": _switch_bundle,
    "branch": _branch,
    "resend": _resend,
    "edit": _edit,
    "withdraw": _withdraw,
    "cancel": _cancel,
    "late_answer": _late_answer,
    "ask_summary": _ask_summary,
    "summary": _summary,
}
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "switch_bundle": {"to": str},
    "branch": {"at": str},
    "resend": {"turn": str},
    "edit": {"message": str, "text": str},
    "withdraw": {"turn": str},
    "cancel": {"turn": str},
    "late_answer": {"generation": int},
    "ask_summary": {"id": str},
    "summary": {"id": str},
}
_CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = {"summary": {"saved": OUTCOMES}}
"""Fields that a step may leave out, and what they may say."""


_DEMANDS = frozenset(Expectation.__dataclass_fields__)


def demanded(expect: Expectation, fields: Mapping[str, Any]) -> Expectation:
    """Return what one plan of a script must be: the sample's demands with those of the step in their place.

    Raises RefusalSignal invalid-input for fields that are none of an expectation.
    """
    read = parse_record(Expectation, canonical(fields))
    if not fields.keys() <= _DEMANDS:
        invalid("$", "holds a field that is none of an expectation")
    return replace(expect, **{name: getattr(read, name) for name in fields})


def is_event(event: Event) -> bool:
    """Tell whether a step is of a known kind and has the fields of its kind, no more and no fewer."""
    if event.kind not in _ACTIONS:
        return False
    if event.kind == "plan":
        with suppress(RefusalSignal):
            return demanded(Expectation(), event.fields) is not None
        return False
    fields, choices = _FIELDS.get(event.kind, {}), _CHOICES.get(event.kind, {})
    if not all(one in choices and value in choices[one] for one, value in event.fields.items() if one not in fields):
        return False
    return all(type(event.fields.get(one)) is kind for one, kind in fields.items())
