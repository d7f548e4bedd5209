"""A growing conversation: its turns, their digests, frames and sizes are kept, so a plan costs what is new.

`conversation.plan(request)` equals the cold plan of the same request with these turns, ids and receipt, byte
for byte (a law with a test).
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from planner.encoding.encoder import Encoder
from planner.pipeline import Job, Stores, run
from planner.steps.admit import admission_of
from planner.steps.answer import refused
from planner.steps.hidden import stripped_channels
from planner.steps.recall import own_turn, summary_frame, with_facts, without_own
from planner.steps.recall_revoked import without_revoked
from planner.steps.recall_summaries import Judged, Verdicts, judge
from planner.steps.seal import Sealing
from planner.steps.splice import FrozenStore
from planner.values.check import check_frame, check_question, check_turn
from planner.values.check_record import check_summaries
from planner.values.check_summary import SummaryFrame
from planner.values.digest import FieldDigests, TurnChain, canonical, request_digest
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Removal
from planner.values.relations import NO_RELATIONS, Relations, check_relations, relates, relations
from planner.values.request import PlanRequest
from planner.values.rung import History
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn, may_become
from planner.values.unsupported import check_supported


class Conversation:
    """Turns of one conversation for one bundle. Append turns in order; replace only the newest ones cheaply."""

    def __init__(
        self,
        encoder: Encoder,
        digest_key: bytes | None = None,
        tell: Callable[[Plan | Refusal], Plan | Refusal] | None = None,
    ) -> None:
        """Start empty."""
        self._encoder = encoder
        self._digest_key = digest_key
        self._tell = tell or (lambda answer: answer)
        self._all: list[Turn] = []
        self._chains: list[TurnChain] = []
        self._shown: list[Turn] = []
        self._pinned: list[int] = []
        self._left_out: list[Removal] = []
        self._open: list[Turn] = []
        self._relating: list[Turn] = []
        self._citing: list[Turn] = []
        self._relations: Relations | None = NO_RELATIONS
        self._summaries: tuple[SummaryRecord, ...] = ()
        self._verdicts: Verdicts = {}
        self._verdicts_of: SummaryFrame | None = None
        self._ids: set[str] = set()
        self._message_ids: set[str] = set()
        self._stores: dict[tuple[frozenset[str], bytes, str | None, frozenset[str]], Stores] = {}
        self._digests = FieldDigests()
        self._checked: PlanRequest | None = None
        self._lock = threading.Lock()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn, by sequence."""
        return tuple(self._all)

    def set_summaries(self, summaries: Iterable[SummaryRecord]) -> None:
        """Plan with these summaries from now on, as if every request brought them.

        Raises RefusalSignal invalid-input for a summary that breaks a rule of its fields.
        """
        records = tuple(summaries)
        check_summaries(records, "$.summaries")
        with self._lock:
            self._summaries = records

    def append(self, turn: Turn) -> None:
        """Add the next turn; its sequence must be the highest so far.

        Raises RefusalSignal invalid-input for a turn that breaks a rule, as planning with it would.
        """
        with self._lock:
            path = f"$.turns[{len(self._all)}]"
            _check_type(turn, path)
            if turn.id in self._ids or (self._all and turn.sequence <= self._all[-1].sequence):
                raise RefusalSignal("invalid-input", f"{path}: id or sequence is not new")
            self._admit(turn, path, frozenset(), self._relating if turn.supersedes else ())
            self._take(turn)

    def extend(self, turns: Iterable[Turn]) -> None:
        """Append several turns in order."""
        for turn in turns:
            self.append(turn)

    def replace(self, turn: Turn) -> None:
        """Put a newer version of a turn in its place: more messages, or the next state of its table.

        Raises RefusalSignal invalid-input for an unknown turn or a move the table of states forbids.
        """
        _check_type(turn, "$.turns")
        with self._lock:
            index = bisect_left(self._all, turn.sequence, key=lambda known: known.sequence)
            found = self._all[index] if index < len(self._all) else None
            if found is None or found.id != turn.id or found.sequence != turn.sequence:
                raise RefusalSignal("invalid-input", "$.turns: no turn of this id and sequence")
            if found.state != turn.state and not may_become(found.state, turn.state):
                raise RefusalSignal("invalid-input", f"$.turns[{index}].state: not allowed after {found.state}")
            old = frozenset(message.id for message in found.messages if message.id)
            others = [known for known in self._relating if known.id != turn.id]
            self._admit(turn, f"$.turns[{index}]", old, others)
            later = self._all[index + 1 :]
            self._rewind(index)
            for stores in self._stores.values():
                stores.forget(turn.id)
            for entry in (turn, *later):
                self._take(entry)

    def _admit(self, turn: Turn, path: str, replaced: frozenset[str], others: Sequence[Turn]) -> None:
        """Check a turn; nothing is remembered of one that breaks a rule.

        others  the other turns that say something about others: what one withdraws, an earlier one must mark.
        """
        check_turn(turn, path)
        if turn.supersedes or others:
            placed = sorted((*others, turn), key=lambda known: known.sequence)
            check_relations([(path if known is turn else "$.turns", known) for known in placed])
        new = {message.id for message in turn.messages if message.id}
        if any(entry in self._message_ids and entry not in replaced for entry in new):
            raise RefusalSignal("invalid-input", f"{path}.messages: a message id is used by another message")
        self._message_ids -= replaced
        self._message_ids |= new

    def _take(self, turn: Turn) -> None:
        chain = self._chains[-1].copy() if self._chains else TurnChain()
        chain.add(turn)
        self._chains.append(chain)
        self._all.append(turn)
        self._ids.add(turn.id)
        for name in [name for name, (record, _) in self._verdicts.items() if record.covers_to >= turn.sequence]:
            del self._verdicts[name]
        if relates(turn):
            self._relating.append(turn)
            self._relations = None
        if any(message.citation_ids for message in turn.messages):
            self._citing.append(turn)
        if turn.state in ("cancelled", "superseded"):
            self._left_out.append(Removal(f"turn/{turn.id}", turn.state))
            return
        if turn.state == "open":
            self._open.append(turn)
        if turn.pinned or turn.state == "open":
            self._pinned.append(len(self._shown))
        self._shown.append(turn)

    def _rewind(self, index: int) -> None:
        removed = self._all[index:]
        del self._all[index:], self._chains[index:]
        gone = {turn.id for turn in removed}
        self._ids -= gone
        self._open = [turn for turn in self._open if turn.id not in gone]
        self._citing = [turn for turn in self._citing if turn.id not in gone]
        if any(turn.id in gone for turn in self._relating):
            self._relating = [turn for turn in self._relating if turn.id not in gone]
            self._relations = None
        self._left_out = [entry for entry in self._left_out if entry.id.partition("/")[2] not in gone]
        while self._shown and self._shown[-1].id in gone:
            self._shown.pop()
        self._pinned = [position for position in self._pinned if position < len(self._shown)]

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        """Plan a request whose turns are this conversation's; `request.turns` must be empty.

        Returns and raises as `Planner.plan` does.
        """
        with self._lock:
            answer = self._plan(request)
        # The hook runs outside the lock: it may look at this conversation or add to it.
        return self._tell(answer)

    def _plan(self, request: PlanRequest) -> Plan | Refusal:
        bundle_id = self._encoder.bundle.manifest.id
        try:
            if type(request) is not PlanRequest:
                request = PlanRequest(bundle_id)
                raise RefusalSignal("invalid-input", "$: expected a PlanRequest")
            if request.turns:
                raise RefusalSignal("invalid-input", "$.turns: a conversation brings its own")
            if self._summaries and not request.summaries:
                request = replace(request, summaries=self._summaries)
            check_frame(request, self._checked)
            if request.model_bundle_id != bundle_id:
                raise RefusalSignal("invalid-input", "$.modelBundleId: is not the bundle of this conversation")
            self._checked = request
            self._check_question(request)
            check_supported(request)
        except RefusalSignal as signal:
            return refused(Sealing(request, None, None, self._digest_key), signal)
        turns = (self._chains[-1] if self._chains else TurnChain()).value()
        digest = request_digest(request, turns, self._digests)
        request, admission = admission_of(request, self._citing)
        sealing = Sealing(request, self._encoder.bundle.manifest, digest, self._digest_key, admission)
        try:
            history = self._history(request, admission.revoked)
        except RefusalSignal as signal:
            return refused(sealing, signal)
        return run(Job(request, history, self._encoder, sealing, self._stores_for(request)))

    def _check_question(self, request: PlanRequest) -> None:
        wanted = request.request.turn_id
        for turn in self._open:
            if not turn.messages and (turn.id != wanted or request.request.text is None):
                index = bisect_left(self._all, turn.sequence, key=_sequence)
                raise RefusalSignal("invalid-input", f"$.turns[{index}].messages: is empty")
        asked = [turn for turn in self._open if turn.messages]
        named = next((turn for turn in self._open if turn.id == wanted), None)
        if named is None and wanted in self._ids:
            named = next(turn for turn in reversed(self._all) if turn.id == wanted)
        check_question(request, named, max(asked, key=lambda turn: turn.sequence, default=None))

    def _history(self, request: PlanRequest, revoked: frozenset[str]) -> History:
        last = self._shown[-1].sequence if self._shown else 0
        own = own_turn(self._open, request.request, last, self._ids)
        found = self._related()
        held, withdrawing = self._places(found.held), self._places(found.withdrawing)
        history = History(self._shown, tuple(self._pinned), own, tuple(self._left_out))
        history = without_own(history, self._open, held, withdrawing)
        history = without_revoked(history, self._citing, revoked)
        judged = Judged()
        if request.summaries:
            frame = summary_frame(request, found.constraints, revoked)
            if frame != self._verdicts_of:
                self._verdicts.clear()
                self._verdicts_of = frame
            judged = judge(request.summaries, frame, self._inside, self._verdicts)
        return with_facts(history, found.constraints, judged, request.request)

    def _related(self) -> Relations:
        if self._relations is None:
            self._relations = relations(self._relating)
        return self._relations

    def _places(self, turn_ids: frozenset[str]) -> tuple[int, ...]:
        """Return where turns that say something about others stand among the shown ones."""
        if not turn_ids:
            return ()
        sequences = [turn.sequence for turn in self._relating if turn.id in turn_ids]
        places = (bisect_left(self._shown, at, key=_sequence) for at in sequences)
        shown = ((place, at) for place, at in zip(places, sequences, strict=True) if place < len(self._shown))
        return tuple(place for place, at in shown if self._shown[place].sequence == at)

    def _inside(self, record: SummaryRecord) -> list[Turn]:
        low = bisect_left(self._all, record.covers_from, key=_sequence)
        return self._all[low : bisect_right(self._all, record.covers_to, key=_sequence)]

    def _stores_for(self, request: PlanRequest) -> Stores:
        # A turn's frame and size depend on concessions, switches, clock and what is stripped, on nothing else.
        switches = canonical(dict(request.template_options)) if request.template_options else b""
        key = (frozenset(request.options.concessions), switches, request.now, stripped_channels(request.options))
        if key not in self._stores:
            if len(self._stores) >= 4:
                self._stores.clear()
            self._stores[key] = Stores(frozen=FrozenStore())
        return self._stores[key]


def _check_type(turn: object, path: str) -> None:
    if type(turn) is not Turn:
        raise RefusalSignal("invalid-input", f"{path}: expected a Turn")


def _sequence(turn: Turn) -> int:
    return turn.sequence
