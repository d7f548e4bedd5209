"""`planner gate candidate`: what a release consists of, as the gate reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import planner_for
from planner.cli.files import STDIO, read_input, write_output
from planner.cli.whatif import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.values.candidate import Candidate

PARTS = ("tools", "policy", "hardening")


def release_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is released."""
    options = [
        click.option("--app-version", required=True, metavar="V", help="Version of the app."),
        click.option("--bundles", required=True, metavar="A,B,...", help="Bundle ids or paths the app ships."),
        click.option("--tools", metavar="FILE", help="The declarations of its tools, any JSON."),
        click.option("--policy", metavar="FILE", help="Its policy, any JSON."),
        click.option("--hardening", metavar="FILE", help="Its hardening configuration, any JSON."),
        click.option(
            "--template-version", metavar="V", help="Version of its template; default: what the bundles state."
        ),
        click.option("--summary-schema-version", default="1.0", metavar="V", help="Version of its summaries."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def released(given: dict[str, Any]) -> Candidate:
    """Open the bundles and return the candidate. Raises what opening and reading raise."""
    from planner.gate.scaffold import candidate_of
    from planner.values.strict_json import REQUEST_BOUNDS

    version = given["app_version"]
    planners = [planner_for(ref) for ref in split("--bundles", given["bundles"])]
    manifests = [one.encoder(app_version=version).bundle.manifest for one in planners]
    digests = tuple(manifest.digest for manifest in manifests)
    parts: dict[str, Any] = {
        name: None if given[name] is None else read_input(given[name], REQUEST_BOUNDS.total_bytes) for name in PARTS
    }
    stated = {manifest.template_version for manifest in manifests if manifest.template_version is not None}
    parts["template_version"] = given["template_version"] or ",".join(sorted(stated)) or "1"
    parts["summary_schema_version"] = given["summary_schema_version"]
    return candidate_of(version, digests, parts)


@click.command("candidate")
@release_options
@click.option("--id", "only_id", is_flag=True, help="Print its id alone.")
def command(only_id: bool, **given: str | None) -> int:
    """Print what a release consists of: versions, and digests of bundles, tools and policy."""
    from planner.gate.scaffold import readable

    made = released(given)
    write_output(STDIO, f"{made.candidate_id}\n".encode() if only_id else readable(made))
    return 0
