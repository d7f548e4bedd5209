"""The published JSON Schema of a request, generated from the values and kept at docs/schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.values.field_rules import ID_PATTERN, MAX_WHOLE, VERSION_PATTERN
from planner.values.request import PlanRequest
from planner.values.wire_names import SCHEMA_VERSION
from planner.wire.parse import type_adapter

SCHEMA_PATH = Path("docs/schema/plan-request.schema.json")
"""Where the schema stands, relative to the checkout."""
_ID_NAMES = frozenset({
    "id", "modelBundleId", "conversationId", "tierId", "candidateId", "turnId", "planId", "firstKeptTurnId",
    "citationId", "callId", "constraintId", "branch", "summariserBundle", "sourceFingerprint", "protectedFingerprint",
    "goalFrom", "factKey", "confirmationId", "tenant", "dataset",
})  # fmt: skip
_VERSION_NAMES = frozenset({"policyVersion", "appVersion", "strategyVersion"})
_SHARES = frozenset({"relevance", "compactAt", "lowWater", "lowValueLine", "sourceShare"})


def schema_text() -> str:
    """Return the schema as the text of its file, with defaults, id patterns and bounds."""
    schema = type_adapter(PlanRequest).json_schema(by_alias=True, mode="validation")
    _complete(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"wire version {SCHEMA_VERSION}; rules between fields are checked beside this schema",
    }
    return json.dumps({**head, **schema}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_schema(root: Path = Path()) -> None:
    """Write the schema below `root`, the checkout."""
    (root / SCHEMA_PATH).write_text(schema_text(), encoding="utf-8", newline="\n")


def _complete(node: Any) -> None:
    """Write what types alone do not say: ids, shares of one, whole numbers that are not negative."""
    if isinstance(node, list):
        for item in node:
            _complete(item)
        return
    if not isinstance(node, dict):
        return
    if isinstance(node.get("title"), str):
        del node["title"]
    for name, rule in node.get("properties", {}).items():
        for option in rule.get("anyOf", [rule]):
            _bound(name, option)
    if "schemaVersion" in node.get("properties", {}):
        node["properties"]["schemaVersion"]["pattern"] = f"^{SCHEMA_VERSION.partition('.')[0]}\\.[0-9]{{1,4}}$"
    # A path to an int32 file may stand for the array (design.md §9).
    for ids in ("ids", "generatedIds"):
        if ids in node.get("properties", {}):
            node["properties"][ids]["anyOf"].append({"type": "string", "description": "name of an int32 file"})
    for item in list(node.values()):
        _complete(item)


def _bound(name: str, option: dict[str, Any]) -> None:
    kind = option.get("type")
    if kind == "string" and name in _ID_NAMES:
        option["pattern"] = f"^{ID_PATTERN}$"
    elif kind == "string" and name in _VERSION_NAMES:
        option["pattern"] = f"^{VERSION_PATTERN}$"
    elif kind == "number" and name in _SHARES:
        option.update(minimum=0, maximum=1)
    elif kind == "integer":
        option.update(minimum=0, maximum=MAX_WHOLE)
