"""`planner run`: the exact ids of a plan to a llama.cpp server, and its own count beside ours."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import Overrides, key_of, overriding
from planner.cli.failure import REFUSED, complain
from planner.cli.running import Ready, ready_from

if TYPE_CHECKING:
    from planner.runtimes.llama_cpp import Difference, Limits, Served
    from planner.values.observation import Observation

    Found = tuple[Observation, tuple[Difference, ...]]

EPILOG = """\b
Examples:
  planner run request.json --bundle ./model.gguf --url http://127.0.0.1:8080
  planner plan request.json --json > plan.json
  planner run plan.json --url http://127.0.0.1:8080
  planner run receipt.json --ids ids.npy --url http://127.0.0.1:8080 --json

The server must run the model of the bundle. What it counted is compared with the plan; any difference is
runtime_mismatch with both numbers.
"""


@click.command("run", epilog=EPILOG)
@click.argument("source", required=False, metavar="[REQUEST|PLAN|RECEIPT|-]")
@click.option("--url", required=True, metavar="URL", help="Base URL of a llama.cpp server.")
@click.option("--chat", metavar="CHAT.json|-", help="Plan and run an OpenAI-style message list.")
@click.option("--tools", metavar="TOOLS.json", help="Tool declarations that go with --chat.")
@click.option("--ids", metavar="IDS.npy", help="The ids that planner plan --ids wrote with this receipt.")
@overriding
@click.option("--slot", type=click.IntRange(min=0), metavar="N", help="The server's slot to run in.")
@click.option("--api-key-env", metavar="VAR", help="Environment variable that holds the server's key.")
@click.option("--json", "as_json", is_flag=True, help="Print answer and figures as one JSON object at the end.")
def command(source: str | None, url: str, **given: Any) -> int:
    """Run a plan on a llama.cpp server and compare its token counts with the plan's.

    A request or chat is planned first; a plan that planner plan wrote is run as it is. The server gets the exact
    ids and nothing else; the answer goes to stdout as it comes, the figures to stderr.
    """
    from planner.runtimes.llama_cpp import LlamaServer, check_room, differences

    server = LlamaServer(url, api_key=key_of(given["api_key_env"]))
    ready = ready_from(source, given["chat"], given["tools"], given["ids"], Overrides.taken_from(given))
    if not isinstance(ready, Ready):
        complain(ready.reason, ready.detail)
        return REFUSED
    slot = given["slot"]
    limits = server.limits(slot)
    check_room(limits, ready.account.input_limit, ready.prompt_tokens)
    # Only where no other slot can be chosen is what is cached known for certain.
    cached = ready.cached_tokens if slot is not None or limits.slots == 1 else None
    told = None if given["as_json"] else _tell
    served = server.run(ready.ids, ready.max_output_tokens, heard=told, slot=slot)
    seen = ready.observe(served)
    found = differences(served, seen.planned_tokens, ready.max_output_tokens, cached)
    if given["as_json"]:
        click.echo(json.dumps(_tree(ready, served, cached, limits, (seen, found)), ensure_ascii=False))
    else:
        click.echo()
        if not found:
            click.echo(_line(ready, served, cached), err=True)
    if found:
        complain("runtime_mismatch", "; ".join(map(_difference, found)))
        return REFUSED
    return 0


def _tell(text: str) -> None:
    """Write a piece of the answer; a terminal is not steered by what a model says."""
    if sys.stdout.isatty():
        text = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
    # Not by click, which takes escape sequences out of what goes into a pipe: that is the model's answer as it is.
    sys.stdout.write(text)
    sys.stdout.flush()


def _difference(one: Difference) -> str:
    return f"{one.what}: {one.planned} planned, {one.reported} reported"


def _line(ready: Ready, served: Served, cached: int | None) -> str:
    expected = "" if cached is None else f" ({cached} expected)"
    ended = ", the window is full" if served.truncated else ""
    return (
        f"prompt tokens: {ready.prompt_tokens} planned, {served.prompt_tokens} reported; "
        f"cached: {served.cached_tokens}{expected}; "
        f"answer: {served.answer_tokens} of at most {ready.max_output_tokens}, {served.finish}{ended}"
    )


def _tree(ready: Ready, served: Served, cached: int | None, limits: Limits, found: Found) -> dict[str, Any]:
    from planner.values.wire_names import SCHEMA_VERSION

    seen, rows = found
    return {
        "schemaVersion": SCHEMA_VERSION,
        "planId": seen.plan_id,
        "modelBundleId": seen.model_bundle_id,
        "text": served.text,
        "generatedIds": list(served.ids or ()),
        "finish": served.finish,
        "truncated": served.truncated,
        "slot": served.slot,
        "windowTokens": {"planned": ready.account.input_limit, "reported": limits.window_tokens},
        "promptTokens": {"planned": seen.planned_tokens, "reported": served.prompt_tokens},
        "cachedTokens": {"planned": cached, "reported": served.cached_tokens},
        "answerTokens": {"planned": ready.max_output_tokens, "reported": served.answer_tokens},
        "verdict": seen.verdict,
        "differences": [{"what": one.what, "planned": one.planned, "reported": one.reported} for one in rows],
    }
