"""Builds the bytes of requests.json; the command's tests use the same list."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANARY = "kestrel7391"
FILE = Path(__file__).with_name("requests.json")


@dataclass(frozen=True)
class BadInput:
    """One broken input: `kind` is request or chat, `path` begins the detail of the refusal."""

    name: str
    kind: str
    data: bytes
    code: str
    path: str


def bad_inputs() -> list[BadInput]:
    """Return every entry, with the canary planted."""
    listed = json.loads(FILE.read_text(encoding="utf-8").replace("CANARY", CANARY))
    return [
        BadInput(
            entry["name"],
            "chat" if "chat" in entry else "request",
            _data(entry, listed),
            entry["code"],
            entry["path"],
        )
        for entry in listed["requests"]
    ]


def good_inputs() -> list[BadInput]:
    """Return the two documents the entries start from, which are in order."""
    listed = json.loads(FILE.read_text(encoding="utf-8").replace("CANARY", CANARY))
    return [
        BadInput("base", "request", json.dumps(listed["base"]).encode(), "", ""),
        BadInput("chat", "chat", json.dumps(listed["chat"]).encode(), "", ""),
    ]


def _data(entry: dict[str, Any], listed: dict[str, Any]) -> bytes:
    if "hex" in entry:
        return bytes.fromhex(entry["hex"])
    if "text" in entry:
        before, times, after = entry.get("repeat", ["", 0, ""])
        return (before * times + entry["text"] + after * times).encode()
    tree = copy.deepcopy(listed["chat" if "chat" in entry else "base"])
    keys, value = entry["set"]
    place = tree
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = _expanded(value)
    for index in entry.get("drop", []):
        del tree[index]
    return json.dumps(tree).encode()


def _expanded(value: Any) -> Any:
    """Write out the two values that are too long for the list: a deep object and a long string."""
    if isinstance(value, dict) and value.keys() == {"NESTED"}:
        nested: Any = CANARY
        for _ in range(value["NESTED"]):
            nested = {CANARY: nested}
        return nested
    if isinstance(value, dict) and value.keys() == {"REPEAT", "TIMES"}:
        return value["REPEAT"] * value["TIMES"]
    return value
