"""`planner plan`: one request or chat to ids, account and receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import Overrides, overriding, plan_chat, plan_request, plan_stored
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import STDIO, check_outputs, write_output
from planner.cli.opening import off_option, open_as_possible, open_ledger, switches

if TYPE_CHECKING:
    from planner.values.plan import Plan, Refusal

EPILOG = """\b
Examples:
  planner plan request.json --bundle qwen3-0.6b
  planner plan request.json --window 4096 --json > plan.json
  planner plan --chat chat.json --tools tools.json --ids ids.npy --receipt receipt.json
  planner plan --chat - --bundle ./my-model --ids - < chat.json > ids.npy
  planner plan --ledger chat.db --conversation c1 --window 8192

Files are written whole or not at all, and ids, prompt and plan file only for an accepted plan; a receipt
is written for a refusal too.
"""


@click.command("plan", epilog=EPILOG)
@click.argument("request", required=False, metavar="[REQUEST.json|-]")
@click.option("--chat", metavar="CHAT.json|-", help="Plan an OpenAI-style message list instead of a request.")
@click.option("--tools", metavar="TOOLS.json", help="Tool declarations that go with --chat.")
@click.option("--ledger", metavar="DB", help="Plan a conversation of this ledger and store the receipt there.")
@click.option("--conversation", metavar="ID", help="With --ledger: id of the conversation.")
@click.option("--no-record", is_flag=True, help="With --ledger: write nothing to it.")
@off_option
@overriding
@click.option("--json", "as_json", is_flag=True, help="Print the plan or refusal as JSON on stdout.")
@click.option("--receipt", metavar="R.json|-", help="Write the text-free receipt.")
@click.option("--plan-file", metavar="F.json|-", help="Write the plan file of the structural gate.")
@click.option("--ids", metavar="OUT.npy|-", help="Write the ids as a one-dimensional int32 .npy array.")
@click.option("--prompt", metavar="OUT.txt|-", help="Write the prompt text; it holds your conversation.")
def command(request: str | None, **given: Any) -> int:
    """Plan one call: which token ids go to the model, what was left out and why.

    REQUEST is a PlanRequest (planner schema prints its format). A plan is accepted whole or refused; nothing
    is trimmed silently. With --ledger, history and summaries come from there, and REQUEST may hold policy and
    tools alone, or be absent: then the policy stored with the conversation is used.
    """
    overrides = Overrides.taken_from(given)
    chat, tools, ledger = given["chat"], given["tools"], given["ledger"]
    _check_sources(request, given)
    outputs = {f"--{name.replace('_', '-')}": given[name] for name in _OUTPUTS}
    printed = ["--json"] * given["as_json"] + [f"{option} -" for option, name in outputs.items() if name == STDIO]
    if len(printed) > 1:
        raise usage(f"{printed[0]} and {printed[1]} both want stdout")
    check_outputs(outputs, (request, chat, tools, ledger))
    if ledger is not None:
        answer = _from_ledger(request, overrides, given)
    elif request is not None:
        answer = plan_request(request, overrides)
    else:
        answer = plan_chat(chat, tools, overrides)
    _write_files(answer, given)
    if given["as_json"]:
        write_output(STDIO, _json(answer) + b"\n")
    return show(answer, quiet=bool(printed))


def _check_sources(request: str | None, given: dict[str, Any]) -> None:
    """Refuse sources that contradict each other."""
    if given["ledger"] is not None:
        if given["chat"] is not None:
            raise usage("--chat brings its own history; see planner ledger import")
        if given["conversation"] is None:
            raise usage("--ledger needs --conversation")
    elif given["conversation"] is not None or given["no_record"] or given["off"]:
        raise usage("--conversation, --no-record and --off go with --ledger")
    elif (request is None) == (given["chat"] is None):
        raise usage("name either a request or --chat; see planner plan --help")
    if given["tools"] is not None and given["chat"] is None:
        raise usage("--tools goes with --chat; a request holds its own tools")


def _from_ledger(request: str | None, overrides: Overrides, given: dict[str, Any]) -> Plan | Refusal:
    name, record = given["ledger"], not given["no_record"]
    with open_as_possible(name) if record else open_ledger(name, read_only=True) as store:
        if record and store.read_only:
            click.echo("nothing is recorded: the ledger may only be read here", err=True)
        return plan_stored(store, given["conversation"], request, overrides, switches(given["off"]))


def show(answer: Plan | Refusal, *, quiet: bool = False) -> int:
    """Draw an answer unless `quiet`, print a refusal's line, and return the exit code."""
    from planner.values.plan import Plan

    if isinstance(answer, Plan):
        if not quiet:
            from planner.cli.draw import draw_plan

            draw_plan(answer)
        return 0
    complain(answer.reason, answer.detail)
    if not quiet:
        from planner.cli.draw import draw_refusal

        draw_refusal(answer)
    return REFUSED


_OUTPUTS = ("receipt", "plan_file", "ids", "prompt")


def _json(answer: Plan | Refusal) -> bytes:
    from planner.values.plan import Plan
    from planner.wire.dump import dump_plan, dump_refusal

    return dump_plan(answer) if isinstance(answer, Plan) else dump_refusal(answer)


def _write_files(answer: Plan | Refusal, given: dict[str, Any]) -> None:
    from planner.values.plan import Plan
    from planner.wire.dump import dump_plan_file, dump_receipt
    from planner.wire.ids_file import ids_to_npy

    if given["receipt"] is not None:
        write_output(given["receipt"], dump_receipt(answer.receipt) + b"\n")
    if not isinstance(answer, Plan):
        return
    if given["plan_file"] is not None:
        write_output(given["plan_file"], dump_plan_file(answer.plan_file) + b"\n")
    if given["prompt"] is not None:
        write_output(given["prompt"], (answer.prompt or "").encode())
    if given["ids"] is not None:
        write_output(given["ids"], ids_to_npy(answer.ids))
