"""`planner ledger resolve`: record how the application ended a dispute about a fact."""

from __future__ import annotations

import json
from typing import Any

import click

from planner.cli.files import read_input
from planner.cli.opening import as_tree, conversation_option, json_option, ledger_option, open_ledger

MAX_BYTES = 1024 * 1024


@click.command("resolve")
@click.argument("file", metavar="FILE|-")
@ledger_option
@conversation_option
@click.option("--generation", type=click.IntRange(min=1), metavar="N", help="Refuse where the conversation moved on.")
@json_option
def command(file: str, ledger: str, conversation: str, **given: Any) -> int:
    """Record that a user or a rule ended a dispute about a fact of a summary.

    FILE is the event as JSON: factKey, decision (keep or replace), resolvedBy (user or rule), confirmationId, and
    value: with keep the one that is turned down, with replace the one that stands from now on, with text and
    citationId where there are some. Summaries that state the fact are stale; planner compact run builds the next.
    """
    from planner.values.resolution import FactDecision
    from planner.wire.parse import parse_record

    event = parse_record(FactDecision, read_input(file, MAX_BYTES))
    with open_ledger(ledger) as store:
        done = store.resolve_fact(conversation, event, generation=given["generation"])
    if given["as_json"]:
        click.echo(json.dumps(as_tree(done)))
    else:
        click.echo(f"{event.fact_key}: {event.decision}" if done.changed else f"{event.fact_key}: known already")
    return 0
