"""Certify a bundle for text or messages: plan small conversations, ask the runtime what it reads of them, judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

from planner.bundles.certificates import certificates, keep_certificate
from planner.bundles.records import Records
from planner.encoding.encoder import Encoder
from planner.runtimes.parity import ParitySource
from planner.steps.certify import SAMPLES, judge
from planner.steps.mode import shapes_of
from planner.values.certificate import SHAPES, Certificate, CertifiedMode, Vector
from planner.values.digest import ids_bytes
from planner.values.plan import Plan, Refusal
from planner.values.prompt import TemplateInputs
from planner.values.reasons import PlannerFault
from planner.values.request import Options
from planner.values.runtime import Runtime

_OUTPUT = 16
Asking = Callable[..., Plan | Refusal]
"""`Planner.plan`."""


def certify(plan: Asking, encoder: Encoder, source: ParitySource, mode: CertifiedMode, records: Records) -> Certificate:
    """Return the certificate that a running server earns for a mode, and keep it among the bundle's records.

    plan      `Planner.plan` of the planner whose encoder this is; it then plans in the mode.
    source    the server, which must run the bundle's model.
    Raises PlannerFault certificate_refused, upstream_down, upstream_failed; the certificate there was stays then.
    """
    manifest = encoder.bundle.manifest
    runtime = manifest.runtime
    if runtime is None or runtime.version is None:
        lacking = "names no runtime" if runtime is None else "states no version of its runtime"
        raise PlannerFault("certificate_refused", f"the manifest {lacking}")
    before = encoder.certificates
    # A count alone cannot tell a begin token of the runtime from any other token that it adds.
    begins = mode == "text" and runtime.profile.begin_rule != "never" and source.shows_ids
    fault: PlannerFault | None = None
    for runtime_begins in (False, True) if begins else (False,):
        leave = Certificate(mode, runtime.name, (runtime.version,), SHAPES, exact=True, runtime_begins=runtime_begins)
        encoder.certificates = {mode: leave}
        try:
            found = judge(mode, runtime, _vectors(plan, source, mode, runtime), begins=runtime_begins)
        except PlannerFault as one:
            fault = fault or one
            if one.code != "certificate_refused":
                break
        else:
            keep_certificate(records, found)
            encoder.certificates = {**before, mode: found}
            return found
        finally:
            if encoder.certificates == {mode: leave}:
                encoder.certificates = before
    if fault is None:
        raise AssertionError("one attempt at least was made")
    raise PlannerFault(fault.code, fault.detail)


def remeasure(plan: Asking, encoder: Encoder, source: ParitySource, records: Records) -> int:
    """Ask a running server again what it reads, after a drift (X60); return how many conversations agreed.

    A llama.cpp server is given exact ids; any other one is compared in the modes that it is certified for.
    Raises PlannerFault runtime_mismatch or certificate_refused for a difference, also where nothing can be compared.
    """
    if not source.shows_ids:
        modes = [one.mode for one in certificates(records).values()]
        if not modes:
            raise PlannerFault("certificate_refused", "the server takes no ids, and no mode is certified")
        return sum(len(certify(plan, encoder, source, mode, records).vectors) for mode in modes)
    runtime = encoder.bundle.manifest.runtime
    added = 0 if runtime is None else runtime.overhead_tokens
    agreed = 0
    for sample in SAMPLES:
        made = plan(messages=sample.messages, tools=sample.tools, max_completion_tokens=_OUTPUT)
        if isinstance(made, Plan):
            read = source.ids(made.ids).tokens
            if read != len(made.ids) + added:
                figures = f"{len(made.ids) + added} tokens planned, the runtime reads {read}"
                raise PlannerFault("runtime_mismatch", f"{sample.name}: {figures}")
            agreed += 1
    if not agreed:
        raise PlannerFault("runtime_mismatch", "no conversation could be planned, so none was compared")
    return agreed


def _vectors(plan: Asking, source: ParitySource, mode: CertifiedMode, runtime: Runtime) -> Iterator[Vector]:
    """Yield a vector per conversation that the bundle's template can carry."""
    for sample in SAMPLES:
        made = plan(
            messages=sample.messages, tools=sample.tools, max_completion_tokens=_OUTPUT, options=Options(mode=mode)
        )
        if not isinstance(made, Plan):
            continue
        prompt = made.prompt or ""
        read = source.text(prompt) if mode == "text" else source.messages(made.messages or (), sample.tools)
        compared = read.ids is not None and runtime.overhead_tokens == 0
        yield Vector(
            name=sample.name,
            shapes=shapes_of(TemplateInputs(sample.messages, sample.tools), prompt),
            planned_tokens=len(made.ids) + runtime.overhead_tokens,
            counted_tokens=read.tokens,
            same_ids=read.ids == tuple(made.ids) if compared else None,
            digest=sha256(ids_bytes(made.ids)).hexdigest(),
        )
