"""The entry point: one bundle or several, with their caches and an optional hook (R214)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from planner.bundles.certificates import certificates
from planner.bundles.records import (
    DRIFT,
    MEANING,
    Records,
    any_drift,
    blocked_by,
    check_drift,
    learned_fields,
    meaning_of,
    observation_fields,
)
from planner.conversation import Conversation
from planner.encoding.encoder import Encoder
from planner.pipeline import Job, Stores, run
from planner.steps.admit import admission_of
from planner.steps.answer import refused
from planner.steps.duplicates import Signatures
from planner.steps.learn import PROBE_OUTPUT, learned_meaning, probe_chats, probed
from planner.steps.observe import observe
from planner.steps.recall import recall
from planner.steps.seal import Sealing
from planner.values.account import Account
from planner.values.bundle import Bundle, Manifest
from planner.values.check import check_request
from planner.values.digest import chain_of, request_digest
from planner.values.field_rules import invalid
from planner.values.observation import Learned, Observation, ProbeCall, Reported
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.tuning import Tuning, check_tuning
from planner.values.unsupported import check_supported

if TYPE_CHECKING:
    from planner.ledger.ledger import Ledger
    from planner.prepare import LedgerConversation
    from planner.values.switches import Switches


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """One text-free event per call: the seven fields of R35 (None for a refusal without an account)."""

    plan_id: str
    outcome: str
    reason: str | None
    model_bundle_id: str
    account: Account | None
    diagnostics: Mapping[str, int | str]


class Planner:
    """Plans for model bundles; safe to share between threads, and every thread gets the same bytes.

    bundle        a bundle id, a path to a model folder, or a loaded Bundle; the default for `plan`.
    user_folder   where the user's own bundles are looked for by id; none by default.
    cache_folder  where measured template profiles are kept between processes; none by default.
    digest_key    key for digests of single items in receipts; without it they are left out (X50).
    on_plan       called once per call with a PlanEvent; an exception in it reaches the caller.
    engine        `fast` encodes with kitoken where it gave the same ids (`engine_not_admitted` elsewhere);
                  a bundle that is handed over loaded keeps the engine it was opened with.
    cache_bytes   bound of each bundle's cache of encoded runs.

    >>> Planner(bundle="reference").bundle_id
    'reference'
    """

    def __init__(
        self,
        bundle: str | Path | Bundle = "qwen3-0.6b",
        *,
        user_folder: Path | None = None,
        cache_folder: Path | None = None,
        digest_key: bytes | None = None,
        on_plan: Callable[[PlanEvent], None] | None = None,
        **tuning: Unpack[Tuning],
    ) -> None:
        """Keep the settings; nothing is loaded before the first plan."""
        check_tuning(tuning)
        self._default = bundle
        self._user_folder = user_folder
        self._cache_folder = cache_folder
        self._digest_key = digest_key
        self._on_plan = on_plan
        self._cache_bytes = tuning.get("cache_bytes")
        self._engine = tuning.get("engine", "exact")
        self._bundles: dict[str, Bundle] = {}
        self._encoders: dict[tuple[str, int], Encoder] = {}
        self._signatures = Signatures()
        self._lock = threading.Lock()
        if any_drift(user_folder):
            self._check_default()

    def _check_default(self) -> None:
        """Refuse a default bundle that is blocked; one that cannot be opened says so when it is asked for."""
        try:
            manifest = self._loaded_default().manifest
        except PlannerFault:
            return
        check_drift(self._records(manifest))

    def _records(self, manifest: Manifest) -> Records:
        return Records(self._user_folder, manifest.digest)

    @property
    def bundle_id(self) -> str:
        """The id requests of this planner carry: the bundle's own where it is a path or loaded already."""
        if isinstance(self._default, str):
            from planner.bundles.open import is_bundle_id

            if is_bundle_id(self._default, self._user_folder):
                return self._default
        return self._loaded_default().manifest.id

    def _loaded_default(self) -> Bundle:
        if isinstance(self._default, (str, Path)):
            self._default = self._opened(self._default)
        return self._default

    def encoder(self, model_bundle_id: str | None = None, app_version: str | None = None) -> Encoder:
        """Return the encoder of a bundle, opened once per planner, with the template of this app's version (R177).

        Raises PlannerFault: bundle_not_found, bundle_unavailable, bundle_mismatch and the other file codes;
        bundle_blocked_by_drift.
        """
        known = self._known(model_bundle_id or self.bundle_id, app_version)
        if known.blocked is not None:
            raise PlannerFault(known.blocked.code, known.blocked.detail)
        return known

    def _known(self, wanted: str, app_version: str | None) -> Encoder:
        with self._lock:
            bundle = self._bundles.get(wanted)
            if bundle is None:
                bundle = self._bundles[wanted] = self._open(wanted)
            for_app = getattr(bundle, "for_app", None)
            if for_app is not None:
                bundle = for_app(app_version)
            # The encoder keeps its bundle alive, so the bundle's address stays its own.
            known = self._encoders.get((wanted, id(bundle)))
            if known is None:
                known = Encoder(bundle, self._cache_bytes)
                records = self._records(known.bundle.manifest)
                known.certificates = certificates(records)
                try:
                    check_drift(records)
                except PlannerFault as fault:
                    known.blocked = fault
                self._encoders[wanted, id(bundle)] = known
            return known

    def _open(self, wanted: str) -> Bundle:
        if wanted == self.bundle_id:
            return self._loaded_default()
        return self._opened(wanted)

    def _opened(self, ref: str | Path) -> Bundle:
        from planner.bundles.open import open_bundle

        return open_bundle(ref, user_folder=self._user_folder, cache_dir=self._cache_folder, engine=self._engine)

    def plan(
        self,
        request: PlanRequest | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        bundle: str | None = None,
        **fields: Any,
    ) -> Plan | Refusal:
        """Plan one call from a PlanRequest, or from an OpenAI-style list of messages and tools.

        bundle, fields  go with a list; a request holds its own.
        Returns a Plan or a Refusal for every problem of request and template.
        Raises PlannerFault where the bundle or the machine cannot be used.
        """
        try:
            if request is None:
                from planner.adapters.openai import request_from_chat

                request = request_from_chat(messages or (), tools, model_bundle_id=bundle or self.bundle_id, **fields)
            elif fields or any(one is not None for one in (messages, tools, bundle)):
                invalid("$", "a request stands beside a list, a bundle or fields that it would hold itself")
            check_request(request)
            check_supported(request)
        except RefusalSignal as signal:
            asked = request if type(request) is PlanRequest else PlanRequest(bundle or self.bundle_id)
            return self._tell(refused(Sealing(asked, None, None, self._digest_key), signal))
        return self._plan(request)

    def _plan(self, request: PlanRequest) -> Plan | Refusal:
        encoder = self.encoder(request.model_bundle_id, request.app_version)
        turns = chain_of(sorted(request.turns, key=lambda turn: turn.sequence)).value()
        digest = request_digest(request, turns)
        request, admission = admission_of(request, request.turns)
        sealing = Sealing(request, encoder.bundle.manifest, digest, self._digest_key, admission)
        try:
            history = recall(request, revoked=admission.revoked)
        except RefusalSignal as signal:
            return self._tell(refused(sealing, signal))
        return self._tell(run(Job(request, history, encoder, sealing, Stores(signatures=self._signatures))))

    def _tell(self, answer: Plan | Refusal) -> Plan | Refusal:
        if self._on_plan is not None:
            receipt = answer.receipt
            self._on_plan(
                PlanEvent(
                    receipt.plan_id, receipt.outcome, receipt.reason, receipt.model_bundle_id,
                    answer.account, answer.diagnostics,
                )
            )  # fmt: skip
        return answer

    def observe(self, of: Plan | Receipt, reported: int | Reported, *, ledger: Ledger | None = None) -> Observation:
        """Compare what the runtime reported for a plan with the plan (X60).

        reported  tokens in the meaning that the runtime's profile states, or a Reported with figures beside it.
        ledger    keeps the observation beside the receipt of the plan; without it the caller does.
        A difference blocks the bundle for this planner and, by a record in the user's folder, for every later one
        until it was measured again; a simulated one blocks nothing.
        Raises PlannerFault bundle_mismatch for a receipt of another bundle, and what the ledger raises; RefusalSignal
        invalid-input for figures that are no counts.
        """
        receipt = of.receipt if isinstance(of, Plan) else of
        manifest = self._known(receipt.model_bundle_id, receipt.app_version).bundle.manifest
        if receipt.bundle_digest != manifest.digest:
            raise PlannerFault("bundle_mismatch", "the receipt is of another bundle")
        given = reported if isinstance(reported, Reported) else Reported(reported)
        meaning, when = meaning_of(manifest.runtime, self._records(manifest), given)
        found = observe(receipt, given, meaning, when)
        details = observation_fields(found)
        if found.differs and not given.simulated:
            fault = blocked_by(f"{found.planned_tokens} tokens planned, {found.reported_tokens} reported")
            with self._lock:  # every version of the app that has this bundle
                for known in self._encoders.values():
                    if known.bundle.manifest.digest == manifest.digest:
                        known.blocked = fault
            self._records(manifest).write(DRIFT, details)
        if ledger is not None and receipt.conversation_id is not None:
            ledger.save_observation(receipt.conversation_id, receipt.plan_id, receipt.generation, given.tokens, details)
        return found

    def learn_meaning(self, call: Callable[[Plan], Reported], bundle: str | None = None) -> Learned:
        """Learn by three small calls what the runtime's own count means; the user's folder remembers it.

        call  runs a plan in one session of the runtime and returns its figures; called thrice, nothing else between.
        Returns the meaning with the calls as evidence, `unknown` where they do not tell.
        Raises what `call` and planning raise.
        """
        manifest = self.encoder(bundle).bundle.manifest
        calls: list[ProbeCall] = []
        held: Sequence[int] = ()
        for number, messages in enumerate(probe_chats(secrets.token_hex(8))):
            answer = self.plan(messages=messages, bundle=manifest.id, max_completion_tokens=PROBE_OUTPUT)
            if not isinstance(answer, Plan):
                break
            if number:  # the first chat is only planned
                calls.append(probed(number, answer.ids, held, call(answer)))
            held = answer.ids
        found = Learned(learned_meaning(calls), tuple(calls), answer.receipt.runtime, answer.receipt.runtime_version)
        if found.meaning != "unknown":
            self._records(manifest).write(MEANING, learned_fields(found))
        return found

    def ledger_conversation(
        self,
        ledger: Ledger,
        conversation_id: str,
        bundle: str | None = None,
        *,
        switches: Switches | None = None,
        app_version: str | None = None,
    ) -> LedgerConversation:
        """Return a conversation that a ledger keeps; each plan reads what may be in the prompt and little more.

        app_version  of the application that will ask: it decides which of the bundle's templates is used.
        """
        from planner.prepare import LedgerConversation

        return LedgerConversation(
            ledger, conversation_id, self.encoder(bundle, app_version), digest_key=self._digest_key, tell=self._tell,
            switches=switches,
        )  # fmt: skip

    def conversation(self, bundle: str | None = None, *, app_version: str | None = None) -> Conversation:
        """Return a growing conversation for a bundle and an app's version: each plan then costs what is new."""
        return Conversation(self.encoder(bundle, app_version), self._digest_key, self._tell)
