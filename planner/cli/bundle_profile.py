"""`planner bundle profile`: what a bundle's template does, what its tokenizer costs, what fits its tiers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, open_named
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle
    from planner.values.profile import TemplateProfile


@click.command("profile", help=f"Describe what a bundle's template, tokenizer and tiers come to.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print the description and every figure as JSON.")
def command(ref: str, as_json: bool) -> int:
    """Describe what a bundle's template, tokenizer and tiers come to."""
    described = describe(open_named(ref))
    if as_json:
        click.echo(json.dumps(described, indent=1, sort_keys=True))
        return 0
    from planner.cli.draw_profile import draw_profile

    draw_profile(described)
    return 0


def describe(bundle: FolderBundle) -> dict[str, Any]:
    """Return the whole description as JSON types; without a template there are languages alone. Raises PlannerFault."""
    from planner.bundles.profile_words import described
    from planner.bundles.restated import measurable
    from planner.bundles.typical import language_costs, tiers_of, turns_in_tiers
    from planner.planner import Planner

    profile, manifest = _profile(bundle), bundle.manifest
    limits = tiers_of(manifest) if profile is not None else ()
    fitting = turns_in_tiers(Planner(measurable(bundle)).plan, manifest.id, limits)
    return {
        "schemaVersion": "1.0",
        "modelBundleId": manifest.id,
        "bundleDigest": manifest.digest,
        "templateDigest": None if profile is None else profile.template_digest,
        "template": None if profile is None else described(profile),
        "languages": [
            {
                "language": cost.language,
                "script": cost.script,
                "characters": cost.characters,
                "tokens": cost.tokens,
                "tokensPerCharacter": round(cost.tokens_per_character, 4),
            }
            for cost in language_costs(bundle.engine)
        ],
        "turns": [
            {"kind": row["kind"], "inputLimit": row["input_limit"], "turns": row["turns"], "reason": row["reason"]}
            for row in map(asdict, fitting)
        ],
    }


def _profile(bundle: FolderBundle) -> TemplateProfile | None:
    try:
        return bundle.profile
    except PlannerFault as fault:
        if fault.code != "bundle_has_no_template":
            raise
    return None
