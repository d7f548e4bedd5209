"""Replays from a ledger that went on: summaries, branches, retention and withdrawn sources (R186)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import Ledger, Planner
from planner.cli.replay import _from_ledger
from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.gate.replay import differences
from planner.values.passage import Citation, Claims, Source
from planner.values.plan import Plan, Refusal
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.turn import Message
from planner.wire.dump import dump_receipt
from tests.cli.support import planner as command
from tests.compactor.support import Script
from tests.gate.gate_support import asked, planner, turns

CHAT = "c1"


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    """A ledger of twelve turns."""
    with Ledger.open(tmp_path / "chat.db") as made:
        for turn in turns(12):
            question, told = turn.messages
            long = replace(told, text=f"{told.text} " + "We also talked about bells and baskets. " * 6)
            made.append(CHAT, turn.id, (question, long), state="completed")
        yield made


def ask(ledger: Ledger, **fields: Any) -> Plan | Refusal:
    """Plan from the ledger, a new handle each time."""
    revoked = fields.pop("revoked", frozenset())
    frame: PlanRequest = replace(asked(turns=(), policy_version="v1", max_input_tokens=2000), **fields)
    return Planner("reference").ledger_conversation(ledger, CHAT).plan(frame, revoked=revoked)


def replayed(tmp_path: Path, receipt: Receipt) -> list[str]:
    """Return the differences of a replay, as the command would print them."""
    (tmp_path / "receipt.json").write_bytes(dump_receipt(receipt))
    done = command("replay", tmp_path / "receipt.json", "--ledger", tmp_path / "chat.db", "--json")
    found = done.json
    assert found["same"] == (done.code == 0), done.err
    return [f"{one['layer']}: {one['part']} {one['how']}" for one in found["differences"]]


def compacted(ledger: Ledger, tail: int) -> None:
    """Have a script summarise everything but the last turns."""
    Compactor(ledger, CHAT, Choices(policy_version="v1", risk="low", tail_turns=tail)).run(Script())


def test_a_call_with_a_used_summary_is_replayed_after_the_summary_is_no_longer_current(
    ledger: Ledger, tmp_path: Path
) -> None:
    """The version that was used comes back, though its source was edited and a newer summary stands in its place."""
    compacted(ledger, 4)
    before = ask(ledger, max_input_tokens=1200)
    assert ["used"] == [use.fate for use in before.receipt.summaries]
    assert [] == replayed(tmp_path, before.receipt)
    first = turns(2)[1].messages[0]
    ledger.edit(CHAT, first.id or "", replace(first, text="Something else entirely?"))
    compacted(ledger, 2)
    after = ask(ledger, max_input_tokens=1200)
    assert before.receipt.summary_versions != after.receipt.summary_versions
    assert [] == replayed(tmp_path, before.receipt)
    assert [] == replayed(tmp_path, after.receipt)


def test_a_refusal_is_replayed_with_its_summaries(ledger: Ledger, tmp_path: Path) -> None:
    """A refusal has no ids: request and reason are compared, summaries included."""
    compacted(ledger, 4)
    refused = ask(ledger, max_input_tokens=80)
    assert isinstance(refused, Refusal)
    assert [] == replayed(tmp_path, refused.receipt)


def test_a_call_made_after_retention_is_replayed(ledger: Ledger, tmp_path: Path) -> None:
    """What was gone then is no difference; what went since is named."""
    ledger.retain(CHAT, turns(3)[2].sequence, "30-days")
    answer = ask(ledger)
    assert [] == replayed(tmp_path, answer.receipt)
    refused = ask(ledger, max_input_tokens=80)
    assert [] == replayed(tmp_path, refused.receipt)


def test_a_call_from_which_a_source_was_withheld_is_replayed(tmp_path: Path) -> None:
    """Withheld by the caller, it stands in no request: the audit record beside the receipt says so."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        first, *rest = turns(6)
        cited = (first.messages[0], replace(first.messages[1], citation_ids=("file",)))
        for turn in (replace(first, messages=cited), *rest):
            ledger.append(CHAT, turn.id, turn.messages, state="completed")
        held = ask(ledger, revoked=frozenset({"file"}))
        assert "turn/t1" not in held.receipt.kept
        assert [] == replayed(tmp_path, held.receipt)


def test_a_call_without_what_was_withheld_is_another_call(tmp_path: Path) -> None:
    """One right withdrawn after the other, at the same revision: each call has its own receipt, and each replays."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        for number, turn in enumerate(turns(6), 1):
            told = replace(turn.messages[1], citation_ids=(f"f{number}",))
            ledger.append(CHAT, turn.id, (turn.messages[0], told), state="completed")
        wide = [ask(ledger, revoked=frozenset(names)) for names in ((), ("f1",), ("f1", "f2"), ("f1",))]
        small = [ask(ledger, revoked=frozenset(names), max_input_tokens=80) for names in ((), ("f1",))]
        assert 3 == len({answer.receipt.plan_id for answer in wide})
        assert 2 == len({answer.receipt.plan_id for answer in small})
        for answer in (*wide, *small):
            assert dump_receipt(answer.receipt) == ledger.receipt(CHAT, answer.receipt.plan_id)
            assert [] == replayed(tmp_path, answer.receipt)


def test_a_refusal_of_another_reason_or_of_a_request_without_a_digest_is_not_the_same() -> None:
    """The same request refused for another reason was not replayed, and a broken request has nothing to compare."""
    before = planner().plan(asked(max_input_tokens=70))
    assert isinstance(before, Refusal)
    manifest = planner().encoder().bundle.manifest
    request = asked(max_input_tokens=70)
    assert [] == differences(before.receipt, request, before, manifest)
    other = replace(before, receipt=replace(before.receipt, reason="insufficient_evidence"))
    assert "outcome: insufficient_evidence changed" in [
        one.line for one in differences(before.receipt, request, other, manifest)
    ]
    moved = replace(before, receipt=replace(before.receipt, bundle_digest="1" * 64))
    assert differences(before.receipt, request, moved, manifest)
    broken = asked(turns=(*turns(1), *turns(1)))
    answer = planner().plan(broken)
    assert differences(answer.receipt, broken, answer, manifest)


def test_a_right_that_went_since_changes_no_replay(tmp_path: Path) -> None:
    """The claims of the call are in its request; what is claimed today is another request."""
    file = Citation("file", "acme", "norms", Source("press"))
    with Ledger.open(tmp_path / "chat.db") as ledger:
        first, *rest = turns(6)
        cited = (first.messages[0], replace(first.messages[1], citation_ids=("file",)))
        for turn in (replace(first, messages=cited), *rest):
            ledger.append(CHAT, turn.id, turn.messages, state="completed")
        claims = Claims("acme", ("norms",), ("press",))
        shown = ask(ledger, claims=claims, citations=(file,))
        assert "turn/t1" in shown.receipt.kept
        hidden = ask(ledger, claims=replace(claims, sources=("wiki",)), citations=(file,))
        assert "turn/t1" not in hidden.receipt.kept
        assert ([], []) == (replayed(tmp_path, shown.receipt), replayed(tmp_path, hidden.receipt))


def _changed(ledger: Ledger, chance: random.Random, number: int) -> None:
    """Let one thing happen to the conversation."""
    there = [turn.id for turn in ledger.turns(CHAT) if turn.state == "completed"]
    roll = chance.random()
    if roll < 0.4 or len(there) < 3:
        messages = (
            Message("user", f"nu{number}", f"What of gate {number}?"),
            Message("assistant", f"na{number}", "Shut."),
        )
        ledger.append(CHAT, f"n{number}", messages, state="completed")
    elif roll < 0.55:
        one = chance.choice([t for t in ledger.turns(CHAT) if t.id in there]).messages[0]
        ledger.edit(CHAT, one.id or "", replace(one, text=f"Edited {number}?"))
    elif roll < 0.65:
        ledger.withdraw(CHAT, chance.choice(there))
    elif roll < 0.75:
        ledger.resend(CHAT, there[-1])
    elif roll < 0.9:
        ledger.branch(CHAT, f"b{number}", at_turn_id=chance.choice(there))
        ledger.switch(CHAT, f"b{number}")
    else:
        compacted(ledger, 2)


@pytest.mark.parametrize("run", range(3))
def test_every_call_of_a_conversation_is_replayed_whatever_came_after(
    ledger: Ledger, tmp_path: Path, seed: int, run: int
) -> None:
    """Appended to, edited, withdrawn from, resent, branched and summarised between any two calls."""
    chance = random.Random(seed * 10 + run)
    answers: list[Plan | Refusal] = []
    for number in range(25):
        _changed(ledger, chance, number)
        answers.append(ask(ledger, max_input_tokens=chance.choice([80, 400, 700, 1100, 4000])))
    manifest = planner().encoder().bundle.manifest
    for answer in answers:
        request = _from_ledger(str(tmp_path / "chat.db"), answer.receipt, None)
        found = differences(answer.receipt, request, planner().plan(request), manifest)
        assert [] == [one.line for one in found], answer.receipt.plan_id
    fates = {use.fate for answer in answers for use in answer.receipt.summaries}
    print(len(answers), {answer.receipt.outcome for answer in answers}, fates)
