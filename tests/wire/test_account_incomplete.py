"""R37: whatever is read back without the seven measured fields is refused as a record."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from planner.values.account import SEVEN_FIELDS, Account, wire_field
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.wire import dump, parse

ACCOUNT = Account(10, 0, 3, 20, 0, 512, 7)
RECEIPT = Receipt("p", "accepted", None, "b", "d", "r", "0.1.0", account=ACCOUNT)
REFUSAL = Refusal("invalid-input", "invalid-input", "$", RECEIPT, account=ACCOUNT)
PLAN = Plan(array("i"), ACCOUNT, RECEIPT, kept=(), removed=(), max_output_tokens=512)
NAMES = [wire_field(name) for name in SEVEN_FIELDS]
EVENT = json.dumps(dump.event_fields(ACCOUNT)).encode()
RECORDS: dict[str, tuple[bytes, Callable[[bytes], Any], str, Callable[[Any], dict[str, Any]]]] = {
    "account": (dump.dump_account(ACCOUNT), parse.parse_account, "$", lambda tree: tree),
    "event": (EVENT, parse.parse_event, "$", lambda tree: tree),
    "receipt": (dump.dump_receipt(RECEIPT), parse.parse_receipt, "$.account", lambda tree: tree["account"]),
    "plan": (dump.dump_plan(PLAN), parse.parse_plan, "$.account", lambda tree: tree["account"]),
    "refusal": (dump.dump_refusal(REFUSAL), parse.parse_refusal, "$.account", lambda tree: tree["account"]),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("broken", ["absent", None, -1, True, 1.0, "1", []])
@pytest.mark.parametrize("record", RECORDS)
def test_R37_ledger_missing_field_refused(record: str, broken: Any, name: str) -> None:
    """Absent, null, negative or no integer: account_incomplete with the field's path, for every record."""
    data, read, path, account_of = RECORDS[record]
    tree = json.loads(data)
    if broken == "absent":
        del account_of(tree)[name]
    else:
        account_of(tree)[name] = broken
    with pytest.raises(RefusalSignal) as caught:
        read(json.dumps(tree).encode())
    assert ("account_incomplete", f"{path}.{name}: is not a measured figure") == (
        caught.value.reason,
        caught.value.detail,
    )


@pytest.mark.parametrize("record", RECORDS)
def test_R37_a_measured_zero_is_a_value(record: str) -> None:
    """Tools and retrieval measured as 0 make a complete account."""
    data, read, _, account_of = RECORDS[record]
    assert account_of(json.loads(data))["toolTokens"] == 0
    read(data)


def test_an_accepted_receipt_needs_its_account() -> None:
    """Only a refusal may stand without one."""
    tree = json.loads(dump.dump_receipt(RECEIPT))
    tree["account"] = None
    with pytest.raises(RefusalSignal, match="account_incomplete"):
        parse.parse_receipt(json.dumps(tree).encode())
    tree["reason"] = "invalid-input"
    assert parse.parse_receipt(json.dumps(tree).encode()).account is None
