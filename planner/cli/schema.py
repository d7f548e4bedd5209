"""`planner schema`: the published JSON Schema of a request."""

from __future__ import annotations

import click

from planner.cli.failure import REFUSED, complain
from planner.cli.files import read_input

MAX_SCHEMA_BYTES = 4 * 1024 * 1024

EPILOG = """\b
Examples:
  planner schema > plan-request.schema.json
  planner schema --check docs/schema/plan-request.schema.json
"""


@click.command("schema", epilog=EPILOG)
@click.option("--check", metavar="FILE", help="Exit 2 unless FILE is the current schema.")
def command(check: str | None) -> int:
    """Print the JSON Schema of a request.

    Rules that tie fields together are checked beside it: a document may fit the schema and still be refused.
    """
    from planner.wire.schema import schema_text

    if check is None:
        click.echo(schema_text(), nl=False)
        return 0
    if read_input(check, MAX_SCHEMA_BYTES) == schema_text().encode():
        return 0
    complain("invalid-input", "the schema is not current; write it with planner schema")
    return REFUSED
