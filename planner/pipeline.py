"""One plan, one screen: recall -> layer -> ladder -> fit -> account -> seal (design.md §2).

Every step is pure over frozen values; a refusal leaves at once and is sealed like a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planner.encoding.encoder import Encoder
from planner.encoding.tracked import own
from planner.steps.admit import admission_of
from planner.steps.answer import Answering, accepted, overflowed, refused
from planner.steps.audit import audit
from planner.steps.duplicates import Signatures, duplicates
from planner.steps.evidence import with_evidence
from planner.steps.fit import fit
from planner.steps.forms import FormRules, form_rules, may_fit, more_bytes, own_begun, result_name, too_many_bytes
from planner.steps.framing import Framing
from planner.steps.hidden import strip_frame, stripped_channels
from planner.steps.horizon import horizon
from planner.steps.ladder import ladder
from planner.steps.layer import layer
from planner.steps.measure import FrameStore, Measurer, make_measurer
from planner.steps.mode import handover
from planner.steps.recall import asked_turns, recall_view
from planner.steps.seal import Sealing
from planner.steps.size_store import SizeStore
from planner.steps.sizes import Sizes
from planner.steps.splice import FrozenStore
from planner.steps.sticky import Later, lower
from planner.steps.window import Resolved, resolve_window
from planner.values.app_version import check_app_version
from planner.values.check import check_frame, check_question
from planner.values.digest import FieldDigests, request_digest, withheld_digest
from planner.values.part_cost import PartCost
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.prompt import Counters
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.receipt import Removal
from planner.values.request import PlanRequest
from planner.values.rung import History, Layered
from planner.values.unsupported import check_supported
from planner.values.view import View


@dataclass(slots=True)
class Stores:
    """What a growing conversation remembers between plans: framed turns, their sizes and, to splice, their ids."""

    framed: FrameStore = field(default_factory=FrameStore)
    carried: FrameStore = field(default_factory=FrameStore)
    sizes: SizeStore = field(default_factory=SizeStore)
    frozen: FrozenStore | None = None
    signatures: Signatures = field(default_factory=Signatures)

    def clear(self) -> None:
        """Drop everything."""
        for store in (self.framed.turns, self.carried.turns, self.sizes):
            store.clear()
        if self.frozen is not None:
            self.frozen.turns.clear()

    def forget(self, turn_id: str) -> None:
        """Drop what is known of a turn that has a newer version."""
        for store in (self.framed.turns, self.carried.turns):
            store.pop(turn_id, None)
            store.pop(f"{turn_id} short", None)
        self.sizes.forget(turn_id)
        if self.frozen is not None:
            self.frozen.turns.pop(turn_id, None)


@dataclass(frozen=True, slots=True)
class Job:
    """One planning call: the request, its history, the bundle's encoder, and stores that may outlive it."""

    request: PlanRequest
    history: History
    encoder: Encoder
    sealing: Sealing
    stores: Stores


def run(job: Job) -> Plan | Refusal:
    """Answer one request. Raises PlannerFault for a bundle that cannot be used; anything else is our bug."""
    counters = Counters()
    if job.encoder.blocked is not None:
        raise PlannerFault(job.encoder.blocked.code, job.encoder.blocked.detail)
    try:
        return _plan(job, counters)
    except RefusalSignal as signal:
        return refused(job.sealing, signal, counters)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a view is planned.

    revoked   citation ids that may not be used any more, beside those that claims and dates exclude.
    digests   digests of a request's fields that outlive one plan.
    remember  gives the stores for a request that passed its checks, and the view as it is read with them.
    """

    digest_key: bytes | None = field(default=None, repr=False)
    revoked: frozenset[str] = frozenset()
    digests: FieldDigests | None = None
    remember: Callable[[PlanRequest, View], tuple[Stores, View]] = lambda _, view: (Stores(), view)


def run_view(request: PlanRequest, view: View, encoder: Encoder, how: Reading | None = None) -> Plan | Refusal:
    """Answer a request about a conversation that is kept elsewhere: turns, summaries and constraints are the view's.

    The answer is the one a request with all of its turns and these summaries gets, ids and receipt. `request` brings
    neither; its conversation, generation and revision are the view's by the caller's care.
    """
    how = how or Reading()
    if view.summaries:
        request = replace(request, summaries=view.summaries)
    sealing = Sealing(request, None, None, how.digest_key)
    try:
        check_frame(request)
        check_supported(request)
        if request.model_bundle_id != encoder.bundle.manifest.id:
            raise RefusalSignal("invalid-input", "$.modelBundleId: is not the bundle of this conversation")
        check_question(request, *asked_turns(request, view))
        digest = withheld_digest(request_digest(request, view.chain.hex(), how.digests), how.revoked)
        request, admission = admission_of(request, (view.turns[index] for index in view.citing), how.revoked)
        sealing = Sealing(request, encoder.bundle.manifest, digest, how.digest_key, admission)
        stores, view = how.remember(request, view)
        history = recall_view(request, view, revoked=admission.revoked)
    except RefusalSignal as signal:
        return refused(sealing, signal)
    return run(Job(request, history, encoder, sealing, stores))


def _plan(job: Job, counters: Counters) -> Plan | Refusal:
    request, encoder = job.request, job.encoder
    manifest = encoder.bundle.manifest
    check_app_version(manifest, request.app_version)
    how = handover(request, manifest, encoder.bundle.profile, encoder.certificates)
    resolved = resolve_window(request, manifest)
    _refuse_unknown_options(request, encoder.bundle.profile.options)
    clean = strip_frame(request, job.history)
    layered = layer(clean.request, clean.history)
    byte_limit = _byte_limit(resolved, manifest.longest_token_bytes)
    rules = form_rules(request.options, job.sealing.digest_key, byte_limit)
    _refuse_huge(layered, rules)
    usable = tuple([p for p in layered.passages if may_fit(p, rules)])
    layered = with_evidence(layered, usable)
    twins = _twins(job, layered, [p for p in usable if not rules.beyond_plain(p.text)])
    layered = replace(layered, twins=twins) if twins else layered
    measurer = _measurer(job, layered, counters)
    sizes = Sizes(measurer, job.stores.sizes, rules)
    reach = horizon(sizes, request.options, resolved.window.budget, byte_limit)
    dropped = layered.twins if request.options.drop_duplicates else frozenset()
    passages = tuple([p for p in usable if p.citation_id not in dropped])
    steps = ladder(
        layered, request.options, sizes.item, reach=reach, passages=passages, gone=_gone(layered, passages),
    )  # fmt: skip
    fitted = fit(steps, layered, sizes, resolved.window.budget, measurer.measure, passages=passages)
    if not fitted.fits:
        return overflowed(job.sealing, measurer, fitted.measured, resolved)
    fitted = lower(fitted, Later(steps, layered, sizes, passages, request), resolved.window.budget)
    if encoder.audit_due() and not audit(fitted.measured, measurer):
        job.stores.clear()
        counters.speed = "certified"
        return _plan(job, counters)
    if counters.speed != "spliced":
        sizes.refresh(fitted.measured)
    answering = Answering(job.sealing, layered, steps, fitted, resolved, encoder.guards, how, clean.found)
    return accepted(answering, counters)


def _twins(job: Job, layered: Layered, whole: Sequence[Passage]) -> frozenset[str]:
    """Return the duplicates among passages that could stand whole; one that begins in a short form is not compared."""
    if not whole:
        return frozenset()
    line = job.request.options.low_value_line
    return duplicates(whole, layered.pinned_passages, job.stores.signatures, line)


def _measurer(job: Job, layered: Layered, counters: Counters) -> Measurer:
    allowed = {*job.request.options.concessions, *job.encoder.bundle.manifest.concessions}
    framing = Framing(
        job.encoder.bundle.profile,
        frozenset(allowed),
        own,
        strips=stripped_channels(job.request.options),
        costs=_costs(job.encoder),
    )
    stores = (job.stores.framed, job.stores.carried, job.stores.frozen)
    return make_measurer(job.encoder, layered, framing, job.request, counters, stores)


def _costs(encoder: Encoder) -> dict[str, PartCost]:
    """Return the cost functions of the bundle, none where a prompt is parsed whole: content could then forge one."""
    return {} if encoder.whole else {cost.type: cost for cost in encoder.bundle.manifest.parts}


def _refuse_unknown_options(request: PlanRequest, known: tuple[str, ...]) -> None:
    if any(name not in known for name in request.template_options):
        raise RefusalSignal("invalid-input", "$.templateOptions: a switch the template does not read")


def _byte_limit(resolved: Resolved, longest_token_bytes: int | None) -> int | None:
    return None if longest_token_bytes is None else resolved.window.total * longest_token_bytes


def _refuse_huge(layered: Layered, rules: FormRules) -> None:
    """Refuse required text that could not fit however it is encoded, before it is encoded (threats.md §2.4).

    Results of the request's own turn are looked at in forms that might fit where they have such.
    """
    byte_limit, own = rules.byte_limit, layered.open_turn
    if byte_limit is None:
        return
    for kind, items in (("policy", layered.policy), ("scope", layered.data_scope)):
        for item in items:
            if more_bytes(item.text, byte_limit):
                raise RefusalSignal("input_too_large", f"{kind}/{item.id}")
    if not too_many_bytes(own, byte_limit):
        return  # no message of it has more bytes than all of them
    own = own_begun(own, rules)
    for message in own.messages:
        words = message.words().strip()
        if "<" not in words and more_bytes(words, byte_limit):
            result = f": result {result_name(message)}" if message.tool_result is not None else ""
            raise RefusalSignal("input_too_large", f"turn {own.id}{result}")


def _gone(layered: Layered, passages: tuple[Passage, ...]) -> tuple[Removal, ...]:
    kept = {passage.citation_id for passage in passages}
    return tuple(
        Removal(f"passage/{passage.citation_id}", "duplicate" if passage.citation_id in layered.twins else "too_large")
        for passage in layered.passages
        if passage.citation_id not in kept
    )
