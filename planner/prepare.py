"""Plan straight from a ledger: read the view, plan, record the receipt if the generation still holds (R43, R55).

The effectful twin of `pipeline`. Planning itself writes nothing to the conversation; a receipt that cannot be
stored fails the plan and never the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from planner.encoding.encoder import Encoder
from planner.ledger.ledger import Ledger
from planner.ledger.parts import CANONICAL_REQUEST, EXCLUSIONS
from planner.ledger.stored import Active
from planner.pipeline import Reading, Stores, run_view
from planner.steps.answer import refused
from planner.steps.hidden import stripped_channels
from planner.steps.seal import Sealing
from planner.steps.splice import FrozenStore
from planner.values.digest import FieldDigests, canonical
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.request import PlanRequest
from planner.values.switches import Switches
from planner.values.turn import Turn
from planner.values.view import View
from planner.wire.dump import dump_audit, dump_receipt, dump_request


class LedgerConversation:
    """A conversation of a ledger, planned for one bundle; each plan reads what may be in the prompt and little more.

    >>> import tempfile
    >>> from planner import Ledger, Planner, PlanRequest
    >>> from planner.values.turn import Message
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/chats") as ledger:
    ...     done = ledger.append("c1", "t1", [Message("user", "m1", "How many moons has Mars?")])
    ...     chat = Planner("reference").ledger_conversation(ledger, "c1")
    ...     chat.plan(PlanRequest("reference")).accepted
    True
    """

    def __init__(
        self,
        ledger: Ledger,
        conversation_id: str,
        encoder: Encoder,
        *,
        digest_key: bytes | None = None,
        tell: Callable[[Plan | Refusal], Plan | Refusal] | None = None,
        switches: Switches | None = None,
    ) -> None:
        """Read nothing yet. Every plan sees the ledger as it is then."""
        self._ledger = ledger
        self._conversation_id = conversation_id
        self._encoder = encoder
        self._digest_key = digest_key
        self._tell = tell or (lambda answer: answer)
        self._switches = switches or Switches()
        self._stores: dict[
            tuple[frozenset[str], bytes, str | None, frozenset[str]], tuple[Stores, dict[str, Turn]]
        ] = {}
        self._digests = FieldDigests()
        self._told_stale: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def plan(
        self,
        request: PlanRequest,
        *,
        generation: int | None = None,
        revoked: frozenset[str] = frozenset(),
        record: bool = True,
    ) -> Plan | Refusal:
        """Plan a request whose conversation, generation, revision, turns and summaries the ledger brings.

        generation  the caller's, refused where the ledger has a newer one; None takes the ledger's.
        revoked     citation ids that may not be used any more, beside those that claims and dates exclude (X39).
        record      store receipt and canonical request; without it nothing is written at all.
        Equals the plan of the same request with all turns sent: ids and receipt, byte for byte.
        Raises PlannerFault `stale_generation`, `conversation_not_found` and those of bundle and storage.
        """
        if type(request) is not PlanRequest:
            signal = RefusalSignal("invalid-input", "$: expected a PlanRequest")
            unread = PlanRequest(self._encoder.bundle.manifest.id)
            return self._tell(refused(Sealing(unread, None, None, self._digest_key), signal))
        with self._lock:
            active = Active(request.policy_version)
            view = self._ledger.view(self._conversation_id, generation=generation, active=active)
            view = self._switched(view)
            request = replace(
                request, conversation_id=self._conversation_id, generation=view.generation, revision=view.revision
            )
            answer = self._plan(request, view, revoked)
            if record:
                self._record(replace(request, summaries=()), view, answer)
        # The hook runs outside the lock: it may plan again.
        return self._tell(answer)

    def _switched(self, view: View) -> View:
        """Return the view with the summaries that the switches leave."""
        if not self._switches.summaries:
            return replace(view, summaries=(), stale=())
        if self._switches.reuse == "sources":
            return view
        # Not stale in the ledger, so no invalidation is recorded: another reader may still use them.
        left = tuple(one for one in view.summaries if one.source_revision == view.revision)
        return replace(view, summaries=left)

    def _plan(self, request: PlanRequest, view: View, revoked: frozenset[str]) -> Plan | Refusal:
        if request.turns or request.summaries:
            signal = RefusalSignal("invalid-input", "$.turns: a ledger brings its own turns and summaries")
            return refused(Sealing(request, None, None, self._digest_key), signal)
        how = Reading(self._digest_key, revoked, self._digests, self._remembered)
        return run_view(request, view, self._encoder, how)

    def _remembered(self, request: PlanRequest, view: View) -> tuple[Stores, View]:
        stores, known = self._stores_for(request)
        return stores, replace(view, turns=_Watched(view.turns, stores, known))

    def _record(self, request: PlanRequest, view: View, answer: Plan | Refusal) -> None:
        receipt = answer.receipt
        if receipt.request_digest is None:
            return  # a request that broke a rule is no call that could be replayed, and has no id of its own
        self._ledger.put_part(
            self._conversation_id, CANONICAL_REQUEST, dump_request(request), receipt.request_digest
        )  # fmt: skip
        if answer.audit:
            self._ledger.put_part(self._conversation_id, EXCLUSIONS, dump_audit(answer.audit), receipt.plan_id)
        # The same request planned again has the same ids; what it says of summaries that came too late in between
        # may differ, and the first receipt stays. Stored again it still compares the generation.
        known = self._ledger.receipt(self._conversation_id, receipt.plan_id)
        data = dump_receipt(receipt) if known is None else known
        self._ledger.save_receipt(self._conversation_id, data, generation=view.generation)
        new = [entry for entry in view.stale if (view.branch, entry.summary_id) not in self._told_stale]
        if new:
            self._ledger.invalidate(self._conversation_id, new)
            self._told_stale.update((view.branch, entry.summary_id) for entry in new)

    def _stores_for(self, request: PlanRequest) -> tuple[Stores, dict[str, Turn]]:
        # A turn's frame and size depend on concessions, switches, clock and what is stripped, on nothing else.
        options = canonical(dict(request.template_options)) if request.template_options else b""
        key = (frozenset(request.options.concessions), options, request.now, stripped_channels(request.options))
        if key not in self._stores:
            if len(self._stores) >= 4:
                self._stores.clear()
            self._stores[key] = (Stores(frozen=FrozenStore()), {})
        return self._stores[key]


class _Watched(Sequence[Turn]):
    """The turns of a view, each asked for once.

    One that differs from what an earlier plan saw is forgotten by the stores.
    """

    def __init__(self, turns: Sequence[Turn], stores: Stores, known: dict[str, Turn]) -> None:
        self._turns, self._stores, self._known = turns, stores, known
        self._count = len(turns)
        self._given: dict[int, Turn] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> list[Turn]: ...
    def __getitem__(self, at: int | slice) -> Turn | list[Turn]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        found = self._given.get(at)
        return self._watched(range(self._count)[at]) if found is None else found

    def __iter__(self) -> Iterator[Turn]:
        return map(self.__getitem__, range(self._count))

    def index_of(self, turn_id: str) -> int | None:
        """Return the place of a turn, None where it is not shown."""
        find: Callable[[str], int | None] | None = getattr(self._turns, "index_of", None)
        if find is not None:
            return find(turn_id)
        return next((place for place, turn in enumerate(self._turns) if turn.id == turn_id), None)

    def _watched(self, place: int) -> Turn:
        turn = self._given[place] = self._turns[place]
        before = self._known.get(turn.id)
        if before is not None and before != turn:
            self._stores.forget(turn.id)
        self._known[turn.id] = turn
        return turn
