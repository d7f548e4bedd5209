"""What a plan file cannot prove by itself: tokens, coverage, citation permission, tool schemas (R201).

The request is planned once more with nothing remembered, its prompt is encoded in one plain call, and the file is
held against the outcome. Nothing here trusts a number of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.steps.admit import admission_of
from planner.values.bundle import Bundle
from planner.values.plan import Plan, PlanFile, Refusal
from planner.values.request import PlanRequest

_FIELDS = ("layer", "tokens", "sequence", "constraintIds")


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a plan file and the truth: the check's name, the item or field, never a text."""

    check: str
    id: str

    @property
    def line(self) -> str:
        """The finding as one line."""
        return f"{self.check}: {self.id}"


def findings(file: Mapping[str, Any], request: PlanRequest, again: Plan | Refusal, bundle: Bundle) -> list[Finding]:
    """Return every difference, in the order of the checks; none for a sound file.

    file     the parsed plan file, structurally accepted.
    request  the request as it was planned, its turns and summaries included.
    again    the answer to it with nothing remembered.
    Checks: `refused`, `generation`, `limits`, `required`, `items`, `tokens` and the item's other fields, `removed`,
    `encoding` (the prompt in one plain call), `coverage`, `citation`, `tool_schema`, `tool_allowlist`.
    """
    if isinstance(again, Refusal):
        return [Finding("refused", again.reason)]
    return [
        *_frame(file, again.plan_file),
        *_items(file["items"], again.plan_file),
        *_encoding(again, bundle),
        *_coverage(file["items"], again, request),
        *_citations(file["items"], request),
        *_tools(file["items"], request),
    ]


def _frame(file: Mapping[str, Any], truth: PlanFile) -> Iterator[Finding]:
    if file.get("generation") != truth.generation:
        yield Finding("generation", "generation")
    for name, value in (
        ("maxInputTokens", truth.max_input_tokens), ("reservedOutputTokens", truth.reserved_output_tokens),
    ):  # fmt: skip
        if file[name] != value:
            yield Finding("limits", name)
    for name, ids in (
        ("requiredPolicyIds", truth.required_policy_ids), ("requiredConstraintIds", truth.required_constraint_ids),
    ):  # fmt: skip
        for key in sorted(set(file.get(name, [])) ^ set(ids)):
            yield Finding("required", key)
    removed = set(file.get("removedIds", []))
    removed |= {entry["id"] if isinstance(entry, dict) else entry for entry in file.get("removed", [])}
    for key in sorted(removed ^ set(truth.removed_ids)):
        yield Finding("removed", key)


def _items(items: list[dict[str, Any]], truth: PlanFile) -> Iterator[Finding]:
    said = {item["id"]: item for item in items}
    true = {item.id: item for item in truth.items}
    for key in sorted(said.keys() ^ true.keys()):
        yield Finding("items", key)
    for key in (item["id"] for item in items if item["id"] in true):
        one, row = true[key], said[key]
        wanted = (one.layer, one.tokens, one.sequence, sorted(one.constraint_ids))
        found = (row.get("layer"), row.get("tokens"), row.get("sequence"), sorted(row.get("constraintIds", [])))
        for name, left, right in zip(_FIELDS, wanted, found, strict=True):
            if left != right:
                yield Finding(name, key)


def _encoding(again: Plan, bundle: Bundle) -> Iterator[Finding]:
    # Where content spelled a control token, the plain encoder would obey it; the planner's own audit covers those.
    if again.prompt is None or again.receipt.neutralised:
        return
    if list(bundle.engine.encode_parsed(again.prompt)) != list(again.ids):
        yield Finding("encoding", "prompt")


def _coverage(items: list[dict[str, Any]], again: Plan, request: PlanRequest) -> Iterator[Finding]:
    """A summary stands beside no turn it covers, and no two of them overlap (R205, X51)."""
    used = [entry for entry in again.receipt.summaries if entry.fate == "used"]
    present = {item["id"] for item in items}
    for turn in request.turns:
        if f"turn/{turn.id}" in present and any(low <= turn.sequence <= high for low, high in _spans(used)):
            yield Finding("coverage", f"turn/{turn.id}")
    ends = -1
    for entry in sorted(used, key=lambda entry: entry.covers):
        if entry.covers[0] <= ends:
            yield Finding("coverage", f"summary/{entry.id}")
        ends = entry.covers[1]


def _spans(used: list[Any]) -> list[tuple[int, int]]:
    return [entry.covers for entry in used]


def _citations(items: list[dict[str, Any]], request: PlanRequest) -> Iterator[Finding]:
    admitted, _ = admission_of(request, request.turns)
    allowed = {f"passage/{passage.citation_id}" for passage in admitted.passages}
    for item in items:
        if item["id"].startswith("passage/") and item["id"] not in allowed:
            yield Finding("citation", item["id"])


def _tools(items: list[dict[str, Any]], request: PlanRequest) -> Iterator[Finding]:
    known = {f"tool/{tool.id}": tool.declaration for tool in request.tools}
    for item in items:
        if item["layer"] != "tools" and not item["id"].startswith("tool/"):
            continue
        if item["id"] not in known:
            yield Finding("tool_allowlist", item["id"])
        elif not is_tool_schema(known[item["id"]]):
            yield Finding("tool_schema", item["id"])


def is_tool_schema(declaration: Any) -> bool:
    """Tell whether a declaration names a function whose parameters are an object that holds what it requires.

    >>> is_tool_schema({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}})
    True
    >>> is_tool_schema({"name": "f", "parameters": {"type": "object", "required": ["q"]}})
    False
    """
    if not isinstance(declaration, Mapping):
        return False
    function = declaration.get("function", declaration)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return False
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        return False
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, (list, tuple)):
        return False
    known = all(isinstance(name, str) and name in properties for name in required)
    return known and all(isinstance(value, (Mapping, bool)) for value in properties.values())
