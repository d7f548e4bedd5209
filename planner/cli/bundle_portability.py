"""`planner bundle portability`: does the template render alike in the engines of other runtimes?"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import BUNDLE_HELP, open_named
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import cache_folder, write_output
from planner.cli.opening import as_tree
from planner.values.reasons import PlannerFault, RefusalSignal

if TYPE_CHECKING:
    from planner.runtimes.renderers import Renderer
    from planner.values.portability import Portability

HELP = f"""Compare what other engines make of a bundle's template, and name what only some forgive.

Exit 2 where an engine differs. An engine that is not here has one line that says what is missing; it is an error
only where --engine names it.

{BUNDLE_HELP}
"""


@click.command("portability", help=HELP)
@click.argument("ref", metavar="ID|PATH")
@click.option(
    "--engine",
    "wanted",
    type=click.Choice(("npm", "llama", "all")),
    default="all",
    show_default=True,
    help="The engine to compare with the reference, which is Jinja2 as transformers sets it up.",
)
@click.option(
    "--npm",
    "npm_folder",
    metavar="FOLDER",
    help="Folder into which npm install --prefix put @huggingface/jinja; default: npm in the cache folder.",
)
@click.option("--llama-url", metavar="URL", help="A llama.cpp server that runs a model with this template.")
@click.option(
    "--rewrite",
    metavar="FILE|-",
    help="Write a template that renders the same and no longer depends on trim_blocks and lstrip_blocks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and findings as JSON.")  # fmt: skip
def command(
    ref: str, wanted: str, npm_folder: str | None, llama_url: str | None, rewrite: str | None, as_json: bool
) -> int:
    """Compare what other engines make of a bundle's template."""
    from planner.encoding.template_lint import lint_template
    from planner.runtimes.portability import check_portability

    if wanted == "llama" and llama_url is None:
        raise usage("--engine llama needs --llama-url")
    bundle = open_named(ref)
    bundle.profile  # noqa: B018 - what an unknown template is refused for comes before its source is read
    if rewrite is not None:
        _write(bundle.template_source, rewrite)
        return 0
    found: list[Portability] = []
    absent: dict[str, str] = {}
    for name in ("npm", "llama") if wanted == "all" else (wanted,):
        try:
            found.append(check_portability(bundle, renderer_named(name, npm_folder, llama_url)))
        except PlannerFault as fault:
            if wanted != "all":
                raise
            absent[name] = fault.detail
    findings = lint_template(bundle.template_source)
    tree: dict[str, Any] = {
        "schemaVersion": "1.0",
        "modelBundleId": bundle.manifest.id,
        "engines": [as_tree(one) | {"differing": list(one.differing)} for one in found],
        "notTried": absent,
        "findings": [as_tree(one) for one in findings],
    }
    if as_json:
        click.echo(json.dumps(tree, indent=1))
    else:
        from planner.cli.draw_portability import draw_portability

        draw_portability(tree)
    differing = [f"{one.engine} on {len(one.differing)} of {len(one.shapes)} shapes" for one in found if one.differing]
    if differing:
        complain("template_not_portable", f"differs in {', '.join(differing)}")
        return REFUSED
    return 0


def renderer_named(name: str, npm_folder: str | None, llama_url: str | None) -> Renderer:
    """Return the engine of a name, ready to render. Raises PlannerFault where it is not here."""
    if name == "npm":
        from planner.runtimes.npm_renderer import NpmRenderer

        return NpmRenderer(_npm_folder(npm_folder))
    from planner.runtimes.llama_renderer import LlamaRenderer

    if llama_url is None:
        raise PlannerFault("environment", "no --llama-url was given")
    return LlamaRenderer(llama_url, now=datetime.now().astimezone().isoformat())


def _write(source: str, name: str) -> None:
    from planner.encoding.template import TemplateFailure
    from planner.encoding.template_rewrite import without_block_trimming

    written: str | None = None
    with suppress(TemplateFailure):
        written = without_block_trimming(source)
    if written is None:
        raise RefusalSignal("not_supported_yet", "a template with raw blocks is not rewritten")
    write_output(name, written.encode())


def _npm_folder(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    cache = cache_folder()
    if cache is None:
        raise PlannerFault("environment", "there is no cache folder; name the folder with --npm")
    return cache / "npm"
