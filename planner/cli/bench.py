"""`planner bench`: what planning costs on each bundle, and how well it fills the window (R217)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import DEFAULT_BUNDLE
from planner.cli.failure import usage
from planner.cli.files import check_outputs, read_input, write_output
from planner.cli.opening import as_tree, progress
from planner.cli.whatif import split

if TYPE_CHECKING:
    from planner.cli.benching import BundleBench

EPILOG = """\b
Examples:
  planner bench --bundles reference,qwen3-0.6b
  planner bench --bundles reference --json > old.json
  planner bench --bundles reference --compare old.json --plot bench.svg
"""


@click.command("bench", epilog=EPILOG)
@click.option("--bundles", metavar="A,B,...", help="Bundle ids or paths; default: qwen3-0.6b.")
@click.option("--turns", type=click.IntRange(2, 5000), default=60, metavar="N", help="Plans of the chat; default 60.")
@click.option("--window", type=click.IntRange(min=512), default=4096, metavar="N", help="Tokens; default 4096.")
@click.option("--compare", metavar="OLD.json", help="Show the figures of an earlier run beside these.")
@click.option("--plot", metavar="OUT.svg", help="Write a bar chart.")
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
def command(bundles: str | None, turns: int, window: int, **given: Any) -> int:
    """Measure planning on each bundle: load, first plan, a growing chat, and how full the window gets.

    Times are CPU times of this machine; all other figures are the same everywhere. Exit 0 whatever they are.
    """
    from planner.cli.benching import Size, bench
    from planner.values.digest import PLANNER_VERSION

    check_outputs({"--plot": given["plot"]}, (given["compare"],))
    before = {} if given["compare"] is None else _earlier(str(given["compare"]))
    refs = split("--bundles", bundles) or [DEFAULT_BUNDLE]
    found: list[BundleBench] = []
    with progress("bundles", len(refs)) as move:
        for number, ref in enumerate(refs, 1):
            found.append(bench(ref, Size(turns, window)))
            move(number)
    rows = as_tree(found)
    if given["plot"] is not None:
        from planner.cli.draw_bench import svg

        write_output(str(given["plot"]), svg(found).encode())
    if given["as_json"]:
        tree = {"schemaVersion": "1.0", "plannerVersion": PLANNER_VERSION, "bundles": rows}
        click.echo(json.dumps({**tree, "changes": _changes(rows, before)}, indent=1))
    else:
        from planner.cli.draw_bench import draw_bench

        draw_bench(rows, before)
    return 0


def _earlier(name: str) -> dict[str, Any]:
    """Return the benchmarks of an earlier run by bundle id. Raises RefusalSignal invalid-input."""
    from planner.cli.draw_bench import figures
    from planner.values.strict_json import REQUEST_BOUNDS, load_strict

    tree = load_strict(read_input(name, REQUEST_BOUNDS.total_bytes))
    try:
        found = {str(row["bundleId"]): row for row in tree["bundles"]}
        for row in found.values():
            if any(type(value) not in (int, float, type(None)) for value in figures(row).values()):
                raise TypeError
    except (TypeError, KeyError):
        raise usage("--compare is no result of planner bench --json") from None
    return found


def _changes(rows: list[dict[str, Any]], before: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return each figure over the one before; what was 0 or absent then is left out."""
    from planner.cli.draw_bench import figures

    out: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["bundleId"] in before:
            old = figures(before[row["bundleId"]])
            now = figures(row)
            out[row["bundleId"]] = {
                name: round(value / was, 4) for name, value in now.items() if value is not None and (was := old[name])
            }
    return out
