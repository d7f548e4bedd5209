"""Values to canonical JSON, with nothing but the standard library.

Canonical: fields in the order of their names, camelCase, compact, UTF-8 without escapes. An application's own
JSON (declarations, schemas, arguments) keeps its key order, because templates print it. Requests leave out
what equals its default; answers write every field, with null where there is no value.
`parse(dump(x)) == x`, and `dump(parse(b)) == b` for canonical bytes (tests/wire/test_round_trip.py).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from typing import Any

from planner.values.account import SEVEN_FIELDS, Account, wire_field
from planner.values.admission import Exclusion
from planner.values.observation import Observation
from planner.values.plan import Plan, PlanFile, Refusal
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.wire_names import SCHEMA_VERSION, wire_fields


def dump_request(request: PlanRequest) -> bytes:
    """Return the canonical bytes of a request; `schemaVersion` is always there.

    The request must hold texts without surrogates, which `check_request` sees to.
    """
    tree = _request_tree(request)
    tree["schemaVersion"] = request.schema_version
    return _encode({key: tree[key] for key in sorted(tree)})


def dump_plan(plan: Plan, *, ids_file: str | None = None) -> bytes:
    """Return the bytes of a plan; `ids_file` names the int32 file that stands for the array of ids."""
    tree = _answer_tree(plan)
    if ids_file is not None:
        tree["ids"] = ids_file
    return _encode(_versioned(tree))


def dump_refusal(refusal: Refusal) -> bytes:
    """Return the bytes of a refusal."""
    return _encode(_versioned(_answer_tree(refusal)))


def dump_receipt(receipt: Receipt) -> bytes:
    """Return the bytes of a receipt."""
    return _encode(_versioned(_answer_tree(receipt)))


def dump_audit(audit: tuple[Exclusion, ...]) -> bytes:
    """Return the bytes of an audit record: ids, reasons and checks of what admission excluded (R159)."""
    return _encode(_versioned({"excluded": [_answer_tree(entry) for entry in audit]}))


def dump_observation(observation: Observation) -> bytes:
    """Return the bytes of an observation: what a runtime reported of one plan, and what it comes to (X60)."""
    return _encode(_versioned(_answer_tree(observation)))


def dump_account(account: Account) -> bytes:
    """Return the bytes of an account."""
    return _encode(_versioned(_answer_tree(account)))


def dump_plan_file(plan_file: PlanFile) -> bytes:
    """Return the bytes of a plan file. It has no schema version: the published gate fixes its keys (R197)."""
    return _encode(_answer_tree(plan_file))


def dump_record(value: Any) -> bytes:
    """Return the bytes of a turn, a summary or a compaction plan, one JSON line without its line end.

    Fields that equal their default are left out; `schemaVersion` is always there.
    """
    return _encode(_versioned(_request_tree(value)))


def event_fields(account: Account) -> dict[str, int]:
    """Return the event of one plan: exactly the seven fields of R35."""
    return {wire_field(name): getattr(account, name) for name in SEVEN_FIELDS}


def _encode(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _versioned(tree: dict[str, Any]) -> dict[str, Any]:
    tree["schemaVersion"] = SCHEMA_VERSION
    return {key: tree[key] for key in sorted(tree)}


def _request_tree(value: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    owner: Any = type(value)
    for one in wire_fields(owner):
        found = getattr(value, one.name)
        if one.default is not MISSING and found == one.default:
            continue
        if one.is_float:
            tree[one.alias] = float(found)
        elif one.is_free or type(found) is str:
            tree[one.alias] = found
        else:
            tree[one.alias] = _plain(found, _request_tree)
    return tree


def _answer_tree(value: Any) -> dict[str, Any]:
    owner: Any = type(value)
    return {
        one.alias: found if one.is_free else _plain(found, _answer_tree)
        for one in wire_fields(owner)
        for found in (getattr(value, one.name),)
    }


def _plain(value: Any, tree: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return [_plain(item, tree) for item in value]
    if kind is array:
        return value.tolist()
    if is_dataclass(value):
        return tree(value)
    if isinstance(value, Mapping):
        return {key: value[key] for key in sorted(value)}
    return value
