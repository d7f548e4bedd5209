"""`planner gate export-budget`: fixed cost, room and bounds per bundle, as JSON and as constants for an app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import planner_for, read_request
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import not_readable, read_input, write_output
from planner.cli.opening import as_tree, progress
from planner.cli.whatif import split

if TYPE_CHECKING:
    from planner.planner import Planner
    from planner.values.budget import BundleBudget
    from planner.values.gate import Reason
    from planner.values.policy_file import PolicyFile
    from planner.values.request import PlanRequest


@click.command("export-budget")
@click.option("--candidate", required=True, metavar="CANDIDATE.json", help="What is released; its caps are the rules.")
@click.option("--policy", metavar="POLICY.json", help="The policy file with tools and constraints.")
@click.option("--request", metavar="REQUEST.json", help="Instead: a request with policy, tools and schema.")
@click.option("--bundles", required=True, metavar="A,B,...", help="Bundle ids or paths the candidate ships.")
@click.option("--tiers", metavar="4k,8192,...", help="Tiers or tokens to state the room of; default: approved tiers.")
@click.option("--against", metavar="OLD.json", help="The budget of the last release; growth is named part by part.")
@click.option("--out", metavar="DIR", help="Write budget.json and constants for TypeScript, Kotlin and Swift.")
@click.option("--json", "as_json", is_flag=True, help="Print the budget as JSON.")
def command(candidate: str, bundles: str, **given: Any) -> int:
    """Measure what every plan pays, what room is left, and how large any text can be.

    Exit 0 where the candidate's caps hold, exit 2 with one line where one is broken; the files are written all the
    same.
    """
    from planner.gate.budget_rules import growth, judge
    from planner.gate.reading import read_candidate

    release = read_candidate(Path(candidate))
    source = _source(given["policy"], given["request"])
    before = {} if given["against"] is None else _earlier(str(given["against"]))
    planners = [planner_for(ref) for ref in split("--bundles", bundles)]
    budgets = _measured(source, planners, split("--tiers", given["tiers"]), release.app_version)
    found = [reason for one in budgets for reason in judge(one, release.caps, before.get(one.bundle_id))]
    grown = {one.bundle_id: dict(growth(one, before[one.bundle_id])) for one in budgets if one.bundle_id in before}
    tree = {
        "schemaVersion": "1.0",
        "candidateId": release.candidate_id,
        "policyVersion": source.policy_version,
        "bundles": [
            {**as_tree(one), "fixed": {**as_tree(one.fixed), "fixedTokens": one.fixed.fixed_tokens}} for one in budgets
        ],
        "growth": grown,
        "reasons": as_tree(found),
    }
    if given["out"] is not None:
        _write(Path(str(given["out"])), tree, budgets, source.policy_version)
    if given["as_json"]:
        click.echo(json.dumps(tree, indent=1))
    else:
        from planner.cli.draw_budget import draw_budget

        draw_budget(budgets, grown)
    return _verdict(found)


def _source(policy: str | None, request: str | None) -> PolicyFile | PlanRequest:
    from planner.values.strict_json import REQUEST_BOUNDS
    from planner.wire.parse import parse_policy_file

    if (policy is None) == (request is None):
        raise usage("name one of --policy and --request")
    if request is not None:
        return read_request(request)
    return parse_policy_file(read_input(str(policy), REQUEST_BOUNDS.total_bytes))


def _measured(
    source: PolicyFile | PlanRequest, planners: list[Planner], tiers: list[str], app_version: str
) -> list[BundleBudget]:
    from planner.gate.budget import budget_of, shipped
    from planner.values.plan import Refusal
    from planner.values.reasons import RefusalSignal

    found: list[BundleBudget] = []
    with progress("bundles", len(planners)) as move:
        for number, planner in enumerate(planners, 1):
            budget = budget_of(
                source, shipped(planner.encoder(app_version=app_version), planner.plan, app_version), tiers
            )
            if isinstance(budget, Refusal):
                raise RefusalSignal(budget.reason, f"{planner.bundle_id}: {budget.detail}")
            found.append(budget)
            move(number)
    return found


def _earlier(name: str) -> dict[str, Any]:
    """Return the entries of an exported budget by bundle id. Raises RefusalSignal invalid-input."""
    from planner.gate.budget_rules import old_sizes
    from planner.values.strict_json import REQUEST_BOUNDS, load_strict

    tree = load_strict(read_input(name, REQUEST_BOUNDS.total_bytes))
    try:
        entries = {str(row["bundleId"]): row for row in tree["bundles"]}
        for row in entries.values():
            old_sizes(row)
            int(row["fixed"]["inputTokens"]), int(row["fixed"]["questionTokens"])
    except (TypeError, KeyError, ValueError):
        raise usage("--against is no budget that export-budget wrote") from None
    return entries


def _write(folder: Path, tree: dict[str, Any], budgets: list[BundleBudget], policy_version: str) -> None:
    from planner.gate.budget_code import kotlin, swift, typescript

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_readable(folder, error) from None
    write_output(str(folder / "budget.json"), (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode())
    for name, make in (("promptBudget.ts", typescript), ("PromptBudget.kt", kotlin), ("PromptBudget.swift", swift)):
        write_output(str(folder / name), make(budgets, policy_version).encode())


def _verdict(found: list[Reason]) -> int:
    if not found:
        return 0
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    complain("release_blocked", f"{found[0].code}: {found[0].id}{more}")
    return REFUSED
