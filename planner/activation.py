"""Examine a template before it is activated: probe it, plan samples through both bundles, gather the evidence (R176).

Nothing is written here: the caller keeps the file and the record when the verdict lets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner.bundles.candidate import open_built_in, open_candidate
from planner.bundles.digest import sha256_hex
from planner.bundles.files import parse_text
from planner.runtimes.portability import differs_on
from planner.runtimes.renderers import Renderer
from planner.steps.activation_verdict import activation_verdict, target_cells
from planner.values.activation import TemplateVersion
from planner.values.activation_evidence import ActivationEvidence, BudgetRun, Cost, Differences, Probed
from planner.values.bundle import Bundle
from planner.values.candidate import MatrixCell
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Message, ToolCall, ToolResult, Turn

Planning = Callable[[PlanRequest], Plan | Refusal]
AS_ASKED = ""
"""Stands for the limit that a sample names itself."""
IMMUTABLE_LAYERS = frozenset({"immutable_policy", "output_schema", "tools", "required_request"})
_REFUSED_BY_PROBE = frozenset({"template_rejected", "template_content_dependent", "tokenizer_failed"})


@dataclass(frozen=True, slots=True)
class Sample:
    """A request as it is planned with the template in force, and as it will be with the new one.

    They differ where system text, output schema or tools change together with the template (R175).
    """

    name: str
    before: PlanRequest
    after: PlanRequest


@dataclass(frozen=True, slots=True)
class Trial:
    """A template that wants to be activated.

    data         its bytes as they were fetched, None where fetching failed.
    template     the version as its publisher states it; the digest of the bundle with it is not known yet.
    cells        of the capability matrix, None without one.
    engines      of the runtimes the app meets: a template is not activated for one it differs on.
    """

    bundle_id: str
    template: TemplateVersion
    data: bytes | None = field(repr=False)
    app_version: str | None = None
    cells: tuple[MatrixCell, ...] | None = None
    samples: tuple[Sample, ...] = ()
    engines: tuple[Renderer, ...] = ()
    user_folder: Path | None = None
    cache_dir: Path | None = None


def examine(trial: Trial, current: Bundle, planning: Callable[[Bundle | str], Planning]) -> ActivationEvidence:
    """Return the evidence on a trial; a stage after one that failed is not run.

    current   the bundle as the activating app has it now.
    planning  gives the planning function of a bundle, or of the id in force for whatever app a request names.
    Raises PlannerFault where the bundle itself or an engine cannot be used.
    """
    data = trial.data
    built_in = open_built_in(trial.bundle_id, user_folder=trial.user_folder, cache_dir=trial.cache_dir)
    evidence = ActivationEvidence(
        trial.bundle_id,
        trial.template,
        None if data is None else sha256_hex(data),
        trial.app_version,
        (built_in.manifest.digest, current.manifest.digest),
        trial.cells,
    )
    stopped = {one.code for one in activation_verdict(evidence).findings} - {"not_measured", "uncovered_cell"}
    if stopped or data is None:
        return evidence
    before = current.profile
    try:
        text = parse_text(data, "the template")
        bundle, template = open_candidate(
            trial.bundle_id, trial.template, text, user_folder=trial.user_folder, cache_dir=trial.cache_dir
        )
        after = bundle.profile
    except PlannerFault as fault:
        if fault.code not in _REFUSED_BY_PROBE and fault.code != "bundle_unsafe":
            raise
        return replace(evidence, probed=Probed(before, None, f"{fault.code}: {fault.detail}"))
    evidence = replace(
        evidence,
        template=template,
        digests=(*evidence.digests, template.bundle_digest),
        probed=Probed(before, after),
        differences=tuple(Differences(one.name, differs_on(bundle, one)) for one in trial.engines),
    )
    places = _places(evidence, bundle)
    samples = trial.samples or builtin_samples(trial.bundle_id)
    # A sample may be written for another bundle: here it is asked of this one, or nothing of it was measured.
    own = [replace(one, before=_of(trial, one.before), after=_of(trial, one.after)) for one in samples]
    return replace(evidence, runs=budget_runs(own, places, planning(trial.bundle_id), planning(bundle)))


def _of(trial: Trial, request: PlanRequest) -> PlanRequest:
    # A template that is not in force has no certificate for text or messages; what it costs is the same in ids.
    options = replace(request.options, mode="ids")
    return replace(request, model_bundle_id=trial.bundle_id, options=options)


def _places(evidence: ActivationEvidence, bundle: Bundle) -> list[tuple[str | None, str]]:
    """Return each app version with each limit it may use, once; without a matrix the approved tiers stand for it."""
    tiers = tuple(tier.id for tier in bundle.manifest.tiers) or (AS_ASKED,)
    if evidence.cells is None:
        return [(evidence.app_version, limit) for limit in tiers]
    return list(
        dict.fromkeys(
            (cell.app_version, limit) for cell in target_cells(evidence) for limit in (cell.limits or tiers)
        )
    )  # fmt: skip


def budget_runs(
    samples: Sequence[Sample], places: Sequence[tuple[str | None, str]], before: Planning, after: Planning
) -> tuple[BudgetRun, ...]:
    """Plan every sample in every place through both bundles; each figure is a plan of its own (R175, R180).

    places  app version and limit: a tier's id, a whole number of tokens, or AS_ASKED.
    """
    return tuple(
        BudgetRun(
            sample.name,
            app_version,
            limit,
            cost_of(before(within(sample.before, app_version, limit))),
            cost_of(after(within(sample.after, app_version, limit))),
        )
        for app_version, limit in places
        for sample in samples
    )


def within(request: PlanRequest, app_version: str | None, limit: str) -> PlanRequest:
    """Return a request as an app of this version asks it under a limit."""
    asked = request if app_version is None else replace(request, app_version=app_version)
    if limit == AS_ASKED:
        return asked
    if limit.isdecimal() and limit.isascii():
        return replace(asked, tier_id=None, max_input_tokens=int(limit))
    return replace(asked, tier_id=limit, max_input_tokens=None)


def cost_of(answer: Plan | Refusal) -> Cost:
    """Return what an answer says of cost and of the ids that may never leave; of a refusal only what was measured."""
    account, receipt = answer.account, answer.receipt
    tokens, limit = (None, None) if account is None else (account.input_tokens, account.input_limit)
    if isinstance(answer, Refusal):
        return Cost(receipt.bundle_digest, answer.reason, tokens, limit)
    items = answer.account.items
    never = tuple((key, items.get(key, 0)) for key, layer, _ in answer.file_items if layer in IMMUTABLE_LAYERS)
    return Cost(receipt.bundle_digest, None, tokens, limit, never)


def builtin_samples(bundle_id: str) -> tuple[Sample, ...]:
    """Return what is planned where the caller brings no samples: a policy, a tool, a call with its result."""
    plain = PlanRequest(
        model_bundle_id=bundle_id,
        request=CurrentRequest(id="question", text="Which of the two rooms is free at nine?"),
        policy=(TextItem("tone", "Answer in one sentence and name the room."),),
        reserved_output_tokens=64,
    )
    tool = Tool("rooms", {
        "type": "function",
        "function": {
            "name": "rooms",
            "description": "List free rooms.",
            "parameters": {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]},
        },
    })  # fmt: skip
    asked = Turn("t1", 1, "completed", (
        Message("user", "m1", "Is a room free at eight?"),
        Message("assistant", "m2", tool_calls=(ToolCall("call00001", "rooms", {"hour": 8}),)),
        Message("tool", "m3", tool_result=ToolResult("call00001", "No room.")),
        Message("assistant", "m4", "None is free at eight."),
    ))  # fmt: skip
    called = replace(plain, tools=(tool,), turns=(asked,))
    return (Sample("plain", plain, plain), Sample("called", called, called))
