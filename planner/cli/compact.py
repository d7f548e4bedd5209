"""`planner compact`: old turns to summaries, each step by itself or all in one go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.compacting import Asked, active_plan, compacting, judged_line, open_compactor, saved_code
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import read_input
from planner.cli.opening import as_tree, open_as_possible, open_ledger, progress

if TYPE_CHECKING:
    from planner.compaction.call import PromptedRun
    from planner.ledger.stored import Saved
    from planner.values.compaction import CompactionPlan, Rejected, Staleness, Unplanned

MAX_ANSWER_BYTES = 1024 * 1024

EPILOG = """\b
Examples:
  planner compact run --ledger chat.db --conversation c1 --bundle qwen3-0.6b --url http://127.0.0.1:8080
  planner compact propose --ledger chat.db --conversation c1
  planner compact prompt --ledger chat.db --conversation c1 --run 0 > prompt.json
  planner compact accept answer.json --ledger chat.db --conversation c1 --run 0
  planner compact status --ledger chat.db --conversation c1

The policy version is that of the policy stored with the conversation unless --policy-version names another; plans
use only summaries of their own policy version.
"""


replace_option = click.option(
    "--replace", is_flag=True, help="Freeze a new plan even if the active one is unfinished and current."
)


@click.group("compact", epilog=EPILOG)
def command() -> None:
    """Summarise old turns: propose, prompt, accept, and see what stands.

    A summary stands for whole completed turns in later plans as long as its sources are unchanged. No message is
    changed or deleted by it.
    """


@command.command("propose")
@compacting
@replace_option
def propose_command(ledger: str, conversation: str, **given: Any) -> int:
    """Freeze a compaction plan: which runs of turns a summary may stand for."""
    with open_ledger(ledger) as store:
        plan = open_compactor(store, conversation, given).propose(replace_active=given["replace"])
    return _proposed(plan, as_json=given["as_json"])


@command.command("prompt")
@compacting
@click.option("--plan", "plan_id", metavar="ID", help="Another compaction plan than the active one.")
@click.option("--run", type=click.IntRange(min=0), metavar="N", help="Only this run.")
@click.option("--ids", is_flag=True, help="With --bundle: print the exact token ids too.")
def prompt_command(ledger: str, conversation: str, **given: Any) -> int:
    """Print the summariser's request of each run as messages, one JSON object a line; it holds your conversation."""
    with open_ledger(ledger, read_only=True) as store:
        compactor = open_compactor(store, conversation, given)
        plan = active_plan(store, conversation, given["plan_id"])
        if given["run"] is not None and given["run"] >= len(plan.runs):
            raise usage(f"--run names no run of the plan, which has {len(plan.runs)}")
        prompts = compactor.prompts(plan)
    for prompt in prompts:
        if given["run"] in (None, prompt.run):
            tree = as_tree(prompt)
            if not given["ids"]:
                del tree["ids"]
            click.echo(json.dumps(tree, ensure_ascii=False))
    return 0


@command.command("accept")
@click.argument("answer", metavar="ANSWER|-")
@compacting
@click.option("--plan", "plan_id", metavar="ID", help="Another compaction plan than the active one.")
@click.option("--run", type=click.IntRange(min=0), required=True, metavar="N", help="The run that was answered.")
@click.option("--finish", type=click.Choice(("stop", "length")), default="stop", show_default=True, metavar="WHY",
              help="Why the model stopped; length means it was cut off, and then nothing is read.")  # fmt: skip
def accept_command(answer: str, ledger: str, conversation: str, **given: Any) -> int:
    """Judge a model's answer for one run, and store it if it stands.

    The same sources are tried twice at most.
    """
    text = _text(answer)
    with open_ledger(ledger) as store:
        compactor = open_compactor(store, conversation, given)
        plan = active_plan(store, conversation, given["plan_id"])
        found = compactor.accept(plan.plan_id, given["run"], text, finish=given["finish"])
    return _ended(found, as_json=given["as_json"])


@command.command("trial")
@click.argument("answers", nargs=-1, metavar="[ANSWER]...")
@compacting
def trial_command(answers: tuple[str, ...], ledger: str, conversation: str, **given: Any) -> int:
    """Say what compaction would do and how it would judge answers, given run by run; write nothing."""
    texts = [_text(name) for name in answers]
    with open_ledger(ledger, read_only=True) as store:
        found = open_compactor(store, conversation, given).trial(texts)
    if not found.prompts:
        return _proposed(found.plan, as_json=given["as_json"])
    runs = len(getattr(found.plan, "runs", ()))
    if len(texts) > runs:
        raise usage(f"there are more answers than runs of the plan, which has {runs}")
    if given["as_json"]:
        calls = [
            {"run": prompt.run, "covers": list(prompt.covers), "promptTokens": len(prompt.ids) or None}
            for prompt in found.prompts
        ]
        click.echo(json.dumps({"plan": as_tree(found.plan), "runs": calls, "verdicts": list(found.verdicts)}))
    else:
        from planner.cli.draw_ledger import draw_trial

        draw_trial(found)
    failed = [verdict for verdict in found.verdicts if verdict != "accepted"]
    if failed:
        reason, _, detail = failed[0].partition(": ")
        complain(reason, detail)
        return REFUSED
    return 0


@command.command("run")
@compacting
@replace_option
@click.option("--url", required=True, metavar="URL", help="Base URL of a llama.cpp or OpenAI-compatible server.")
@click.option("--model", metavar="NAME", help="The model's name, where the server wants one.")
@click.option("--api-key-env", metavar="VAR", help="Environment variable that holds the server's key.")
def run_command(ledger: str, conversation: str, **given: Any) -> int:
    """Propose, ask a model for each run, judge its answers and store what stands.

    Exact ids go to a llama.cpp server when --bundle names its model, messages to any other.
    """
    asked = Asked(given["url"], given["model"], given["api_key_env"], must_fit=given["bundle"] is not None)
    with open_ledger(ledger) as store:
        compactor = open_compactor(store, conversation, given)
        plan = compactor.propose(replace_active=given["replace"])
        runs = len(getattr(plan, "runs", ()))
        if not runs:
            return _proposed(plan, as_json=given["as_json"])
        with progress("compact", runs) as move:

            def told(prompt: PromptedRun, found: Saved | Rejected) -> None:
                move(prompt.run + 1)
                if not given["as_json"]:
                    first, last = prompt.covers
                    click.echo(f"run {prompt.run}: sequences {first} .. {last}: {judged_line(found)}")

            found = compactor.run(asked.ask, told)
    if given["as_json"]:
        click.echo(json.dumps([as_tree(one) for one in found]))
    failed = [code for code in map(saved_code, found) if code is not None]
    if failed:
        complain(*failed[0])
        return REFUSED
    return 0


@command.command("status")
@compacting
def status_command(ledger: str, conversation: str, **given: Any) -> int:
    """Show which summaries stand, which are stale and why, and what waits for a model."""
    with open_as_possible(ledger) as store:
        found = open_compactor(store, conversation, given).status()
    if given["as_json"]:
        click.echo(json.dumps(as_tree(found)))
        return 0
    from planner.cli.draw_ledger import draw_status

    draw_status(found)
    return 0


@command.command("versions")
@compacting
def versions_command(ledger: str, conversation: str, **given: Any) -> int:
    """List every stored version of every summary with where it stands now."""
    with open_ledger(ledger, read_only=True) as store:
        found = open_compactor(store, conversation, given).versions()
    if given["as_json"]:
        trees = [as_tree(one) for one in found]
        for tree in trees:
            del tree["record"]
        click.echo(json.dumps(trees))
        return 0
    from planner.cli.draw_ledger import draw_versions

    draw_versions(found)
    return 0


@command.command("readopt")
@click.argument("summary", metavar="SUMMARY")
@compacting
def readopt_command(summary: str, ledger: str, conversation: str, **given: Any) -> int:
    """Verify a summary of an older generation in full; if it stands, it becomes a new version."""
    with open_ledger(ledger) as store:
        found = open_compactor(store, conversation, given).readopt(summary)
    return _ended(found, as_json=given["as_json"])


def _proposed(plan: CompactionPlan | Unplanned, *, as_json: bool) -> int:
    """Show a compaction plan; nothing to compact is no refusal, a wrong setting is one."""
    from planner.values.compaction import Unplanned as NoPlan

    if isinstance(plan, NoPlan):
        if plan.reason != "nothing_to_compact":
            complain(plan.reason, plan.detail)
            return REFUSED
        detail = plan.detail or "no completed turn outside the tail is free"
        click.echo(json.dumps({"planned": False, "detail": detail}) if as_json else f"nothing to compact: {detail}")
        return 0
    if as_json:
        from planner.wire.dump import dump_record

        click.echo(dump_record(plan).decode())
        return 0
    from planner.cli.draw_ledger import draw_compaction

    draw_compaction(plan)
    return 0


def _ended(found: Saved | Rejected | Staleness, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps(as_tree(found)))
    failed = saved_code(found)
    if failed is not None:
        complain(*failed)
        return REFUSED
    if not as_json:
        click.echo(judged_line(found))
    return 0


def _text(name: str) -> str:
    """Read an answer; what is not UTF-8 is no text of a model."""
    data = read_input(name, MAX_ANSWER_BYTES)
    text: str | None = None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise usage("$: is not UTF-8")
    return text
