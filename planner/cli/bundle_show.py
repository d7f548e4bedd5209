"""`planner bundle show`: a bundle's manifest and measured template profile."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, app_option, open_for_app
from planner.cli.files import user_folder
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle


@click.command("show", help=f"Show a bundle's manifest and measured template profile.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(ref: str, app_version: str | None, as_json: bool) -> int:
    """Show a bundle's manifest and measured template profile."""
    bundle = open_for_app(ref, app_version)
    described = _describe(bundle) | {"addedFrom": _added_from(ref)}
    if as_json:
        click.echo(json.dumps(described, indent=1, sort_keys=True))
        return 0
    from planner.cli.draw_bundle import draw_bundle

    draw_bundle(described)
    return 0


def _added_from(ref: str) -> dict[str, Any] | None:
    """Return where `planner bundle add` took the files of a bundle from, None for any other bundle."""
    from planner.bundles.recheck import added_from

    found = added_from(ref, user_folder())
    return None if found is None else {key: value for key, value in asdict(found).items() if value}


def _describe(bundle: FolderBundle) -> dict[str, Any]:
    profile: dict[str, Any] | None = None
    try:
        profile = asdict(bundle.profile)
    except PlannerFault as fault:
        if fault.code != "bundle_has_no_template":
            raise
    return {
        "manifest": asdict(bundle.manifest),
        "textTokens": list(bundle.text_tokens),
        "profile": profile,
        "runtimeRecords": _records(bundle),
    }


def _records(bundle: FolderBundle) -> dict[str, Any]:
    """Return what the user's folder says of the bundle's runtime: certified modes, and whether a drift blocks it."""
    from planner.bundles.certificates import certificates
    from planner.bundles.records import Records, check_drift
    from planner.cli.files import user_folder

    records = Records(user_folder(), bundle.manifest.digest)
    blocked = None
    try:
        check_drift(records)
    except PlannerFault as fault:
        blocked = str(fault)
    return {"certifiedModes": list(certificates(records)), "blockedBy": blocked}
