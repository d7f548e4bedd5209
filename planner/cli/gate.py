"""`planner gate`: the group of commands of the release gate."""

from __future__ import annotations

import click

from planner.cli.lazy import LazyGroup

EPILOG = """\b
Examples:
  planner gate init release --app-version 1.0 --bundles reference
  planner gate run --candidate candidate.json --samples samples --bundles qwen3-0.6b,reference
  planner gate run --candidate candidate.json --samples samples --bundles reference --jobs 4 --json
  planner gate export-vectors kit --samples samples --bundles reference

A pass says that structure and budget are right. It proves no model's obedience and authorises nothing.
"""

COMMANDS = {
    "run": "Run every sample on every bundle and tier, and pass or block the candidate.",
    "init": "Write a candidate and one small sample of each family, to be replaced by those of an app.",
    "candidate": "Print what a release consists of: versions, and digests of bundles, tools and policy.",
    "sign": "State a verdict and the digests of its files in one file, signed with a key of one's own.",
    "check-signature": "Check that a key signed this result and every file that goes with it, without a network.",
    "export-vectors": "Write requests, expected answers, ids and digests, with which a port proves itself.",
    "check-vectors": "Compare a planner with the vectors of a kit: this one, or the answers a port has written.",
    "export-budget": "Measure what every plan pays, what room is left, and how large any text can be.",
}
"""Name to short help; a test compares it with the commands."""


@click.group("gate", cls=LazyGroup, table=COMMANDS, prefix="gate_", epilog=EPILOG)
def command() -> None:
    """Pass or block a release: samples, bundles and tiers against one candidate."""
