"""`planner bundle list`: the bundles that can be named by id."""

from __future__ import annotations

import json

import click

from planner.cli.files import user_folder


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> int:
    """List the bundles that can be named by id, and whether their files are here."""
    from planner.bundles.open import list_bundles

    found = list_bundles(user_folder())
    if as_json:
        listed = [
            {
                "id": one.id,
                "shipped": one.shipped,
                "ready": one.fault is None,
                "fault": None if one.fault is None else f"{one.fault.code}: {one.fault.detail}",
                "contextTokens": None if one.manifest is None else one.manifest.context_tokens,
                "licence": None if one.manifest is None else one.manifest.licence,
            }
            for one in found
        ]
        click.echo(json.dumps(listed, indent=1))
        return 0
    from planner.cli.draw import rows, say

    cells = []
    for one in found:
        context = "-" if one.manifest is None else f"{one.manifest.context_tokens or 0:,}"
        state = "ready" if one.fault is None else f"{one.fault.code}: {one.fault.detail}"
        cells.append((one.id, "shipped" if one.shipped else "yours", context, state))
    rows(("id", "from", "context", "state"), cells, right=(2,))
    say()
    say("Any model folder can be named by its path instead: --bundle ./my-model")
    return 0
