"""Loader of the shared cases D01..D20 with their macro language (cases/README.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def replace(value: Any, name: str, number: int) -> Any:
    """Put a number for `{name}` in every string; a string that is only `{name}` becomes the number."""
    mark = "{" + name + "}"
    if isinstance(value, str):
        return number if value == mark else value.replace(mark, str(number))
    if isinstance(value, list):
        return [replace(item, name, number) for item in value]
    if isinstance(value, dict):
        return {key: replace(item, name, number) for key, item in value.items()}
    return value


def expand(value: Any) -> Any:
    """Expand macros from the inside out; an object is a macro only if its key set is exactly one of them."""
    if isinstance(value, list):
        out: list[Any] = []
        for item in value:
            if isinstance(item, dict) and set(item) == {"each", "item"}:
                each = item["each"]
                span = range(each["from"], each["to"] + 1)
                out.extend(expand(replace(item["item"], each["as"], number)) for number in span)
            else:
                out.append(expand(item))
        return out
    if not isinstance(value, dict):
        return value
    keys = set(value)
    if keys == {"repeat", "times"}:
        return expand(value["repeat"]) * value["times"]
    if keys == {"concat"}:
        return "".join(expand(part) for part in value["concat"])
    if keys == {"lines", "from", "to"}:
        span = range(value["from"], value["to"] + 1)
        return "\n".join(value["lines"].replace("{i}", str(number)) for number in span)
    return {key: expand(item) for key, item in value.items()}


@dataclass(frozen=True)
class Case:
    """One case: `raw` is the file with macros expanded."""

    id: str
    raw: dict[str, Any]

    @property
    def title(self) -> str:
        """Title of the file."""
        return str(self.raw["title"])

    @property
    def input(self) -> Any:
        """The input, in one of the three shapes of cases/README.md."""
        return self.raw["input"]

    @property
    def budget(self) -> Any:
        """inputLimit, reservedOutput, safetyMargin; or None, or a sentence in a few variants."""
        return self.raw.get("budget")

    @property
    def expected(self) -> dict[str, Any]:
        """outcome, code, keep, remove, checks, measured figures."""
        return dict(self.raw["expected"])

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The same case with another budget, a change or another input, each with its own expectation."""
        return list(self.raw.get("variants") or ())

    def checks(self) -> list[str]:
        """Every string under `checks`, of the case and of its variants, in order."""
        found = list(self.expected.get("checks") or ())
        for variant in self.variants:
            found += (variant.get("expected") or {}).get("checks") or ()
        return found


def changed(value: Any, change: dict[str, Any]) -> Any:
    """Return a copy of an input with a variant's `change` (path -> new value) applied.

    Paths read like `summaries[0].summaryText`. Raises KeyError or IndexError where one leads nowhere.
    """
    copy = json.loads(json.dumps(value))
    for path, new in change.items():
        *parents, last = _path(path)
        here = copy
        for key in parents:
            here = here[key]
        here[last] = expand(new)
    return copy


def _path(path: str) -> list[Any]:
    flat = path.replace("[", ".").replace("]", "")
    return [int(part) if part.isdecimal() else part for part in flat.split(".") if part]


def as_chat(value: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return (messages, tools) of a structured or flat input, as its measured numbers were rendered.

    The policy texts are one leading system message, joined by a blank line; turns and request follow as
    they are. Keys that are not part of a chat message (`mid`, `id` of the message) are left out.
    """
    tools = [{"type": "function", "function": tool["function"]} for tool in value.get("tools") or ()]
    if "messages" in value:
        listed = value["messages"]
    else:
        policy = "\n\n".join(item["text"] for item in value.get("policy") or ())
        listed = [{"role": "system", "content": policy}] if policy else []
        for turn in [*(value.get("history") or ()), value["request"]]:
            listed = [*listed, *turn["messages"]]
    known = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")
    return [{key: message[key] for key in known if key in message} for message in listed], tools


def load(shared: Path, *names: str) -> list[Case]:
    """Load the named cases, or all of them, in order of their id."""
    paths = sorted((shared / "cases").glob("D*.json"))
    cases = [Case(path.stem, expand(json.loads(path.read_text(encoding="utf-8")))) for path in paths]
    return [case for case in cases if not names or case.id in names]
