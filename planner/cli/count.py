"""`planner count`: the exact tokens of a text or a chat. Pydantic, numpy and rich stay unimported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, DEFAULT_BUNDLE, engine_option, open_named, read_chat
from planner.cli.failure import usage
from planner.cli.files import STDIO, read_input
from planner.values.reasons import RefusalSignal

if TYPE_CHECKING:
    from planner.values.bundle import Bundle

BEYOND_EVERY_WINDOW = 10**9
MAX_TEXT_BYTES = 64 * 1024 * 1024

EPILOG = """\b
Examples:
  planner count notes.txt
  echo -n "How many?" | planner count - --bundle reference
  planner count --text "How many?" --json
  planner count --chat chat.json --tools tools.json --json

A text is counted alone, without any framing; its last newline counts too. A chat is counted as the whole
prompt its template makes of it, the header of the answer included, and however large it is.
"""


@click.command("count", epilog=EPILOG)
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--text", help="Count this text.")
@click.option("--chat", metavar="CHAT.json|-", help="Count an OpenAI-style message list, framing included.")
@click.option("--tools", metavar="TOOLS.json", help="Tool declarations that go with --chat.")
@click.option("--bundle", default=DEFAULT_BUNDLE, show_default=True, metavar="ID|PATH", help=BUNDLE_HELP)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(file: str | None, text: str | None, chat: str | None, tools: str | None, **given: Any) -> int:
    """Count a text or a chat exactly, as the model's own tokenizer does.

    A folder without a chat template can count text.
    """
    if [file, text, chat].count(None) != 2:
        raise usage("name one of FILE, --text and --chat; see planner count --help")
    if tools is not None and chat is None:
        raise usage("--tools goes with --chat")
    bundle = open_named(given["bundle"], given["engine"])
    if chat is not None:
        figures = chat_figures(bundle, chat, tools)
    else:
        figures = text_figures(bundle, text if text is not None else _read_text(file or STDIO))
    if given["as_json"]:
        figures |= {"modelBundleId": bundle.manifest.id, "bundleDigest": bundle.manifest.digest}
        click.echo(json.dumps(figures, sort_keys=True))
    else:
        click.echo(str(figures["tokens"]))
    return 0


def text_figures(bundle: Bundle, text: str) -> dict[str, Any]:
    """Return the tokens of a text by itself; a control string in it stays text. Raises PlannerFault."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise RefusalSignal("invalid-input", "$: is not UTF-8")
    return {"tokens": len(bundle.engine.encode(text).ids) if text else 0}


def chat_figures(bundle: Bundle, name: str, tools: str | None) -> dict[str, Any]:
    """Return the tokens of the whole framed chat and of its sections, by the path that plans.

    Raises RefusalSignal for a chat that is not valid or that the template cannot carry, and PlannerFault.
    """
    from planner.bundles.restated import Restated
    from planner.planner import Planner
    from planner.values.account import INPUT_FIELDS, wire_field
    from planner.values.plan import Refusal

    chat = read_chat(name, tools)
    # Without window and runtime a chat of any length is planned whole and nothing leaves.
    answer = Planner(Restated(bundle, context_tokens=None, tiers=(), runtime=None)).plan(
        messages=chat.messages,
        tools=chat.tools,
        reserved_output_tokens=0,
        max_input_tokens=BEYOND_EVERY_WINDOW,
    )
    if isinstance(answer, Refusal):
        raise RefusalSignal(answer.reason, answer.detail)
    parts = {wire_field(field): getattr(answer.account, field) for field in INPUT_FIELDS}
    return {"tokens": len(answer.ids), **parts}


def _read_text(name: str) -> str:
    data = read_input(name, MAX_TEXT_BYTES)
    text: str | None = None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise RefusalSignal("invalid-input", "$: is not UTF-8")
    return text
