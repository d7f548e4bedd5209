"""Law 15: parse(dump(x)) == x for every wire type, and dump(parse(bytes)) == bytes for canonical bytes."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from planner.values.account import Account
from planner.values.passage import Passage
from planner.values.plan import Plan, PlanFile, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, Previous, Tool
from planner.values.turn import Message, ToolCall, Turn
from planner.wire import dump, parse
from planner.wire.ids_file import ids_to_npy
from tests.wire.strategies import instances


@given(instances(PlanRequest))
def test_request_comes_back_equal(request: PlanRequest) -> None:
    """A request is what its bytes say, and canonical bytes do not change."""
    data = dump.dump_request(request)
    assert request == parse.parse_request(data)
    assert data == dump.dump_request(parse.parse_request(data))


@given(instances(Plan))
def test_plan_comes_back_equal(plan: Plan) -> None:
    """A plan keeps its ids, account, receipt and spans."""
    data = dump.dump_plan(plan)
    assert plan == parse.parse_plan(data)
    assert data == dump.dump_plan(parse.parse_plan(data))


@given(instances(Refusal))
def test_refusal_comes_back_equal(refusal: Refusal) -> None:
    """A refusal keeps its account, advice and receipt."""
    data = dump.dump_refusal(refusal)
    assert refusal == parse.parse_refusal(data)
    assert data == dump.dump_refusal(parse.parse_refusal(data))


@given(instances(Receipt))
def test_receipt_comes_back_equal(receipt: Receipt) -> None:
    """A receipt keeps every field, with null where there is no value."""
    data = dump.dump_receipt(receipt)
    assert receipt == parse.parse_receipt(data)
    assert data == dump.dump_receipt(parse.parse_receipt(data))


@given(instances(Account))
def test_account_comes_back_equal(account: Account) -> None:
    """An account keeps its lines, its parts and its items."""
    data = dump.dump_account(account)
    assert account == parse.parse_account(data)
    assert data == dump.dump_account(parse.parse_account(data))


@given(instances(PlanFile))
def test_plan_file_comes_back_equal(plan_file: PlanFile) -> None:
    """A plan file keeps its items and ids."""
    data = dump.dump_plan_file(plan_file)
    assert plan_file == parse.parse_plan_file(data)
    assert data == dump.dump_plan_file(parse.parse_plan_file(data))


def test_key_order_of_application_json_survives() -> None:
    """Templates print declarations, schemas and arguments, so their key order is part of the ids."""
    declaration = {"type": "function", "function": {"name": "z", "b": 1, "a": 2}}
    turn = Turn("t1", 1, "open", (Message("assistant", tool_calls=(ToolCall("c", "z", {"y": 1, "x": 2}),)),))
    request = PlanRequest(
        "b",
        tools=(Tool("z", declaration),),
        output_schema=OutputSchema("s", {"type": 1, "a": 2}),
        turns=(turn,),
    )
    back = parse.parse_request(dump.dump_request(request))
    assert [*declaration["function"]] == [*back.tools[0].declaration["function"]]
    assert back.output_schema is not None
    assert [*back.output_schema.schema] == ["type", "a"]
    arguments = back.turns[0].messages[0].tool_calls[0].arguments
    assert isinstance(arguments, dict)
    assert [*arguments] == ["y", "x"]


def test_canonical_bytes_do_not_depend_on_how_the_json_was_written() -> None:
    """Spaces, escapes, key order and written-out defaults make no difference."""
    plain = b'{"modelBundleId":"b","request":{"text":"\xc3\xa9"},"schemaVersion":"1.0"}'
    written = (
        b' {"schemaVersion": "1.0", "turns": [], "sticky_": 0, "request": {"text": "\\u00e9", "id": null},'
        b' "modelBundleId": "b", "generation": 1}'
    ).replace(b' "sticky_": 0,', b"")
    assert plain == dump.dump_request(parse.parse_request(written))


def test_canonical_bytes_do_not_depend_on_how_the_value_was_built() -> None:
    """A whole number in a field of fractions, or another order of a mapping, gives the same bytes."""
    whole = PlanRequest("b", passages=(Passage("c", "x", relevance=1),))
    assert dump.dump_request(whole) == dump.dump_request(parse.parse_request(dump.dump_request(whole)))
    one = Account(1, 2, 3, 4, 5, 6, 7, items={"turn/a": 1, "policy/b": 2})
    two = replace(one, items={"policy/b": 2, "turn/a": 1})
    assert dump.dump_account(one) == dump.dump_account(two)


def test_absent_and_null_are_the_same() -> None:
    """A field that may be absent may be null."""
    absent = parse.parse_request(b'{"modelBundleId":"b"}')
    null = parse.parse_request(b'{"modelBundleId":"b","outputSchema":null,"maxInputTokens":null,"now":null}')
    assert absent == null


def test_ids_may_stand_in_a_file(tmp_path: Path) -> None:
    """`ids` of a plan and of `previous` are an array or the name of an int32 file, bare or .npy."""
    (tmp_path / "ids.npy").write_bytes(ids_to_npy([5, 6, 7]))
    (tmp_path / "more.bin").write_bytes(array("i", [8]).tobytes())
    previous = Previous(plan_id="p", ids=(5, 6, 7), generated_ids=(8,))
    request = PlanRequest("b", CurrentRequest(text="hi"), previous=previous)
    data = dump.dump_request(request)
    named = data.replace(b"[5,6,7]", b'"ids.npy"').replace(b"[8]", b'"more.bin"')
    assert named != data
    assert request == parse.parse_request(named, tmp_path)


@pytest.mark.parametrize("name", ["../ids.npy", "absent.npy", "", "/etc/hostname", "folder", "odd.bin", "neg.bin"])
def test_an_ids_file_must_be_a_file_of_ids_below_the_folder(tmp_path: Path, name: str) -> None:
    """A name cannot leave the folder, and only int32 ids are read; the name is not shown."""
    folder = tmp_path / "requests"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "ids.npy").write_bytes(ids_to_npy([1]))
    (folder / "odd.bin").write_bytes(b"abc")
    (folder / "neg.bin").write_bytes(array("i", [-1]).tobytes())
    data = json.dumps({"modelBundleId": "b", "previous": {"ids": name}}).encode()
    with pytest.raises(RefusalSignal) as caught:
        parse.parse_request(data, folder)
    assert caught.value.reason == "invalid-input"
    assert caught.value.detail.startswith("$.previous.ids: names")
    with pytest.raises(RefusalSignal, match="no folder"):
        parse.parse_request(data)


def test_npy_files_are_what_numpy_reads_and_writes(tmp_path: Path) -> None:
    """The header is numpy's own, both ways."""
    import numpy as np

    (tmp_path / "ids.npy").write_bytes(ids_to_npy(range(1000)))
    assert list(range(1000)) == np.load(tmp_path / "ids.npy").tolist()
    np.save(tmp_path / "np.npy", np.arange(77, dtype=np.int32))
    request = parse.parse_request(b'{"modelBundleId":"b","previous":{"ids":"np.npy"}}', tmp_path)
    assert request.previous is not None
    assert tuple(range(77)) == request.previous.ids
    np.save(tmp_path / "np.npy", np.arange(77, dtype=np.int64))
    with pytest.raises(RefusalSignal, match="one-dimensional int32"):
        parse.parse_request(b'{"modelBundleId":"b","previous":{"ids":"np.npy"}}', tmp_path)


def test_event_has_exactly_the_seven_fields() -> None:
    """R35: the budget event names seven fields and no other."""
    account = Account(1, 2, 3, 4, 5, 6, 7, schema_tokens=1)
    event = dump.event_fields(account)
    assert event == {
        "policyTokens": 1, "toolTokens": 2, "requestTokens": 3, "historyTokens": 4, "retrievalTokens": 5,
        "reservedOutputTokens": 6, "framingTokens": 7,
    }  # fmt: skip
    assert event == parse.parse_event(json.dumps(event).encode())


def test_plan_with_a_file_of_ids(tmp_path: Path) -> None:
    """A plan written with the name of its ids file reads back as the plan itself."""
    account = Account(1, 0, 1, 0, 0, 5, 1)
    receipt = Receipt("p", "accepted", None, "b", "d", "r", "0.1.0", account=account)
    plan = Plan(array("i", [1, 2, 3]), account, receipt, (), (), 5)
    (tmp_path / "ids.npy").write_bytes(ids_to_npy(plan.ids))
    data = dump.dump_plan(plan, ids_file="ids.npy")
    assert b"[1,2,3]" not in data
    assert plan == parse.parse_plan(data, tmp_path)
    assert plan != parse.parse_plan(dump.dump_plan(replace(plan, ids=array("i", [1, 2]))))
