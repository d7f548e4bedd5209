"""Measuring a budget: every figure is the account of a plan or the difference of two (M6, R27)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.bundles.bound import text_bound
from planner.bundles.typical import language_costs, samples
from planner.encoding.encoder import Encoder
from planner.gate.budget_framing import Sized, framings
from planner.gate.limits import Planning
from planner.lint import fixed_cost
from planner.values.budget import (
    BundleBudget,
    ClassCost,
    FixedPart,
    ItemCharge,
    MeasuredBound,
    PartCharge,
    TierRoom,
)
from planner.values.digest import canonical, digest
from planner.values.plan import Plan, Refusal
from planner.values.policy_file import PolicyFile
from planner.values.request import CurrentRequest, PlanRequest, Tool
from planner.values.text_bound import TextBound

QUESTION = CurrentRequest(id="q", text="?")
MARGIN = 0.25
"""What is added to a measured figure, as a share of it."""
_UNBOUNDED = 10**9


@dataclass(frozen=True, slots=True)
class Shipped:
    """A bundle as the app has it: its encoder, the planning function of its planner, and its proven bound.

    `plan` asks as the app of one version, whose template may be another than that of other versions (R177).
    """

    encoder: Encoder
    plan: Planning
    bound: TextBound

    @property
    def bundle_id(self) -> str:
        """Its id."""
        return self.encoder.bundle.manifest.id


def shipped(encoder: Encoder, plan: Planning, app_version: str | None = None) -> Shipped:
    """Return a bundle of files with its bound; any other kind of bundle has none that is proven."""
    loaded = getattr(encoder.bundle, "parts", None)
    unknown = TextBound(False, "unknown", 0, None)
    bound = text_bound(loaded[0], encoder.bundle.manifest) if loaded else unknown

    def asked(request: PlanRequest) -> Plan | Refusal:
        return plan(replace(request, app_version=app_version))

    return Shipped(encoder, asked, bound)


def fixed_request(source: PolicyFile | PlanRequest, bundle_id: str) -> PlanRequest:
    """Return the request that holds what every plan holds and asks `?`."""
    if isinstance(source, PolicyFile):
        return PlanRequest(bundle_id, QUESTION, policy_version=source.policy_version, policy=source.policy,
                           tools=source.tools)  # fmt: skip
    return PlanRequest(
        bundle_id, QUESTION, policy_version=source.policy_version, policy=source.policy, tools=source.tools,
        data_scope=source.data_scope, output_schema=source.output_schema, now=source.now, options=source.options,
        reserved_output_tokens=source.reserved_output_tokens, reserved_output=source.reserved_output,
        safety_margin_tokens=source.safety_margin_tokens, template_options=source.template_options,
    )  # fmt: skip


def budget_of(source: PolicyFile | PlanRequest, there: Shipped, tiers: Sequence[str] = ()) -> BundleBudget | Refusal:
    """Measure what the policy, tools and schema of a file cost on one bundle.

    tiers  ids of approved tiers or whole numbers of tokens; by default every approved tier of the bundle.

    Returns the refusal that says why the bundle cannot carry them. Raises PlannerFault as planning does.
    """
    request = replace(fixed_request(source, there.bundle_id), max_input_tokens=_UNBOUNDED)
    base = there.plan(request)
    if isinstance(base, Refusal):
        return base
    fixed = _fixed(source, request, base, there)
    manifest = there.encoder.bundle.manifest
    return BundleBudget(
        bundle_id=there.bundle_id,
        bundle_digest=manifest.digest,
        fixed=fixed,
        framing=tuple(framings(request, there.plan, Sized(there.encoder, there.bound))),
        tiers=tuple(_rooms(request, fixed, there, tiers)),
        proven=there.bound,
        measured=_measured(there.encoder),
    )


def _fixed(source: PolicyFile | PlanRequest, request: PlanRequest, base: Plan, there: Shipped) -> FixedPart:
    account = base.account
    constraints = 0
    if isinstance(source, PolicyFile) and source.constraints:
        cost = fixed_cost(source, there.plan, there.bundle_id)
        constraints = 0 if isinstance(cost, Refusal) else cost.constraint_tokens
    return FixedPart(
        policy_tokens=account.policy_tokens,
        tool_tokens=account.tool_tokens,
        question_tokens=account.request_tokens,
        framing_tokens=account.framing_tokens,
        input_tokens=len(base.ids),
        constraint_tokens=constraints,
        proven_tokens=Sized(there.encoder, there.bound).proven(base.prompt or ""),
        items=tuple(_items(request, base, there.plan)),
    )


def _items(request: PlanRequest, base: Plan, plan: Planning) -> Iterator[ItemCharge]:
    charged = base.account.items

    def saved(changed: PlanRequest) -> int | None:
        answer = plan(changed)
        return None if isinstance(answer, Refusal) else len(base.ids) - len(answer.ids)

    def one(key: str, without: PlanRequest) -> ItemCharge:
        return ItemCharge(key, charged.get(key, 0), saved(without))

    for place, item in enumerate(request.policy):
        yield one(f"policy/{item.id}", replace(request, policy=_without(request.policy, place)))
    for place, item in enumerate(request.data_scope):
        yield one(f"scope/{item.id}", replace(request, data_scope=_without(request.data_scope, place)))
    if request.output_schema is not None:
        yield one(f"schema/{request.output_schema.id}", replace(request, output_schema=None))
    for place, tool in enumerate(request.tools):
        whole = one(f"tool/{tool.id}", replace(request, tools=_without(request.tools, place)))
        parts = tuple(
            PartCharge(path, saved(replace(request, tools=(*request.tools[:place], less, *request.tools[place + 1 :]))))
            for path, less in _lesser(tool)
        )
        yield replace(whole, parts=parts, rest_tokens=_rest(whole, parts))
    yield ItemCharge("request/q", charged.get("request/q", 0), charged.get("request/q", 0))


def _rest(whole: ItemCharge, parts: Sequence[PartCharge]) -> int | None:
    saved = [part.saved_tokens for part in parts if not part.path.endswith("/description")]
    if whole.saved_tokens is None or None in saved:
        return None
    return whole.saved_tokens - sum(tokens or 0 for tokens in saved)


def _without(items: Sequence[Any], place: int) -> tuple[Any, ...]:
    return (*items[:place], *items[place + 1 :])


def _lesser(tool: Tool) -> Iterator[tuple[str, Tool]]:
    """Give the tool without its description, without each parameter, without each parameter's description."""
    function = tool.declaration.get("function", tool.declaration)
    if "description" in function:
        yield "description", _changed(tool, {key: value for key, value in function.items() if key != "description"})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(parameters, Mapping) or not isinstance(properties, Mapping):
        return
    for name, schema in properties.items():
        others = {key: value for key, value in properties.items() if key != name}
        less = {**parameters, "properties": others}
        if isinstance(less.get("required"), list):
            less["required"] = [one for one in less["required"] if one != name]
        yield f"parameters/{name}", _changed(tool, {**function, "parameters": less})
        if isinstance(schema, Mapping) and "description" in schema:
            bare = {key: value for key, value in schema.items() if key != "description"}
            kept = {**parameters, "properties": {**properties, name: bare}}
            yield f"parameters/{name}/description", _changed(tool, {**function, "parameters": kept})


def _changed(tool: Tool, function: dict[str, Any]) -> Tool:
    nested = "function" in tool.declaration
    return replace(tool, declaration={**tool.declaration, "function": function} if nested else function)


def _rooms(request: PlanRequest, fixed: FixedPart, there: Shipped, tiers: Sequence[str]) -> Iterator[TierRoom]:
    manifest = there.encoder.bundle.manifest
    for name in tiers or [tier.id for tier in manifest.tiers]:
        number = name.isascii() and name.isdigit()
        limit = {"max_input_tokens": int(name)} if number else {"tier_id": name, "max_input_tokens": None}
        answer = there.plan(replace(request, **limit))
        account = answer.account
        if account is None:
            yield TierRoom(name, 0, 0, None, answer.receipt.reason)
            continue
        room = account.usable_tokens - account.reserved_output_tokens - fixed.fixed_tokens
        yield TierRoom(name, account.input_limit, account.reserved_output_tokens, room, answer.receipt.reason)


def _measured(encoder: Encoder) -> MeasuredBound:
    most: dict[str, float] = {}
    for row in language_costs(encoder.bundle.engine):
        most[row.script] = max(most.get(row.script, 0.0), row.tokens_per_character)
    classes = tuple(ClassCost(name, round(cost, 4), round(cost * (1 + MARGIN), 4)) for name, cost in most.items())
    return MeasuredBound("typical.json", digest(canonical(samples()["languages"])), MARGIN, classes)
