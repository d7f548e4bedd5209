"""Strategies for every wire type, read off the dataclasses so that a new field is generated at once."""

from __future__ import annotations

import types
import typing
from array import array
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from planner.values.account import Account
from planner.values.field_rules import holds_forbidden
from planner.values.plan import Plan, Refusal
from planner.values.receipt import Receipt

TEXT = st.text(max_size=12).filter(lambda text: not holds_forbidden(text))
WHOLE = st.integers(min_value=0, max_value=2**31 - 1)
SHARE = st.floats(min_value=0, max_value=1, allow_nan=False)
JSON_LEAF = (
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
JSON = st.recursive(
    JSON_LEAF,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
JSON_OBJECT = st.dictionaries(TEXT, JSON, max_size=3)


@cache
def instances(owner: Any) -> st.SearchStrategy[Any]:
    """Return instances of a dataclass with every field generated or, where it has a default, left out."""
    # `array[int]` cannot be evaluated before Python 3.12.
    hints = typing.get_type_hints(owner, localns={"array": list})
    required, optional = {}, {}
    for one in fields(owner):
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        (optional if has_default else required)[one.name] = _of(hints[one.name])
    optional.pop("schema_version", None)
    built = st.fixed_dictionaries(required, optional=optional).map(lambda given: owner(**given))
    if owner in (Receipt, Refusal, Plan):
        return st.builds(_with_account, built, instances(Account))
    return built


def _with_account(value: Any, account: Account) -> Any:
    """Give an accepted plan's receipt the account it always has."""
    receipt = value if isinstance(value, Receipt) else value.receipt
    if receipt.reason is None and receipt.account is None:
        receipt = replace(receipt, account=account)
    return receipt if isinstance(value, Receipt) else replace(value, receipt=receipt)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_of(one) for one in inner])
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*[_of(one) for one in inner])
    if origin is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if origin is list:
        return st.lists(WHOLE, max_size=4).map(lambda ids: array("i", ids))
    if origin in (dict, Mapping):
        return JSON_OBJECT if inner[1] is Any else st.dictionaries(TEXT, _of(inner[1]), max_size=3)
    if is_dataclass(hint):
        return instances(hint)
    plain = {str: TEXT, int: WHOLE, float: SHARE, bool: st.booleans(), type(None): st.none()}
    return plain[hint]
