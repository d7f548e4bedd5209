"""`planner diff`: two receipts of one conversation beside each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from planner.cli.compare import compare
from planner.cli.explain import read_recorded

if TYPE_CHECKING:
    from planner.values.receipt import Receipt

EPILOG = """\b
Examples:
  planner diff monday.json tuesday.json
  planner diff before.json after.json --json
"""


@click.command("diff", epilog=EPILOG)
@click.argument("before", metavar="RECEIPT.json")
@click.argument("after", metavar="RECEIPT.json")
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON.")
def command(before: str, after: str, as_json: bool) -> int:
    """Say what changed between two recorded plans of a conversation.

    Items that left and came, tokens per line, how many tokens of the prompt are common from its beginning and what
    ended that, as far as the second plan was told about the first. Exit 0 whatever differs: this is a report.
    """
    one, two = read_recorded(before), read_recorded(after)
    found = {**compare(one.receipt, two.receipt).as_dict(), **_around(one.receipt, two.receipt)}
    if found["commonTokens"] is None and one.plan is not None and two.plan is not None:
        found["commonTokens"] = _common(one.plan.ids, two.plan.ids)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return 0
    from planner.cli.draw_explained import draw_receipts

    draw_receipts(found)
    return 0


def _common(before: Sequence[int], after: Sequence[int]) -> int:
    pairs = zip(before, after, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(before), len(after)))


def _around(before: Receipt, after: Receipt) -> dict[str, object]:
    """Return what surrounds the items: identity, and the common prefix where it was measured."""
    prefix = after.prefix if after.prefix is not None and after.prefix.previous_plan_id == before.plan_id else None
    changed = [
        name
        for name, old, new in (
            ("bundle", before.bundle_digest, after.bundle_digest),
            ("template", before.template_digest, after.template_digest),
            ("policyVersion", before.policy_version, after.policy_version),
            ("generation", before.generation, after.generation),
            ("candidate", before.candidate_id, after.candidate_id),
            ("summaries", before.summary_versions, after.summary_versions),
        )
        if old != new
    ]
    return {
        "changed": changed,
        "commonTokens": None if prefix is None else prefix.common_tokens,
        "brokenBy": "not_measured" if prefix is None else prefix.broken_by,
        "sameInput": before.final_input_digest is not None and before.final_input_digest == after.final_input_digest,
    }
