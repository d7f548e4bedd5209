"""`planner policy`: check a policy before it is published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import DEFAULT_BUNDLE, planner_for
from planner.cli.failure import REFUSED, complain
from planner.cli.files import read_input
from planner.cli.opening import as_tree
from planner.cli.whatif import split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.values.policy_file import Finding, FixedCost, PolicyFile

EPILOG = """\b
Examples:
  planner policy lint policy.json
  planner policy lint policy.json --published published.json --bundles qwen3-0.6b,./my-model
  planner policy lint policy.json --json > cost.json     what is stored with the published policy
"""


@click.group("policy", epilog=EPILOG)
def command() -> None:
    """Check policy texts before they are published."""


@command.command("lint")
@click.argument("policy", metavar="POLICY.json|-")
@click.option("--bundles", metavar="A,B,...", help="Bundle ids or paths to measure on; default: qwen3-0.6b.")
@click.option("--published", metavar="OLD.json", help="The policy that is published now, to compare with.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="N",
    help="Input limit the share is taken of; default: the largest approved tier.",
)
@click.option("--json", "as_json", is_flag=True, help="Print findings, costs and growth as JSON.")
def lint_command(policy: str, bundles: str | None, published: str | None, window: int | None, as_json: bool) -> int:
    """Check stable ids, wording, constraint texts, and the fixed cost of a policy on each bundle.

    The cost is measured by planning with the policy. Exit 2 with one line for each finding.
    """
    from planner.lint import growth, lint_bundles

    new = _read(policy)
    old = None if published is None else _read(published)
    planners = [planner_for(ref) for ref in split("--bundles", bundles) or [DEFAULT_BUNDLE]]
    found, costs, before = lint_bundles(new, [(one.bundle_id, one.plan) for one in planners], old, limit=window)
    if as_json:
        grown = {cost.bundle_id: dict(growth(cost, before[cost.bundle_id])) for cost in costs
                 if cost.bundle_id in before}  # fmt: skip
        tree = {"policyVersion": new.policy_version, "findings": as_tree(found), "fixedCost": _costs(costs),
                "growth": grown}  # fmt: skip
        click.echo(json.dumps(tree, indent=1))
    else:
        _draw(found, costs, before)
    if not found:
        return 0
    complain("policy_rejected", f"{len(found)} findings")
    return REFUSED


def _read(name: str) -> PolicyFile:
    from planner.values.strict_json import REQUEST_BOUNDS
    from planner.wire.parse import parse_policy_file

    return parse_policy_file(read_input(name, REQUEST_BOUNDS.total_bytes))


def _costs(costs: list[FixedCost]) -> list[dict[str, Any]]:
    return [{**as_tree(cost), "policy": dict(cost.policy), "tools": dict(cost.tools)} for cost in costs]


def _draw(found: list[Finding], costs: list[FixedCost], before: Mapping[str, FixedCost]) -> None:
    from planner.cli.draw import rows, say
    from planner.lint import growth

    for one in found:
        where = "" if one.bundle_id is None else f" on {one.bundle_id}"
        about = f" {', '.join(one.ids)}:" if one.ids else ""
        say(f"{one.code}{where}:{about} {one.sentence}")
    cells = []
    for cost in costs:
        old = before.get(cost.bundle_id)
        figures = (cost.policy_tokens, cost.tool_tokens, cost.constraint_tokens, cost.framing_tokens, cost.fixed_tokens)
        change = "" if old is None else f"{cost.fixed_tokens - old.fixed_tokens:+,}"
        share = f"{100 * cost.fixed_tokens / cost.input_limit:.1f} % of {cost.input_limit:,}"
        cells.append((cost.bundle_id, *(f"{figure:,}" for figure in figures), change, share))
    if cells:
        heads = ("bundle", "policy", "tools", "constraints", "framing", "fixed", "growth", "share")
        rows(heads, cells, right=(1, 2, 3, 4, 5, 6))
    for cost in costs:
        changes = growth(cost, before[cost.bundle_id]) if cost.bundle_id in before else []
        if changes:
            rows((f"growth on {cost.bundle_id}", "tokens"), [(name, f"{by:+,}") for name, by in changes], right=(1,))
