"""`planner verify`: the structural validator of a plan file, and with the request the deep one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import Overrides, overriding, plan_as_kept, read_request, stored_request
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.opening import open_ledger

if TYPE_CHECKING:
    from planner.gate.deep import Finding

EPILOG = """\b
Examples:
  planner plan request.json --plan-file plan.json
  planner verify plan.json
  planner verify plan.json --request request.json --bundle qwen3-0.6b
  planner verify plan.json --compat

Exit 0 with one line on stdout, or exit 2 with one line on stderr. It says nothing about what a model does with
the prompt.
"""


@click.command("verify", epilog=EPILOG)
@click.argument("plan_files", nargs=-1, metavar="PLANFILE.json")
@click.option("--compat", is_flag=True, help="Only the checks of the published script, to the letter.")
@click.option("--request", metavar="REQUEST.json", help="Plan this request again and hold the file against it.")
@click.option("--ledger", metavar="DB", help="With --conversation: history and summaries come from this ledger.")
@click.option("--conversation", metavar="ID", help="With --ledger: id of the conversation.")
@overriding
def command(plan_files: tuple[str, ...], compat: bool, **given: Any) -> int:
    """Check a plan file: its structure, and with the request also tokens, coverage, citations and tools.

    The structure is checked without a model and without a text. With --request or --ledger the prompt is made
    and encoded again with nothing remembered, and every number of the file must come out.
    """
    from planner.gate.plan_file import judge_arguments

    deep = given["request"] is not None or given["ledger"] is not None
    if compat and deep:
        raise usage("--compat is the published script, which reads the plan file alone")
    verdict = judge_arguments(plan_files, compat=compat)
    if verdict.plan is None:
        click.echo(verdict.line, err=True)
        return REFUSED
    if deep:
        found = _deep(verdict.plan, given)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            complain("plan_file_differs", f"{found[0].line}{more}")
            return REFUSED
    click.echo(verdict.line)
    return 0


def _deep(plan: dict[str, Any], given: dict[str, Any]) -> list[Finding]:
    from planner.cli.asking import planner_for
    from planner.gate.deep import findings

    overrides = Overrides.taken_from(given)
    with ExitStack() as opened:
        store = None
        if given["ledger"] is None:
            request = read_request(given["request"])
        elif given["conversation"] is None:
            raise usage("--ledger needs --conversation")
        else:
            store = opened.enter_context(open_ledger(given["ledger"], read_only=True))
            request = stored_request(store, given["conversation"], given["request"])
        planner = planner_for(overrides.bundle or request.model_bundle_id, overrides.engine)
        request = overrides.apply(request, planner.bundle_id)
        again = None if store is None else plan_as_kept(store, request, planner)
    if again is None:
        again = planner.plan(request)
    return findings(plan, request, again, planner.encoder(app_version=request.app_version).bundle)
