"""Drawing of `planner bundle portability`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cli.draw import rows, say
from planner.encoding.template_lint import RULES

_WORDS = {
    "same": "same",
    "both_raise": "raises in both",
    "raises_there": "raises there",
    "raises_here": "raises in the reference only",
}


def draw_portability(tree: Mapping[str, Any]) -> None:
    """Draw a column of verdicts per engine, then what the template relies on, by line."""
    say(f"bundle {tree['modelBundleId']}", "bold")
    for engine in tree["engines"]:
        say(f"{engine['engine']} {engine['engineVersion']}, compared with Jinja2 as transformers sets it up")
        rows(("shape", "", "why"), [(one["shape"], _verdict(one), one["cause"]) for one in engine["shapes"]])
    for name, why in tree["notTried"].items():
        say(f"{name}: not tried: {why}")
    say()
    lines: dict[tuple[str, str], list[str]] = {}
    for one in tree["findings"]:
        lines.setdefault((one["rule"], one["about"]), []).append(str(one["line"]))
    if lines:
        cells = [(f"{rule}: {RULES[rule]}", about, ", ".join(found)) for (rule, about), found in lines.items()]
        rows(("only some engines forgive", "", "lines"), cells)
    else:
        say("lint: nothing that only some engines forgive")


def _verdict(one: Mapping[str, Any]) -> str:
    known = _WORDS.get(one["verdict"])
    return known if known is not None else f"different at token {one['token']:,}"
