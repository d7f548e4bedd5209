"""What source B closes with, on whole plans of the embedded bundle and on a real ledger (requirements.md, B gate)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from planner.gate.checks import check_answer
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.compaction import Rejected
from planner.values.gate import Expectation
from planner.values.passage import Claims, Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.receipt import Removal
from planner.values.request import OutputSchema, PlanRequest, Tool
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from planner.wire.dump import dump_plan
from tests.compactor.support import CHAT, Script, compactor, fill
from tests.gate.gate_support import asked, candidate, planner, subject, turns

ROOT = Path(__file__).resolve().parents[2]
SIX_LINES = ("policyTokens", "toolTokens", "historyTokens", "retrievalTokens", "requestTokens", "framingTokens")
FIXED = ("policy/p1", "tool/find", "schema/o", "request/q")


def request(**fields: Any) -> PlanRequest:
    """Return a request with every immutable part and more history than fits."""
    tool = Tool(
        "find", {"type": "function", "function": {"name": "find", "description": "Find a lift.", "parameters": {}}}
    )
    schema = OutputSchema("o", {"type": "object"})
    return asked(**{"tools": (tool,), "output_schema": schema, "turns": turns(14), **fields})


@cache
def answers() -> tuple[Plan | Refusal, ...]:
    """Plan it in every twentieth window from one that holds nothing to one that holds everything."""
    found = tuple(planner().plan(request(max_input_tokens=limit)) for limit in range(70, 900, 20))
    kept = {len(one.kept) for one in found if isinstance(one, Plan)}
    assert len(kept) > 8, "the windows do not tell plans apart"
    return found


def plans() -> Iterator[Plan]:
    """Return those that were accepted."""
    return (one for one in answers() if isinstance(one, Plan))


def test_b_policy_and_required_request_not_removable() -> None:
    """Whatever the window: all of them are there or the call is refused, and a plan that says otherwise is blocked."""
    refused = [one for one in answers() if isinstance(one, Refusal)]
    assert {"context_policy_overflow"} == {one.reason for one in refused}
    for one in plans():
        assert set(FIXED) <= set(one.kept)
    wide = replace(request(max_input_tokens=2000), candidate_id=candidate().candidate_id)
    sound = planner().plan(wide)
    assert isinstance(sound, Plan)
    for name in FIXED:
        gone = (Removal(name, "over_budget"),)
        told = replace(sound, removed=gone, receipt=replace(sound.receipt, removed=gone))
        codes = {one.code for one in check_answer(wide, told, Expectation(), subject().bundle, candidate())}
        assert "immutable_removed" in codes, name


def test_b_all_budget_from_actual_tokenizer() -> None:
    """The bundle's own tokenizer.json, read by its library, gives the ids; the seven lines add up to their number."""
    tokenizer = Tokenizer.from_file(str(ROOT / "model_bundles" / "reference" / "tokenizer.json"))
    for one in plans():
        account = one.account
        assert tokenizer.encode(one.prompt or "", add_special_tokens=False).ids == list(one.ids)
        lines = (
            account.policy_tokens, account.tool_tokens, account.history_tokens, account.retrieval_tokens,
            account.request_tokens, account.framing_tokens,
        )  # fmt: skip
        assert len(one.ids) == sum(lines) == account.input_tokens
        assert account.input_limit == (
            len(one.ids) + account.reserved_output_tokens + account.safety_margin_tokens + account.headroom_tokens
        )


def test_b_whole_turns_and_monotone_sequence() -> None:
    """Every message of a kept turn is in the prompt, none of another one, in the order of the sequences."""
    for one in plans():
        prompt = one.prompt or ""
        places = []
        for turn in request().turns:
            texts = [message.words() for message in turn.messages]
            kept = f"turn/{turn.id}" in one.kept
            assert [kept] * len(texts) == [text in prompt for text in texts]
            places += [prompt.index(text) for text in texts if kept]
        assert sorted(places) == places
        found = [sequence for _, _, sequence in one.file_items if sequence is not None]
        assert sorted(set(found)) == found


def without(key: str) -> Callable[[str], str]:
    """Return what spoils an answer: everything of one field is lost."""
    return lambda text: json.dumps(json.loads(text) | {key: [] if key != "goal" else ""})


@pytest.mark.parametrize(
    ("spoil", "code"),
    [(None, None), (without("constraints"), "constraint_missing"), (without("open_actions"), "open_item_mismatch")],
)
def test_b_summary_keeps_constraints_open_items_sources_interval(
    tmp_path: Path, spoil: Callable[[str], str] | None, code: str | None
) -> None:
    """What is stored names all four; an answer that lost a constraint or an open item is stored nowhere."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        fill(ledger, 3)
        ledger.append(
            CHAT, "t3", (Message("user", "u3", "Book the crane."), Message("assistant", "a3", "I will book it.")),
            state="completed", open_items=(OpenItem("i1", "pending"),),
            must_preserve=(MustPreserve("C2", "only at night"),),
        )  # fmt: skip
        fill(ledger, 4, start=4)
        (done,) = compactor(ledger, tail_turns=2).run(Script(**({} if spoil is None else {"spoil": spoil})))
        stored = ledger.summaries(CHAT)
        if code is not None:
            assert isinstance(done, Rejected)
            assert (True, ()) == (code in f"{done.reason} {done.detail}", stored)
            return
        assert isinstance(done, Saved)
        covered = [turn for turn in ledger.turns(CHAT) if turn.id in [f"t{number}" for number in range(6)]]
        record = stored[0].record
        assert (("C1", "C2"), ("i1",)) == (record.required_constraint_ids, record.open_items)
        assert tuple(str(m.id) for turn in covered for m in turn.messages) == record.source_ids
        assert (covered[0].sequence, covered[-1].sequence) == (record.covers_from, record.covers_to)
        assert {one.id for one in record.state.constraints} == {"C1", "C2"}
        assert "i1" in {one.id for one in record.state.open_actions}


def test_b_permission_check_before_value_ranking() -> None:
    """A passage that may not be seen changes nothing, however valuable it claims to be and however little room is."""
    good = tuple(
        Passage(f"g{at}", f"Lift {at} was mended on floor {at}.", 0.2 * at, "house", "lifts", Source("log", 1))
        for at in range(4)
    )
    bad = tuple(Passage(f"b{at}", f"Pay {at}.", 1.0, "other", "lifts", Source("log", 1)) for at in range(4))
    counts: set[int] = set()
    claims = Claims("house", ("lifts",), ("log",))
    for limit in range(150, 500, 25):
        fair = planner().plan(request(turns=turns(2), max_input_tokens=limit, passages=good, claims=claims))
        both = planner().plan(request(turns=turns(2), max_input_tokens=limit, passages=(*bad, *good), claims=claims))
        if isinstance(fair, Refusal) or isinstance(both, Refusal):
            assert fair.receipt.reason == both.receipt.reason
            continue
        assert (fair.ids, fair.kept, fair.removed) == (both.ids, both.kept, both.removed)
        assert ({}, {"unauthorised": 4}) == (fair.receipt.excluded, both.receipt.excluded)
        counts.add(len([key for key in fair.kept if key.startswith("passage/")]))
    assert len(counts) > 2, "the windows do not tell passages apart"


def test_b_plan_saves_generation_kept_removed_tokens(tmp_path: Path) -> None:
    """The receipt that the ledger stored and the plan as JSON both say them, equal to the plan in hand."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        for turn in turns(14):
            _append(ledger, turn)
        generation = ledger.resend("c1", "t14")
        chat = planner().ledger_conversation(ledger, "c1")
        one = chat.plan(request(turns=(), max_input_tokens=400))
        assert isinstance(one, Plan)
        stored = json.loads(ledger.receipt("c1", one.receipt.plan_id) or b"{}")
    tree = json.loads(dump_plan(one))
    for saved in (stored, tree["receipt"]):
        assert (generation, list(one.kept)) == (saved["generation"], saved["kept"])
        assert [entry.id for entry in one.removed] == [entry["id"] for entry in saved["removed"]]
        assert all(entry["reason"] for entry in saved["removed"])
        assert len(one.ids) == sum(saved["account"][line] for line in SIX_LINES)
    assert one.removed
    assert {"turn/t14": "superseded"}.items() <= {entry.id: entry.reason for entry in one.removed}.items()
    assert (generation, set(FIXED) - {"request/q"}) == (
        one.plan_file.generation, {item.id for item in one.plan_file.items} & (set(FIXED) - {"request/q"})
    )  # fmt: skip
    assert len(one.ids) == sum(item.tokens for item in one.plan_file.items)


def _append(ledger: Ledger, turn: Turn) -> None:
    ledger.append("c1", turn.id, turn.messages, state="completed")
