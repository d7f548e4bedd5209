"""JSON to values. The only module that runs pydantic, over the same frozen classes everybody speaks in.

Strict JSON first (`strict_json`), then the version, then pydantic for names and types. Rules that tie fields
together are `values.check`'s, because Python callers must keep them too.
Refusals carry a JSON path made of our own names and never a value or a key of the input (R188).
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from planner.values.account import Account, account_problem, wire_field
from planner.values.check_policy import check_policy_file
from planner.values.field_rules import invalid
from planner.values.plan import Plan, PlanFile, Refusal
from planner.values.policy_file import PolicyFile
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt, Removal
from planner.values.request import PlanRequest
from planner.values.strict_json import REQUEST_BOUNDS, Bounds, load_strict
from planner.values.wire_names import KNOWN_NAMES, SCHEMA_VERSION, wire_fields
from planner.wire.ids_file import read_ids

_ANSWER = Bounds(total_bytes=64 * 1024 * 1024, field_bytes=64 * 1024 * 1024, list_items=8_000_000)
"""What we wrote ourselves: a plan in a window of a million tokens, with prompt and spans, stays below it."""
_Record = TypeVar("_Record")
_UNION_TAGS = frozenset({"str", "dict[str,any]"})
"""How pydantic names the two forms of a call's arguments, the only union of ours that is not a null."""
_SENTENCES = {
    "missing": "is missing",
    "string_type": "expected a string",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "literal_error": "is not one of the allowed values",
    "tuple_type": "expected an array",
    "list_type": "expected an array",
    "dict_type": "expected an object",
    "mapping_type": "expected an object",
    "dataclass_type": "expected an object",
}


@cache
def type_adapter(owner: Any) -> TypeAdapter[Any]:
    """Return pydantic's reader of a class of ours; the settings are put on from outside, once.

    Inner classes inherit them, so `values` need not name pydantic.
    """
    settings = ConfigDict(extra="forbid", alias_generator=wire_field)
    owner.__pydantic_config__ = settings
    return TypeAdapter(owner)


@cache
def _reader(owner: Any) -> SchemaValidator:
    """Return the validator of a type; it leaves a list at its first bad item.

    pydantic would note every bad item: two million of them in a request of 4 MiB took 0.9 GB.
    """
    if hasattr(owner, "__dataclass_fields__"):
        return SchemaValidator(_fail_fast(type_adapter(owner).core_schema))
    # Parts of a plan that are no classes of ours; `Removal` inside one of them needs its settings.
    type_adapter(Removal)
    return SchemaValidator(_fail_fast(TypeAdapter(owner).core_schema))


def _fail_fast(node: Any) -> Any:
    if isinstance(node, list):
        return [_fail_fast(item) for item in node]
    if not isinstance(node, dict):
        return node
    copied = {key: _fail_fast(item) for key, item in node.items()}
    return {**copied, "fail_fast": True} if node.get("type") == "tuple" else copied


def parse_request(data: bytes, base: Path | None = None) -> PlanRequest:
    """Read a request; absent fields take their documented default.

    data  one JSON document of at most 4 MiB and 20,000 messages.
    base  folder below which `previous.ids` and `previous.generatedIds` may name an int32 file.
    Raises RefusalSignal `invalid-input` with a JSON path, for unknown fields and major versions too.
    """
    tree = load_strict(data)
    _check_version(tree)
    files = _id_files(tree, base)
    if files:
        tree["previous"] = {key: item for key, item in tree["previous"].items() if key not in files}
        data = json.dumps(tree, ensure_ascii=False).encode()
    request: PlanRequest = _validated(PlanRequest, data)
    if sum(len(turn.messages) for turn in request.turns) > REQUEST_BOUNDS.list_items:
        invalid("$.turns", f"have more than {REQUEST_BOUNDS.list_items} messages")
    if files and request.previous is not None:
        ids, generated = files.get("ids"), files.get("generatedIds")
        previous = request.previous
        previous = previous if ids is None else replace(previous, ids=tuple(ids))
        previous = previous if generated is None else replace(previous, generated_ids=tuple(generated))
        request = replace(request, previous=previous)
    return request


def parse_record(owner: type[_Record], data: bytes) -> _Record:
    """Read a turn, a summary or a compaction plan that `dump_record` wrote.

    Raises RefusalSignal `invalid-input`, for unknown fields and major versions too.
    """
    record: _Record = _validated(owner, _encode(_answer(data)))
    return record


def parse_policy_file(data: bytes) -> PolicyFile:
    """Read a policy as it is published. Raises RefusalSignal `invalid-input`; nothing is judged here (R26)."""
    tree = load_strict(data)
    _check_version(tree)
    tree.pop("schemaVersion", None)
    policy: PolicyFile = _validated(PolicyFile, _encode(tree))
    check_policy_file(policy)
    return policy


def parse_account(data: bytes) -> Account:
    """Read an account. Raises `account_incomplete` where one of the seven fields is no figure (R37)."""
    tree = _answer(data)
    check_seven_fields(tree, "$")
    account: Account = _validated(Account, _encode(tree))
    return account


def parse_event(data: bytes) -> dict[str, int]:
    """Read an event of one plan: exactly the seven fields (R35, R37)."""
    tree = load_strict(data)
    check_seven_fields(tree, "$")
    if len(tree) != 7:
        invalid("$", "has an unknown field")
    return dict(tree)


def parse_receipt(data: bytes) -> Receipt:
    """Read a receipt. Raises `invalid-input`, or `account_incomplete` for its account (R37)."""
    tree = _answer(data)
    _check_receipt(tree, "$")
    receipt: Receipt = _validated(Receipt, _encode(tree))
    return receipt


def parse_plan_file(data: bytes) -> PlanFile:
    """Read a plan file (R197)."""
    load_strict(data, _ANSWER)
    plan_file: PlanFile = _validated(PlanFile, data)
    return plan_file


def parse_refusal(data: bytes) -> Refusal:
    """Read a refusal. Raises `invalid-input`, or `account_incomplete` for an account in it (R37)."""
    tree = _answer(data)
    if tree.keys() - {one.alias for one in wire_fields(Refusal)}:
        invalid("$", "has an unknown field")
    _check_receipt(tree.get("receipt"), "$.receipt")
    if tree.get("account") is not None:
        check_seven_fields(tree["account"], "$.account")
    refusal: Refusal = _validated(Refusal, _encode(tree))
    return refusal


def parse_plan(data: bytes, base: Path | None = None) -> Plan:
    """Read a plan; `ids` may name an int32 file below `base`.

    Raises `invalid-input`, or `account_incomplete` for its account or its receipt's (R37).
    """
    tree = _answer(data)
    check_seven_fields(tree.get("account"), "$.account")
    _check_receipt(tree.get("receipt"), "$.receipt")
    ids = tree.pop("ids", None)
    if type(ids) is str:
        ids = read_ids(ids, base, "$.ids")
    elif type(ids) is list and all(type(one) is int and 0 <= one < 2**31 for one in ids):
        ids = array("i", ids)
    else:
        invalid("$.ids", "expected an array of token ids or the name of a file")
    parts: dict[str, Any] = {}
    for name, hint in _plan_parts().items():
        alias = wire_field(name)
        if alias not in tree:
            invalid(f"$.{alias}", "is missing")
        parts[name] = _validated(hint, _encode(tree.pop(alias)), f"$.{alias}")
    if tree:
        invalid("$", "has an unknown field")
    return Plan(ids=ids, **parts)


@cache
def _plan_parts() -> dict[str, Any]:
    """Return the fields of a plan but `ids`, an array, which pydantic does not know."""
    # `array[int]` cannot be evaluated before Python 3.12.
    hints = get_type_hints(Plan, localns={"array": list})
    return {one.name: hints[one.name] for one in wire_fields(Plan) if one.name != "ids"}


def _validated(owner: Any, data: bytes, path: str = "$") -> Any:
    try:
        return _reader(owner).validate_json(data, strict=True)
    except ValidationError as error:
        steps, sentence = _first_problem(error)
    # Raised outside `except`: pydantic's error holds the input and must not hang on ours.
    return invalid(path + steps, sentence)


def _first_problem(error: ValidationError) -> tuple[str, str]:
    """Return path and sentence of the first problem."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    steps = first["loc"]
    if first["type"] == "unexpected_keyword_argument":
        return _json_path(steps[:-1]), "has an unknown field"
    if steps and steps[-1] in _UNION_TAGS:
        return _json_path(steps), "expected an object or a string"
    return _json_path(steps), _SENTENCES.get(first["type"], "has the wrong form")


def _json_path(steps: tuple[int | str, ...]) -> str:
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step in KNOWN_NAMES:
            path += f".{step}"
        elif step not in _UNION_TAGS:
            path += ".*"
    return path


def _check_version(tree: Any) -> None:
    if type(tree) is not dict:
        invalid("$", "expected an object")
    version = tree.get("schemaVersion", SCHEMA_VERSION)
    if type(version) is not str or re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", version) is None:
        invalid("$.schemaVersion", "expected major.minor")
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        invalid("$.schemaVersion", "is a major version this build does not read")


def _answer(data: bytes) -> dict[str, Any]:
    """Load an answer and take the version off, which is the document's and not the value's."""
    tree = load_strict(data, _ANSWER)
    _check_version(tree)
    return {key: item for key, item in tree.items() if key != "schemaVersion"}


def _encode(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode()


def check_seven_fields(tree: object, path: str) -> None:
    """Refuse an account that lacks a measured figure. Raises RefusalSignal `account_incomplete` (R37)."""
    if not isinstance(tree, Mapping):
        _incomplete(path)
    name = account_problem(tree)
    if name is not None:
        _incomplete(f"{path}.{name}")


def _check_receipt(tree: object, path: str) -> None:
    if not isinstance(tree, Mapping):
        invalid(path, "expected an object")
    # A receipt of an accepted plan has no reason, and then its account is what was measured.
    if tree.get("account") is not None or tree.get("reason") is None:
        check_seven_fields(tree.get("account"), f"{path}.account")


def _incomplete(path: str) -> NoReturn:
    raise RefusalSignal("account_incomplete", f"{path}: is not a measured figure")


def _id_files(tree: dict[str, Any], base: Path | None) -> dict[str, array[int]]:
    previous = tree.get("previous")
    if type(previous) is not dict:
        return {}
    return {
        key: read_ids(previous[key], base, f"$.previous.{key}")
        for key in ("ids", "generatedIds")
        if type(previous.get(key)) is str
    }
