"""`planner bundle`: list, show and check model bundles."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, open_named
from planner.cli.failure import REFUSED, complain
from planner.cli.files import user_folder
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle

EPILOG = """\b
Examples:
  planner bundle list
  planner bundle show qwen3-0.6b --json     with the render before and after each normalisation
  planner bundle check ./my-model
  planner bundle show ./model.gguf
"""


@click.group("bundle", epilog=EPILOG)
def command() -> None:
    """List, show and check model bundles.

    A bundle is one tokenizer, one chat template and the manifest over both. Any of them changed by a byte is
    another bundle.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_command(as_json: bool) -> int:
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


@command.command("show", help=f"Show a bundle's manifest and measured template profile.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show_command(ref: str, as_json: bool) -> int:
    """Show a bundle's manifest and measured template profile."""
    bundle = open_named(ref)
    described = _describe(bundle)
    if as_json:
        click.echo(json.dumps(described, indent=1, sort_keys=True))
        return 0
    from planner.cli.draw_bundle import draw_bundle

    draw_bundle(described)
    return 0


@command.command("check", help=f"Check a bundle's files, tokenizer and template.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def check_command(ref: str, as_json: bool) -> int:
    """Check a bundle's files, tokenizer and template."""
    from planner.cli.bundle_checks import check_bundle

    found = check_bundle(open_named(ref))
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


def _describe(bundle: FolderBundle) -> dict[str, Any]:
    profile: dict[str, Any] | None = None
    try:
        profile = asdict(bundle.profile)
    except PlannerFault as fault:
        if fault.code != "bundle_has_no_template":
            raise
    return {"manifest": asdict(bundle.manifest), "textTokens": list(bundle.text_tokens), "profile": profile}
