"""`planner bundle template`: another chat template for a bundle, behind a gate and one step from the one before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planner.cli.failure import REFUSED, complain
from planner.cli.files import user_folder
from planner.cli.opening import as_tree, json_option

if TYPE_CHECKING:
    from planner.steps.activation_verdict import ActivationVerdict
    from planner.values.activation import TemplateState, TemplateVersion
    from planner.values.activation_evidence import ActivationEvidence

EPILOG = """\b
Examples:
  planner bundle template activate qwen3-0.6b new.jinja --sha256 4f.. --version 2 --min-app 2.1 --app-version 2.3
  planner bundle template activate qwen3-0.6b new.jinja --sha256 4f.. --matrix matrix.json --samples samples/
  planner bundle template status qwen3-0.6b
  planner bundle template rollback qwen3-0.6b
"""


@click.group("template", epilog=EPILOG)
def command() -> None:
    """Activate another chat template for a bundle, take it back, or say which is in force.

    The bundle's own files stay as they are; what is activated lies in your folder (planner doctor shows where).
    """


@command.command("activate", epilog=EPILOG)
@click.argument("ref", metavar="ID")
@click.argument("template", metavar="TEMPLATE.jinja")
@click.option("--sha256", required=True, metavar="HEX", help="Digest of the template as its publisher states it.")
@click.option("--version", metavar="V", help="Version of the template, for receipts.")
@click.option("--entry", metavar="NAME", help="Entry point of the template, for receipts; default: the bundle's.")
@click.option("--app-version", metavar="V", help="Version of the app that activates it.")
@click.option("--min-app", metavar="V", help="Least version of the app it is meant for.")
@click.option("--max-app", metavar="V", help="Greatest version of the app it is meant for.")
@click.option("--matrix", metavar="MATRIX.json", help="Combinations the app runs in; default: the bundle's tiers.")
@click.option("--samples", multiple=True, metavar="DIR|REQUEST.json", help="What is planned before and after.")
@click.option("--published", multiple=True, metavar="DIR|REQUEST.json", help="The same samples as they are now.")
@click.option(
    "--renderer",
    type=click.Choice(("npm", "llama")),
    multiple=True,
    metavar="ENGINE",
    help="An engine the app meets, may be repeated: npm, llama. See planner bundle portability.",
)
@click.option("--npm", metavar="FOLDER", help="Folder of @huggingface/jinja; default: npm in the cache folder.")
@click.option("--llama-url", metavar="URL", help="A llama.cpp server, for --renderer llama.")
@click.option("--check", "only_check", is_flag=True, help="Judge it and change nothing.")
@json_option
def activate_command(ref: str, template: str, only_check: bool, as_json: bool, **given: Any) -> int:
    """Activate a template once its digest, version bounds, probe and budgets pass; else the one in force stays.

    Exit 2 with one line for each finding where it is refused.
    """
    from planner.cli.activating import judge, keep
    from planner.steps.activation_verdict import activation_verdict

    job = judge(ref, template, given)
    verdict = activation_verdict(job.evidence)
    if not only_check:
        keep(job, verdict)
    if as_json:
        tree = {"active": verdict.passes and not only_check, "evidence": as_tree(job.evidence),
                "findings": as_tree(verdict.findings), "cells": as_tree(verdict.cells)}  # fmt: skip
        click.echo(json.dumps(tree, indent=1))
    else:
        _draw_verdict(job.evidence, verdict, activated=not only_check)
    if verdict.passes:
        return 0
    complain("activation_blocked", f"{len(verdict.findings)} findings; the template in force stays")
    return REFUSED


@command.command("rollback", epilog=EPILOG)
@click.argument("ref", metavar="ID")
@json_option
def rollback_command(ref: str, as_json: bool) -> int:
    """Go one step back to the template before, or to the built-in one; nothing else is touched."""
    from planner.cli.activating import roll_back

    state = roll_back(ref)
    if as_json:
        click.echo(json.dumps(_state_tree(state), indent=1))
        return 0
    from planner.cli.draw import say

    say(f"bundle {state.model_bundle_id}: {_named(state.active)} is in force again")
    return 0


@command.command("status", epilog=EPILOG)
@click.argument("ref", metavar="ID")
@click.option("--app-version", metavar="V", help="Say what an app of this version gets.")
@json_option
def status_command(ref: str, app_version: str | None, as_json: bool) -> int:
    """Say which template is in force, whether there is a step back, and what was decided so far."""
    from planner.bundles.activated import read_state
    from planner.bundles.candidate import open_built_in
    from planner.bundles.overlay import read_activation

    own = open_built_in(ref, user_folder=user_folder(), cache_dir=None).manifest
    manifest = read_activation(own, user_folder() / own.id).overlay_for(app_version).manifest
    broken = manifest.template_fallback == "template_state_damaged"
    state = None if broken else read_state(user_folder() / own.id)
    in_force = {
        "templateDigest": manifest.template_digest, "templateEntry": manifest.template_entry,
        "templateVersion": manifest.template_version, "bundleDigest": manifest.digest,
        "builtIn": manifest.digest == own.digest, "templateFallback": manifest.template_fallback,
    }  # fmt: skip
    if as_json:
        record = None if state is None else _state_tree(state)
        click.echo(json.dumps({"modelBundleId": own.id, "inForce": in_force, "record": record}, indent=1))
        return 0
    from planner.cli.draw import meaning, rows, say

    rows(("in force", ""), [(name, "-" if value is None else value) for name, value in in_force.items()])
    if manifest.template_fallback is not None:
        say(f"fallback  {meaning(manifest.template_fallback)}")
    if state is not None:
        say(f"one step back  {_named(state.previous) if state.can_step_back else 'none'}")
        rows(("decided", "", "version", "app", "why"), [
            (row.at, row.action, row.template_version or "-", row.app_version or "-", "; ".join(row.findings) or "-")
            for row in state.audit[-10:]
        ])  # fmt: skip
    return 0


def _state_tree(state: TemplateState) -> Any:
    from planner.bundles.activated import dump_state

    return json.loads(dump_state(state))


def _named(template: TemplateVersion | None) -> str:
    if template is None:
        return "the built-in template"
    return f"template {template.version or template.sha256[:12]}"


def _draw_verdict(evidence: ActivationEvidence, verdict: ActivationVerdict, *, activated: bool) -> None:
    from planner.cli.draw import rows, say
    from planner.steps.activation_verdict import cell_name

    for one in verdict.findings:
        about = f" {', '.join(one.ids)}:" if one.ids else ""
        say(f"{one.code}:{about} {one.sentence}")
    cells = []
    for run in evidence.runs or ():
        old, new = run.before.tokens, run.after.tokens
        change = "" if old is None or new is None else f"{new - old:+,}"
        place = "/".join(part for part in (run.app_version, run.limit) if part) or "as asked"
        cells.append((run.sample, place, *("-" if n is None else f"{n:,}" for n in (old, new)), change,
                      run.after.reason or "fits"))  # fmt: skip
    if cells:
        rows(("sample", "app/limit", "now", "then", "change", "answer"), cells, right=(2, 3, 4))
    if verdict.cells:
        rows(("cell", "status"), [(cell_name(cell), cell.status) for cell in verdict.cells])
    elif evidence.runs:
        say("no matrix was given: the approved tiers stand for it, simulated; no runtime was asked")
    if verdict.passes:
        what = "is active" if activated else "would be activated"
        say(f"template {evidence.template.version or evidence.template.sha256[:12]} {what} for {evidence.bundle_id}")
