"""`planner plan`: one request or chat to ids, account and receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import Overrides, overriding, plan_chat, plan_request
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import STDIO, check_outputs, write_output

if TYPE_CHECKING:
    from planner.values.plan import Plan, Refusal

EPILOG = """\b
Examples:
  planner plan request.json --bundle qwen3-0.6b
  planner plan request.json --window 4096 --json > plan.json
  planner plan --chat chat.json --tools tools.json --ids ids.npy --receipt receipt.json
  planner plan --chat - --bundle ./my-model --ids - < chat.json > ids.npy

Files are written whole or not at all, and ids, prompt and plan file only for an accepted plan; a receipt
is written for a refusal too.
"""


@click.command("plan", epilog=EPILOG)
@click.argument("request", required=False, metavar="[REQUEST.json|-]")
@click.option("--chat", metavar="CHAT.json|-", help="Plan an OpenAI-style message list instead of a request.")
@click.option("--tools", metavar="TOOLS.json", help="Tool declarations that go with --chat.")
@overriding
@click.option("--json", "as_json", is_flag=True, help="Print the plan or refusal as JSON on stdout.")
@click.option("--receipt", metavar="R.json", help="Write the text-free receipt.")
@click.option("--plan-file", metavar="F.json", help="Write the plan file of the structural gate.")
@click.option("--ids", metavar="OUT.npy|-", help="Write the ids as a one-dimensional int32 .npy array.")
@click.option("--prompt", metavar="OUT.txt", help="Write the prompt text; it holds your conversation.")
def command(request: str | None, **given: Any) -> int:
    """Plan one call: which token ids go to the model, what was left out and why.

    REQUEST is a PlanRequest (planner schema prints its format). A plan is accepted whole or refused; nothing
    is trimmed silently.
    """
    overrides = Overrides.taken_from(given)
    chat, tools = given["chat"], given["tools"]
    if (request is None) == (chat is None):
        raise usage("name either a request or --chat; see planner plan --help")
    if tools is not None and chat is None:
        raise usage("--tools goes with --chat; a request holds its own tools")
    if given["as_json"] and given["ids"] == STDIO:
        raise usage("--json and --ids - both want stdout")
    outputs = {f"--{name.replace('_', '-')}": given[name] for name in _OUTPUTS}
    check_outputs(outputs, (request, chat, tools))
    answer = plan_request(request, overrides) if request is not None else plan_chat(chat, tools, overrides)
    _write_files(answer, given)
    if given["as_json"]:
        write_output(STDIO, _json(answer) + b"\n")
    return show(answer, quiet=given["as_json"] or given["ids"] == STDIO)


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
