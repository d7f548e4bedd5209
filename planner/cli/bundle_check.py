"""`planner bundle check`: a bundle's files, tokenizer and template."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from planner.cli.asking import BUNDLE_HELP, open_named
from planner.cli.failure import REFUSED, complain


@click.command("check", help=f"Check a bundle's files, tokenizer and template.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(ref: str, as_json: bool) -> int:
    """Check a bundle's files, tokenizer and template."""
    from planner.cli.bundle_checks import check_bundle, check_sources

    found = [*check_bundle(open_named(ref)), *check_sources(ref)]
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
    else:
        from planner.cli.draw import rows

        rows(("check", "result", ""), [(row.name, row.result, row.detail) for row in found])
    failed = [row for row in found if row.result == "failed"]
    if failed:
        complain(failed[0].code, failed[0].detail)
        return REFUSED
    return 0
