"""Check a policy before it is published: stable ids, no wording twice, and its exact cost per bundle (R26, R27, X15).

Costs are measured by planning with the policy, so they are what every plan will pay. Nothing is written.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from planner.values.hidden import strip_hidden
from planner.values.plan import Plan, Refusal
from planner.values.policy_file import Finding, FixedCost, PolicyFile
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.turn import Message, Turn

Planning = Callable[[PlanRequest], Plan | Refusal]
_QUESTION = CurrentRequest(id="q", text="?")
_UNBOUNDED = 10**9


def lint(policy: PolicyFile, published: PolicyFile | None = None) -> list[Finding]:
    """Return what is wrong with the texts themselves, and against the published version; no bundle is needed."""
    found = [*_duplicate_ids(policy), *_duplicate_wording(policy), *_without_text(policy)]
    if published is not None:
        found += _against(policy, published)
    return found


def normalised(text: str) -> str:
    """Return a wording without what does not change its meaning: case, width, spaces, punctuation, hidden characters.

    >>> normalised("Never promise\\u200b a refund!") == normalised("never  promise a refund")
    True
    """
    folded = unicodedata.normalize("NFKC", strip_hidden(text)).casefold()
    letters = (" " if unicodedata.category(letter)[0] in "ZPC" else letter for letter in folded)
    return " ".join("".join(letters).split())


def _kinds(policy: PolicyFile) -> dict[str, list[str]]:
    return {
        "policy": [item.id for item in policy.policy],
        "tool": [tool.id for tool in policy.tools],
        "constraint": [mark.constraint_id for mark in policy.constraints],
    }


def _duplicate_ids(policy: PolicyFile) -> Iterator[Finding]:
    names = [str(tool.declaration["function"]["name"]) for tool in policy.tools]
    for kind, ids in (*_kinds(policy).items(), ("tool name", names)):
        for name in sorted({name for name in ids if ids.count(name) > 1}):
            yield Finding("duplicate_id", (f"{kind}/{name}",), f"the id stands {ids.count(name)} times")


def _texts(policy: PolicyFile) -> list[tuple[str, str]]:
    texts = [(f"policy/{item.id}", item.text) for item in policy.policy]
    return texts + [(f"constraint/{mark.constraint_id}", mark.text or "") for mark in policy.constraints]


def _duplicate_wording(policy: PolicyFile) -> Iterator[Finding]:
    groups: dict[str, list[str]] = {}
    for name, text in _texts(policy):
        groups.setdefault(normalised(text), []).append(name)
    for wording, names in groups.items():
        if wording and len(set(names)) > 1:
            yield Finding("duplicate_wording", tuple(dict.fromkeys(names)), "say the same in the same words")


def _without_text(policy: PolicyFile) -> Iterator[Finding]:
    for name, text in _texts(policy):
        if not normalised(text):
            code = "constraint_without_text" if name.startswith("constraint/") else "rule_without_text"
            yield Finding(code, (name,), "has no words to put into a prompt")


def _against(policy: PolicyFile, published: PolicyFile) -> Iterator[Finding]:
    before, now = dict(_texts(published)), dict(_texts(policy))
    renamed = {normalised(text): name for name, text in before.items() if name not in now}
    for name, text in now.items():
        old = renamed.get(normalised(text))
        if name not in before and old is not None:
            yield Finding("id_changed", (old, name), "the published wording stands under another id")
    changed = (policy.policy, policy.tools, policy.constraints) != (
        published.policy, published.tools, published.constraints,
    )  # fmt: skip
    if changed and policy.policy_version == published.policy_version:
        yield Finding("version_unchanged", (policy.policy_version,), "the texts differ under the published version")
    for kind, ids in _kinds(policy).items():
        old_ids = _kinds(published)[kind]
        both = set(ids) & set(old_ids)
        if kind != "constraint" and [name for name in ids if name in both] != [one for one in old_ids if one in both]:
            yield Finding("order_changed", (kind,), "stand in another order than published: no cached prompt serves")


def fixed_cost(policy: PolicyFile, plan: Planning, bundle_id: str, limit: int | None = None) -> FixedCost | Refusal:
    """Measure a policy on one bundle, or return the refusal that says why it cannot be planned there.

    limit  tokens that prompt and answer share; by default what a plan without a limit has.
    """
    bare = PlanRequest(bundle_id, _QUESTION, policy_version=policy.policy_version, reserved_output_tokens=0,
                       max_input_tokens=limit)  # fmt: skip
    empty = plan(bare)
    if isinstance(empty, Refusal):
        return empty
    answer = plan(replace(bare, policy=policy.policy, tools=policy.tools, max_input_tokens=_UNBOUNDED))
    if isinstance(answer, Refusal) and answer.account is None:
        return answer
    # Beyond the context there is no plan, but the overflow was measured as exactly.
    account, receipt = answer.account or empty.account, answer.receipt
    carried = _with_constraints(policy, bare, empty, plan)
    if isinstance(carried, Refusal):
        return carried
    constraint_tokens = len(carried.ids) - len(empty.ids)
    return FixedCost(
        bundle_id=bundle_id,
        bundle_digest=receipt.bundle_digest or "",
        input_limit=empty.account.input_limit,
        policy_tokens=account.policy_tokens,
        tool_tokens=account.tool_tokens,
        constraint_tokens=constraint_tokens,
        framing_tokens=account.framing_tokens,
        fixed_tokens=account.policy_tokens + account.tool_tokens + account.framing_tokens + constraint_tokens,
        policy=tuple((item.id, account.items.get(f"policy/{item.id}", 0)) for item in policy.policy),
        tools=tuple((tool.id, account.items.get(f"tool/{tool.id}", 0)) for tool in policy.tools),
    )


def _with_constraints(policy: PolicyFile, bare: PlanRequest, empty: Plan, plan: Planning) -> Plan | Refusal:
    """Plan with a turn that marks every constraint and cannot stay, so that all of their texts are carried."""
    marks = tuple(mark for mark in policy.constraints if mark.text)
    if not marks:
        return empty
    room = len(empty.ids) + 1_024 + 8 * sum(len((mark.text or "").encode()) for mark in marks)
    words = Message("user", id="m", text=" ".join(map(str, range(room))))
    turn = Turn("t", 1, "completed", (words,), must_preserve=marks)
    return plan(replace(bare, turns=(turn,), max_input_tokens=room, safety_margin_tokens=0))


def judge_cost(policy: PolicyFile, cost: FixedCost, published: FixedCost | None = None) -> list[Finding]:
    """Return which caps a measured policy breaks on one bundle (X15)."""
    caps = policy.caps
    found: list[tuple[str, str]] = []
    most = math.floor(Fraction(repr(caps.fixed_share)) * cost.input_limit)
    if cost.fixed_tokens > most:
        found.append(("fixed_share", f"{cost.fixed_tokens} fixed tokens, the cap is {most} of {cost.input_limit}"))
    if caps.policy is not None and cost.fixed_tokens > caps.policy:
        found.append(("policy_cap", f"{cost.fixed_tokens} fixed tokens, the cap is {caps.policy}"))
    if published is not None and caps.growth is not None and cost.fixed_tokens - published.fixed_tokens > caps.growth:
        grown = cost.fixed_tokens - published.fixed_tokens
        found.append(("growth_cap", f"{grown} tokens more than the published version, the cap is {caps.growth}"))
    blame = tuple(name for name, _ in growth(cost, published)) if published is not None else ()
    return [Finding(code, blame if code == "growth_cap" else (), said, cost.bundle_id) for code, said in found]


def growth(cost: FixedCost, published: FixedCost) -> list[tuple[str, int]]:
    """Return by how many tokens each rule and tool grew or shrank, the largest change first."""
    out: dict[str, int] = {}
    for kind, now, before in (("policy", cost.policy, published.policy), ("tool", cost.tools, published.tools)):
        old, new = dict(before), dict(now)
        out |= {f"{kind}/{name}": new.get(name, 0) - old.get(name, 0) for name in {**old, **new}}
    return sorted(((name, by) for name, by in out.items() if by), key=lambda one: (-abs(one[1]), one[0]))


def lint_bundles(
    policy: PolicyFile,
    bundles: Sequence[tuple[str, Planning]],
    published: PolicyFile | None = None,
    *,
    limit: int | None = None,
) -> tuple[list[Finding], list[FixedCost], Mapping[str, FixedCost]]:
    """Check texts and costs; return findings, the cost per bundle and the published one's by bundle id.

    bundles  id and planning function of each; without any only the texts are checked.
    """
    found = lint(policy, published)
    costs: list[FixedCost] = []
    before: dict[str, FixedCost] = {}
    for bundle_id, plan in bundles:
        cost = fixed_cost(policy, plan, bundle_id, limit)
        if isinstance(cost, Refusal):
            found.append(Finding("not_measured", (), f"{cost.reason}: {cost.detail}", bundle_id))
            continue
        costs.append(cost)
        if published is not None:
            old = fixed_cost(published, plan, bundle_id, limit)
            if isinstance(old, FixedCost):
                before[bundle_id] = old
        found += judge_cost(policy, cost, before.get(bundle_id))
    return found, costs, before
