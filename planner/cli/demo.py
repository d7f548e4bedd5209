"""`planner demo`: a real tool-calling conversation, planned and drawn."""

from __future__ import annotations

import os
from pathlib import Path

import click

from planner.cli.asking import DEFAULT_BUNDLE, Overrides, plan_value
from planner.values.reasons import PlannerFault

FALLBACK = "reference"
_FILE = "building_desk.request.json"
_PACKAGE = Path(__file__).resolve().parents[1]

EPILOG = """\b
Examples:
  planner demo
  planner demo --window 4096
  planner demo --require qwen3-0.6b     fails instead of falling back, as a build should
"""


@click.command("demo", epilog=EPILOG)
@click.option("--require", metavar="ID", help="Fail unless this bundle is used.")
@click.option("--window", type=click.IntRange(min=1), default=8192, show_default=True, metavar="N",
              help="Tokens that prompt and answer share.")  # fmt: skip
def command(require: str | None, window: int) -> int:
    """Plan the demo conversation and draw its account.

    A building desk: policy, four tools, an output schema and forty turns in English and Chinese with code
    and tool results. It does not fit, so old turns leave, and the account says which and why.
    """
    from planner.cli.draw import say
    from planner.cli.plan import show
    from planner.wire.parse import parse_request

    request = parse_request(demo_file().read_bytes())
    wanted = require or (DEFAULT_BUNDLE if os.environ.get("CI", "").lower() == "true" else None)
    try:
        answer = plan_value(request, Overrides(bundle=require or DEFAULT_BUNDLE, window=window))
    except PlannerFault as fault:
        if wanted is not None:
            raise
        say(f"{DEFAULT_BUNDLE} cannot be used here ({fault.code}: {fault.detail}).")
        say(f"This is the embedded bundle {FALLBACK} instead: another vocabulary, the same planner.")
        say()
        answer = plan_value(request, Overrides(bundle=FALLBACK, window=window))
    return show(answer)


def demo_file() -> Path:
    """Return the demo's request: inside the package in a wheel, among the fixtures in a checkout."""
    inside = _PACKAGE / "_demo" / _FILE
    beside = _PACKAGE.parent / "fixtures" / "demo" / _FILE
    for path in (inside, beside):
        if path.is_file():
            return path
    raise PlannerFault("environment", "the demo's request is not part of this installation")
