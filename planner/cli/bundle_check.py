"""`planner bundle check`: a bundle's files, tokenizer and template."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from planner.cli.asking import BUNDLE_HELP, app_option, key_of, open_for_app
from planner.cli.failure import REFUSED, complain, usage


@click.command("check", help=f"Check a bundle's files, tokenizer and template.\n\n{BUNDLE_HELP}")
@click.argument("ref", metavar="ID|PATH")
@click.option("--remeasure", is_flag=True, help="Measure again and, where all passes, lift what blocks the bundle.")
@click.option("--url", metavar="URL", help="With --remeasure: the server whose counts are compared again.")
@click.option("--model", metavar="NAME", help="With --url: the server's name of the model, where it serves several.")
@click.option("--api-key-env", metavar="VAR", help="With --url: environment variable that holds the server's key.")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(ref: str, remeasure: bool, url: str | None, as_json: bool, **given: str | None) -> int:
    """Check a bundle's files, tokenizer and template."""
    from planner.cli.bundle_checks import ask_runtime, check_bundle, check_sources, drift_note, lift_drift

    if url is not None and not remeasure:
        raise usage("--url goes with --remeasure")
    app_version, key = given["app_version"], key_of(given["api_key_env"])
    if url is None and (given["model"], key) != (None, None):
        raise usage("--model and --api-key-env go with --url")
    bundle = open_for_app(ref, app_version)
    found = [*check_bundle(bundle, ref), *check_sources(ref)]
    if url is not None:
        from planner.runtimes.parity import ParitySource

        found.append(ask_runtime(bundle, ParitySource(url, model=given["model"], api_key=key), app_version))
    if remeasure and not any(row.result == "failed" for row in found):
        found += lift_drift(bundle)
    else:
        found += drift_note(bundle)
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
