"""`planner bundle diff`: what a change of tokenizer, template, adapter or runtime does to ids and counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, open_named
from planner.cli.count import BEYOND_EVERY_WINDOW
from planner.cli.files import cache_folder

if TYPE_CHECKING:
    from planner.bundles.compare import Side


@click.command("diff", help=f"Compare two bundles part by part, in ids and counts.\n\n{BUNDLE_HELP}")
@click.argument("first", metavar="ID|PATH")
@click.argument("second", metavar="ID|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print the whole difference as JSON.")
def command(first: str, second: str, as_json: bool) -> int:
    """Compare two bundles part by part, in ids and counts."""
    from planner.bundles.compare import compare

    found = compare(_side(first), _side(second))
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return 0
    from planner.cli.draw_diff import draw_diff

    draw_diff(found)
    return 0


def _side(ref: str) -> Side:
    """Open a bundle and plan the shipped conversations with it, every concession allowed.

    Window and runtime are taken away: neither changes an id, and counts are kept by a digest that knows no window.
    """
    from planner.bundles.compare import Side
    from planner.bundles.restated import Restated
    from planner.bundles.sample_counts import sample_counts
    from planner.planner import Planner
    from planner.values.request import CONCESSIONS, Options

    bundle = open_named(ref)
    planner = Planner(Restated(bundle, context_tokens=None, tiers=(), runtime=None))
    options = Options(concessions=tuple(CONCESSIONS))

    def planning(messages: Any, tools: Any) -> Any:
        return planner.plan(
            messages=messages, tools=tools or None, options=options, reserved_output_tokens=1,
            max_input_tokens=BEYOND_EVERY_WINDOW,
        )  # fmt: skip

    if bundle.manifest.template_digest is None:
        return Side(bundle, _countless())
    return Side(bundle, sample_counts(bundle.manifest.digest, planning, cache_folder()))


def _countless() -> Any:
    from planner.bundles.sample_counts import SampleCount, conversations

    return tuple(SampleCount(row["id"], reason="bundle_has_no_template") for row in conversations())
