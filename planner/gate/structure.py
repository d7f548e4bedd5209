"""The structural validator of a plan file: the published script's checks to the letter, then stricter ones (V1..V12).

`script_message` answers as the script of source 002 does: the same check order, the same words. Where the script
would die of a traceback it answers with one of our own messages instead (X21). `extra_message` holds what the
prose asks for and the script lets pass; it is asked only about plans that the script accepts, so that no rejection
of the script ever changes its words (R202, X67). Both are pure and read no text of a conversation (R198).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

IMMUTABLE_LAYERS = frozenset({"immutable_policy", "required_request"})

LIMITS = "token limits are invalid"
NO_ITEMS = "items must be a non-empty list"
IDS = "item ids must be present and unique"
STILL_THERE = "removed items still appear in the retained plan"
IMMUTABLE_REMOVED = "an immutable item was removed"
SEQUENCE = "message sequence is invalid or reordered"
POLICY = "required policy items are missing"
CONSTRAINTS = "a summary lost required constraints"
BUDGET = "retained context exceeds the input budget"

NO_OBJECT = "plan must be an object"
NO_ITEM_OBJECT = "items must be objects"
ID_LISTS = "id lists are invalid"
LAYER = "item layer is missing"
TOKENS = "item tokens are invalid"
GENERATION = "generation is inconsistent"

SCRIPT_MESSAGES = (
    LIMITS, NO_ITEMS, IDS, STILL_THERE, IMMUTABLE_REMOVED, SEQUENCE, POLICY, CONSTRAINTS, BUDGET,
)  # fmt: skip
"""V4..V12 in the order of the checks."""
OWN_MESSAGES = (NO_OBJECT, NO_ITEM_OBJECT, ID_LISTS, LAYER, TOKENS, GENERATION)
"""The extras of X67."""


def script_message(plan: Any) -> str | None:
    """Return the first message a parsed plan gets, None where the script accepts it (R199)."""
    if not isinstance(plan, dict):
        return NO_OBJECT
    limit, reserved, items = plan.get("maxInputTokens"), plan.get("reservedOutputTokens"), plan.get("items")
    sets = [_as_set(plan.get(name, [])) for name in ("removedIds", "requiredPolicyIds", "requiredConstraintIds")]
    removed, required_policy, required_constraints = sets
    if removed is None or required_policy is None or required_constraints is None:
        return ID_LISTS
    if type(limit) is not int or type(reserved) is not int or limit <= reserved:
        return LIMITS
    if not isinstance(items, list) or not items:
        return NO_ITEMS
    if not all(isinstance(item, dict) for item in items):
        return NO_ITEM_OBJECT
    return (
        _script_ids(items, removed)
        or _script_sequence(items)
        or _script_carriers(items, required_policy, required_constraints)
        or _script_budget(items, limit, reserved)
    )


def _as_set(value: Any) -> set[Any] | None:
    """Read a list of ids as the script does, a string letter by letter; None where it would crash."""
    try:
        return set(value)
    except TypeError:
        return None


def _script_ids(items: list[dict[str, Any]], removed: set[Any]) -> str | None:
    ids = [item.get("id") for item in items]
    known = _as_set(ids)
    if known is None or None in ids or len(ids) != len(known):
        return IDS
    if removed.intersection(ids):
        return STILL_THERE
    layers = _as_set(item.get("layer") for item in items)
    if layers is None:
        return LAYER
    # The script asks here for a retained item that is removed, which the check above always answers first (X19).
    return None


def _script_sequence(items: list[dict[str, Any]]) -> str | None:
    sequences = [item["sequence"] for item in items if item.get("sequence") is not None]
    if any(type(value) is not int for value in sequences) or sequences != sorted(sequences):
        return SEQUENCE
    return None


def _script_carriers(items: list[dict[str, Any]], policy: set[Any], constraints: set[Any]) -> str | None:
    if not policy <= {item["id"] for item in items if item.get("layer") == "immutable_policy"}:
        return POLICY
    carried: set[Any] = set()
    for item in items:
        found = _as_set(item.get("constraintIds", []))
        if found is None:
            return ID_LISTS
        carried |= found
    return None if constraints <= carried else CONSTRAINTS


def _script_budget(items: list[dict[str, Any]], limit: int, reserved: int) -> str | None:
    try:
        total = sum(item.get("tokens", 0) for item in items) + reserved
        return BUDGET if total > limit else None
    except (TypeError, OverflowError):
        return TOKENS


def extra_message(plan: dict[str, Any]) -> str | None:
    """Return what a plan that the script accepts still lacks, None where nothing does (X17..X22, X67, R203)."""
    items: list[dict[str, Any]] = plan["items"]
    if plan["maxInputTokens"] <= 0 or plan["reservedOutputTokens"] < 0:
        return LIMITS
    if not all(isinstance(item["id"], str) and item["id"] for item in items):
        return IDS
    entries = plan.get("removed", [])
    lists = [plan.get(name, []) for name in ("removedIds", "requiredPolicyIds", "requiredConstraintIds")]
    lists += [item.get("constraintIds", []) for item in items]
    if not all(_is_id_list(entry) for entry in lists) or not _is_removed_list(entries):
        return ID_LISTS
    return _extra_removed(items, entries) or _extra_items(items) or _extra_generation(plan, items)


def _is_id_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) and entry for entry in value)


def _is_removed_list(value: Any) -> bool:
    """Entries of the prose's `removed` are ids or objects with an id (X17)."""
    return isinstance(value, list) and _is_id_list([_removed_id(entry) for entry in value])


def _removed_id(entry: Any) -> Any:
    return entry.get("id") if isinstance(entry, dict) else entry


def _extra_removed(items: list[dict[str, Any]], removed: list[Any]) -> str | None:
    if {item["id"] for item in items} & {_removed_id(entry) for entry in removed}:
        return STILL_THERE
    declared = [entry.get("layer") for entry in removed if isinstance(entry, dict)]
    return IMMUTABLE_REMOVED if any(layer in tuple(IMMUTABLE_LAYERS) for layer in declared) else None


def _extra_items(items: list[dict[str, Any]]) -> str | None:
    if not all(isinstance(item.get("layer"), str) and item["layer"] for item in items):
        return LAYER
    sequences = [item["sequence"] for item in items if item.get("sequence") is not None]
    if _repeats(sequences):
        return SEQUENCE
    tokens = [item.get("tokens") for item in items]
    if any(type(count) is not int or count < 0 for count in tokens):
        return TOKENS
    return None


def _repeats(values: Iterable[int]) -> bool:
    found = list(values)
    return len(found) != len(set(found))


def _extra_generation(plan: dict[str, Any], items: list[dict[str, Any]]) -> str | None:
    if "generation" not in plan:
        # The file may stand without one; it is then no evidence for a release (X22).
        return GENERATION if any("generation" in item for item in items) else None
    generation = plan["generation"]
    if type(generation) is not int:
        return GENERATION
    others = [item["generation"] for item in items if "generation" in item]
    return GENERATION if any(type(one) is not int or one != generation for one in others) else None
