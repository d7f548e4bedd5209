"""`planner whatif`: one request in several windows and bundles, as one table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from planner.cli.account_lines import removal_name
from planner.cli.asking import planner_for, read_request
from planner.cli.failure import usage
from planner.cli.opening import as_tree

if TYPE_CHECKING:
    from planner.whatif import Cell

EPILOG = """\b
Examples:
  planner whatif request.json --tiers 4k,8k,32k
  planner whatif request.json --tiers 4096,6000 --bundles qwen3-0.6b,./my-model --json
"""


@click.command("whatif", epilog=EPILOG)
@click.argument("request", metavar="REQUEST.json|-")
@click.option("--tiers", metavar="4k,8k,...", help="Tiers by id, or whole numbers of tokens; default: as asked.")
@click.option("--bundles", metavar="A,B,...", help="Bundle ids or paths; default: the bundle of the request.")
@click.option("--now", metavar="INSTANT", help="The clock that date rules see, such as 2026-11-30T16:30:00Z.")
@click.option("--json", "as_json", is_flag=True, help="Print the cells as JSON, with every id that would go.")
def command(request: str, tiers: str | None, bundles: str | None, now: str | None, as_json: bool) -> int:
    """Say whether a request would fit into other tiers and bundles, and what would go.

    Each line is a plan by the same exact count as planner plan; nothing is sent or stored. Exit 0 whatever fits.
    """
    from planner.whatif import AS_ASKED, whatif

    asked = read_request(request)
    if now is not None:
        asked = replace(asked, now=now)
    planners = [planner_for(ref) for ref in split("--bundles", bundles) or [asked.model_bundle_id]]
    named = split("--tiers", tiers) or [AS_ASKED]
    cells = whatif(asked, [(one.bundle_id, one.plan) for one in planners], named)
    if as_json:
        click.echo(json.dumps([_tree(cell) for cell in cells], indent=1))
        return 0
    _draw(cells)
    return 0


def split(option: str, value: str | None) -> list[str]:
    """Split a list of names at its commas. Raises RefusalSignal invalid-input for an empty name."""
    if value is None:
        return []
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise usage(f"{option} holds an empty name")
    return names


def _tree(cell: Cell) -> dict[str, Any]:
    tree: dict[str, Any] = as_tree(cell)
    return {**tree, "fits": cell.fits}


def _draw(cells: list[Cell]) -> None:
    from planner.cli.draw import rows

    lines = []
    for cell in cells:
        tokens = "-" if cell.tokens is None else f"{cell.tokens:,}"
        limit = "-" if cell.input_limit is None else f"{cell.input_limit:,}"
        answer = "fits" if cell.reason is None else cell.reason
        lines.append((cell.bundle_id, cell.tier or "as asked", answer, tokens, limit, _would_go(cell)))
    rows(("bundle", "tier", "answer", "tokens", "limit", "what would go"), lines, right=(3, 4))


def _would_go(cell: Cell) -> str:
    """Name what leaves, turns by number; of a refusal what is missing and what could be dropped."""
    if not cell.fits:
        missing = f"{cell.missing:,} tokens are missing" if cell.missing else "no plan"
        return f"{missing}; you could drop {', '.join(cell.droppable)}" if cell.droppable else missing
    turns = sum(entry.count for entry in cell.removed if entry.id.startswith("turn/"))
    other = [removal_name(entry) for entry in cell.removed if not entry.id.startswith("turn/")]
    parts = [f"{turns} turns"] if turns else []
    parts += other if len(other) <= 3 else [f"{len(other)} more items"]
    return ", ".join(parts) or "nothing"
