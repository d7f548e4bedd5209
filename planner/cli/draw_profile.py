"""Drawing of `planner bundle profile`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cli.draw import rows, say

_LINES = (
    ("drops", "drops without an error"),
    ("raisesOn", "raises on"),
    ("rewrites", "rewrites"),
    ("callRules", "calls"),
    ("oldReasoning", "earlier reasoning is"),
    ("parsedStrings", "reads in texts"),
    ("spliceDepth", "a turn depends on following turns"),
    ("appendStable", "a growing chat keeps its prefix"),
    ("contents", "contents as"),
    ("writesBos", "writes the begin token"),
    ("answerHeader", "header of the answer"),
    ("options", "switches"),
)
_KINDS = {"short": "question and answer", "long": "long question and answer", "tool": "question, call, result, answer"}


def draw_profile(described: Mapping[str, Any]) -> None:
    """Draw what the template does, the cost of each language, the turns of each tier."""
    say(f"bundle {described['modelBundleId']}", "bold")
    template = described["template"]
    if template is None:
        say("template  none: the files hold no chat template and can only count")
    else:
        rows(("template", ""), [(title, _cell(key, template[key])) for key, title in _LINES])
    say()
    rows(
        ("language", "script", "characters", "tokens", "tokens per character"),
        [
            (row["language"], row["script"], row["characters"], row["tokens"], f"{row['tokensPerCharacter']:.2f}")
            for row in described["languages"]
        ],
        right=(2, 3, 4),
    )
    if template is None:
        return
    say()
    limits = sorted({row["inputLimit"] for row in described["turns"]})
    cells = {(row["kind"], row["inputLimit"]): row for row in described["turns"]}
    rows(
        ("typical turns that fit", *(f"{limit:,}" for limit in limits)),
        [(title, *(_turns(cells[kind, limit]) for limit in limits)) for kind, title in _KINDS.items()],
        right=tuple(range(1, len(limits) + 1)),
    )


def _turns(row: Mapping[str, Any]) -> str:
    return str(row["reason"]) if row["turns"] is None else f"{row['turns']:,}"


def _cell(key: str, value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not proven" if key == "spliceDepth" else "-"
    return str(value)
