"""`planner bundle add`: a model folder or GGUF file becomes a pinned bundle of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.files import cache_folder, user_folder

if TYPE_CHECKING:
    from planner.bundles.add import Added

_SAID = {"new": "added", "same": "already there", "replaced": "replaced"}


@click.command("add")
@click.argument("path", metavar="PATH|hf:OWNER/NAME@REVISION")
@click.option("--id", "bundle_id", metavar="ID", help="Its id; without it the name of the folder or file.")
@click.option("--template", metavar="FILE", help="A chat template that replaces the model's own.")
@click.option("--runtime", metavar="NAME[@VERSION]", help="The runtime that will be given the prompts.")
@click.option("--adapter", metavar="PATH[@SCALE]", help="A PEFT folder, .safetensors or .gguf file of an adapter.")
@click.option("--context", type=click.IntRange(min=1), metavar="N", help="Tokens that prompt and answer share.")
@click.option("--note", "notes", multiple=True, metavar="TEXT", help="A line kept with the bundle, may be repeated.")
@click.option("--replace", is_flag=True, help="Replace a bundle of yours that has the id.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(path: str, adapter: str | None, as_json: bool, **given: Any) -> int:
    """Make a model folder or GGUF file a pinned bundle of your own.

    Tokenizer, template and configuration are copied with their sizes and sha256; weights stay where they are.
    Of a model of the hub those files are downloaded once, from the commit that the revision stands for.
    """
    from planner.bundles.adapter import split_scale
    from planner.bundles.add import Wanted, add_bundle
    from planner.bundles.hub import parse_hub

    adapter_path, scale = (None, 1.0) if adapter is None else split_scale(adapter)
    template = given["template"]
    wanted = Wanted(
        parse_hub(path) or Path(path),
        id=given["bundle_id"],
        template=None if template is None else Path(template),
        runtime=given["runtime"],
        adapter=None if adapter_path is None else Path(adapter_path),
        adapter_scale=scale,
        context=given["context"],
        notes=given["notes"],
        replace=given["replace"],
    )
    added = add_bundle(wanted, user_folder(), cache_dir=cache_folder())
    if as_json:
        click.echo(json.dumps(_described(added), indent=1, sort_keys=True))
    else:
        _draw(added)
    return 0


def _described(added: Added) -> dict[str, Any]:
    manifest = added.manifest
    return {
        "id": manifest.id,
        "bundleDigest": manifest.digest,
        "result": added.placed,
        "tokenizerFormat": manifest.tokenizer_format,
        "contextTokens": manifest.context_tokens,
        "templateDigest": manifest.template_digest,
        "files": [{"path": one.path, "sizeBytes": one.size_bytes, "sha256": one.sha256} for one in manifest.files],
        "controlTokens": len(manifest.control_tokens),
        "warnings": list(added.warnings),
    }


def _draw(added: Added) -> None:
    from planner.cli.draw import rows, say

    manifest = added.manifest
    say(f"bundle {manifest.id}: {_SAID[added.placed]}", "bold")
    context = "not stated" if manifest.context_tokens is None else f"{manifest.context_tokens:,} tokens"
    cells = [
        ("digest", manifest.digest),
        ("tokenizer", f"{manifest.tokenizer_format}, {added.bundle.parts[0].vocabulary_size:,} entries"),
        ("template", manifest.template_digest or "none"),
        ("context", context),
        ("files", ", ".join(f"{one.path} ({one.size_bytes:,} bytes)" for one in manifest.files)),
    ]
    rows(("", ""), cells)
    for warning in added.warnings:
        say("warning  " + warning.encode("ascii", "backslashreplace").decode())
    say()
    say(f"Now: planner plan --chat chat.json --bundle {manifest.id}")
