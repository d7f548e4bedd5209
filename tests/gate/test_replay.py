"""A recorded call rebuilt from its receipt, and two receipts beside each other (R186)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner import Ledger, Planner
from planner.gate.replay import differences
from planner.values.passage import Passage
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.wire.dump import dump_plan, dump_receipt, dump_request
from tests.cli.support import planner as command
from tests.gate.gate_support import asked, planner, turns


def frame(**fields: object) -> PlanRequest:
    """Return what a ledger's plan is asked with."""
    return replace(asked(turns=(), max_input_tokens=2000), **fields)  # type: ignore[arg-type]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A ledger with six turns and the receipt of one plan; afterwards the conversation goes on."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        for turn in turns(6):
            ledger.append("c1", turn.id, turn.messages, state="completed")
        chat = Planner("reference").ledger_conversation(ledger, "c1")
        answer = chat.plan(frame())
        assert isinstance(answer, Plan)
        (tmp_path / "receipt.json").write_bytes(dump_receipt(answer.receipt))
        seventh = turns(7)[6]
        ledger.append("c1", seventh.id, seventh.messages, state="completed")
        first = turns(1)[0].messages[0]
        ledger.edit("c1", first.id or "", replace(first, text="Something else entirely?"))
        ledger.withdraw("c1", "t2")
        ledger.resend("c1", "t7")
    return tmp_path


def test_R186_replay_rebuilds_same_structure(recorded: Path) -> None:
    """The ids of the call come back although the chat was appended to, edited, withdrawn from, resent and branched."""
    receipt = json.loads((recorded / "receipt.json").read_bytes())
    wanted = (0, f"replayed: {receipt['finalInputDigest']}\n")
    done = command("replay", recorded / "receipt.json", "--ledger", recorded / "chat.db")
    assert wanted == (done.code, done.text), done.err
    with Ledger.open(recorded / "chat.db") as ledger:
        ledger.branch("c1", "b", at_turn_id="t3")
        ledger.switch("c1", "b")  # turns of the call are not on the page any more
    done = command("replay", recorded / "receipt.json", "--ledger", recorded / "chat.db")
    assert wanted == (done.code, done.text), done.err


def test_gate_receipt_rebuilds_input(recorded: Path) -> None:
    """What retention took is gone, and the turn is named with its layer."""
    with Ledger.open(recorded / "chat.db") as ledger:
        ledger.retain("c1", turns(3)[2].sequence, "policy-30-days")
    wanted = ("replay", recorded / "receipt.json", "--ledger", recorded / "chat.db")
    assert "context plan rejected: part_missing:canonical_request: not in the ledger\n" == command(*wanted).err
    (recorded / "frame.json").write_bytes(dump_request(frame()))
    done = command(*wanted, "--request", recorded / "frame.json", "--json")
    assert 2 == done.code
    assert {"how": "gone", "layer": "history", "part": "turn/t1"} in done.json["differences"]
    assert done.err.startswith("context plan rejected: replay_differs: history: turn/t1 gone and ")


CHANGES: dict[str, tuple[PlanRequest, str]] = {
    "a rule": (asked(policy=(TextItem("p1", "Promise whatever is asked for, at any time of the day."),)),
               "immutable_policy: policy/p1 changed"),
    "a rule is gone": (asked(policy=()), "immutable_policy: policy/p1 gone"),
    "a turn": (asked(turns=turns(5)), "history: turn/t6 gone"),
    "one more passage": (asked(passages=(Passage("c1", "Lift 4 is out of order."),)),
                         "retrieval_data: passage/c1 moved"),
    "the question": (asked(request=CurrentRequest("q", text="Which lift is out of order today, and since when?")),
                     "required_request: request/q changed"),
    "the same length": (asked(policy=(TextItem("p1", "Never promise a repair data."),)),
                        "request: texts of the same length changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_replay_names_the_layer_and_part_that_differ(name: str) -> None:
    """Whatever is changed in the request is named; the unchanged request is the same input."""
    before = planner().plan(asked())
    manifest = planner().encoder().bundle.manifest
    changed, expected = CHANGES[name]
    found = differences(before.receipt, changed, planner().plan(changed), manifest)
    assert expected in [one.line for one in found]
    assert [] == differences(before.receipt, asked(), planner().plan(asked()), manifest)


def test_another_bundle_is_named_first() -> None:
    """A template of another digest, and a bundle of another digest."""
    before = planner().plan(asked())
    other = replace(planner().encoder().bundle.manifest, digest="f" * 64)
    answer = replace(before, receipt=replace(before.receipt, final_input_digest="0" * 64, bundle_digest="f" * 64))
    assert "bundle: reference changed" == differences(before.receipt, asked(), answer, other)[0].line
    newer = replace(other, template_digest="e" * 64)
    assert "bundle: template changed" == differences(before.receipt, asked(), answer, newer)[0].line


def test_a_replayed_refusal_is_the_same_refusal() -> None:
    """A refusal has no ids (R184); its request is compared instead."""
    refused = planner().plan(asked(max_input_tokens=70))
    manifest = planner().encoder().bundle.manifest
    assert [] == differences(refused.receipt, asked(max_input_tokens=70), refused, manifest)
    accepted = planner().plan(asked())
    assert "outcome: accepted changed" in [
        one.line for one in differences(refused.receipt, asked(), accepted, manifest)
    ]


def test_the_command_replays_a_request_without_a_ledger(tmp_path: Path) -> None:
    """Exit 0 with the digest, exit 2 and one line for another window."""
    answer = planner().plan(asked())
    (tmp_path / "receipt.json").write_bytes(dump_receipt(answer.receipt))
    (tmp_path / "request.json").write_bytes(dump_request(asked()))
    done = command("replay", tmp_path / "receipt.json", "--request", tmp_path / "request.json")
    assert 0 == done.code, done.err
    (tmp_path / "request.json").write_bytes(dump_request(asked(policy=())))
    done = command("replay", tmp_path / "receipt.json", "--request", tmp_path / "request.json")
    assert (2, 1) == (done.code, done.err.count("\n"))


def test_two_plans_beside_each_other(tmp_path: Path) -> None:
    """What left and came, tokens per line, and the tokens that both begin with."""
    one, two = planner().plan(asked()), planner().plan(asked(turns=turns(7)[1:]))
    assert isinstance(one, Plan)
    assert isinstance(two, Plan)
    for name, answer in (("one", one), ("two", two)):
        (tmp_path / f"{name}.json").write_bytes(dump_plan(answer))
    found = command("diff", tmp_path / "one.json", tmp_path / "two.json", "--json").json
    assert (["turn/t1"], ["turn/t7"], False) == (found["leaves"], found["comes"], found["sameInput"])
    common = next(at for at, (a, b) in enumerate(zip(one.ids, two.ids, strict=False)) if a != b)
    assert common == found["commonTokens"]
    drawn = command("diff", tmp_path / "one.json", tmp_path / "two.json")
    assert (0, True) == (drawn.code, "turn/t7" in drawn.text)
    assert command("diff", tmp_path / "one.json", tmp_path / "one.json", "--json").json["sameInput"]
    same = command("diff", tmp_path / "one.json", tmp_path / "one.json").text
    assert ["the same input", "nothing left or came", "no line of the account differs"] == same.splitlines()[:3]
    assert "nothing left" not in drawn.text
