"""`planner bundle`: the group of commands over model bundles."""

from __future__ import annotations

import click

from planner.cli.lazy import LazyGroup

EPILOG = """\b
Examples:
  planner bundle list
  planner bundle add ./model.gguf --id mine
  planner bundle show qwen3-0.6b --json     with the render before and after each normalisation
  planner bundle check ./my-model
  planner bundle diff mine ./newer-model
  planner bundle show ./model.gguf
  planner bundle profile ./my-model
  planner bundle fit qwen3-0.6b --ram 1GiB --device 130 --cache q8_0
  planner bundle show ./model.litertlm
  planner bundle portability ./my-model --npm ./tools
  planner bundle certify mine --url http://127.0.0.1:8080 --mode text
"""

COMMANDS = {
    "list": "List the bundles that can be named by id, and whether their files are here.",
    "show": "Show a bundle's manifest and measured template profile.",
    "add": "Make a model folder or GGUF file a pinned bundle of your own.",
    "diff": "Compare two bundles part by part, in ids and counts.",
    "check": "Check a bundle's files, tokenizer and template.",
    "profile": "Describe what a bundle's template, tokenizer and tiers come to.",
    "template": "Activate another chat template for a bundle, take it back, or say which is in force.",
    "fit": "Estimate which window a memory budget holds, and how long a device reads a prompt.",
    "portability": "Compare what other engines make of a bundle's template, and name what only some forgive.",
    "certify": "Compare what a runtime reads of text or messages with our plans, and keep a certificate.",
}
"""Name to short help; a test compares it with the commands."""


@click.group("bundle", cls=LazyGroup, table=COMMANDS, prefix="bundle_", epilog=EPILOG)
def command() -> None:
    """Add, list, show and check model bundles.

    A bundle is one tokenizer, one chat template and the manifest over both. Any of them changed by a byte is
    another bundle.
    """
