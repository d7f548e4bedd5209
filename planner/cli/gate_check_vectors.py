"""`planner gate check-vectors`: hold a planner, ours or a port's answers, against a kit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import planner_for
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.opening import as_tree
from planner.cli.whatif import split
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.gate.vectors_check import Answering
    from planner.values.plan import Plan, Refusal
    from planner.values.request import PlanRequest


@click.command("check-vectors")
@click.argument("folder", metavar="DIR")
@click.option("--bundles", metavar="A,B,...", help="Where the kit's bundles are; default: by their ids.")
@click.option("--answers", metavar="DIR", help="Compare the answers of a port instead of planning.")
@click.option("--json", "as_json", is_flag=True, help="Print every difference as JSON.")
def command(folder: str, bundles: str | None, answers: str | None, as_json: bool) -> int:
    """Compare a planner with the vectors of a kit: this one, or the answers a port has written.

    Exit 0 where every answer is the expected one, exit 2 with one line otherwise.
    """
    from planner.gate.vectors_check import check_kit, read_kit

    if answers is not None and (not Path(answers).is_dir() or bundles is not None):
        raise usage("--answers names a folder and stands without --bundles")
    kit = read_kit(Path(folder))
    plan = _planning(kit, split("--bundles", bundles)) if answers is None else _never
    found = dict(check_kit(Path(folder), kit, plan, None if answers is None else Path(answers)))
    wrong = [one for row in found.values() for one in row]
    if as_json:
        click.echo(json.dumps({"vectors": len(found), "differences": as_tree(wrong)}, indent=1))
    else:
        click.echo(f"{len(found)} vectors, {sum(not row for row in found.values())} as expected")
        for one in wrong:
            click.echo(f"{one.file}: {one.path}")
    if wrong:
        complain("vectors_differ", f"{sum(bool(row) for row in found.values())} of {len(found)} vectors")
        return REFUSED
    return 0


def _planning(kit: dict[str, Any], refs: list[str]) -> Answering:
    """Open the bundles of a kit, by their ids where nothing else is named. Raises PlannerFault bundle_mismatch."""
    from planner.gate.vectors_check import bundle_digests

    wanted = bundle_digests(kit)
    planners = {one.bundle_id: one for one in map(planner_for, refs or wanted)}
    for name, digest in wanted.items():
        if name in planners and planners[name].encoder().bundle.manifest.digest != digest:
            raise PlannerFault("bundle_mismatch", f"{name} is not the bundle the kit was written for")

    def plan(request: PlanRequest) -> Plan | Refusal:
        name = request.model_bundle_id
        if name not in planners:
            raise PlannerFault("bundle_not_found", "a vector is for a bundle that was not named")
        return planners[name].plan(request)

    return plan


def _never(_: PlanRequest) -> Plan | Refusal:
    raise RuntimeError("the answers of a port are compared, nothing is planned")
