"""R150, R183: every end that is no plan is a named state with advice, and every code is reached by a test."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import planner as package
from planner.encoding.encoder import Encoder, Encoding
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.bundle import Tier
from planner.values.passage import Claims
from planner.values.plan import Plan, Refusal
from planner.values.prompt import Leaf
from planner.values.reasons import CODES, RefusalSignal, outcome_of
from planner.values.request import CurrentRequest, Options, PlanRequest, TextItem
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from planner.values.turn import Message, OpenItem, Part, Turn
from planner.wire.parse import parse_account
from tests.evidence.test_conflicts import disputed, other, tightest
from tests.laws.common import toy, with_room
from tests.plan_summaries.common import asking, summed, talk
from tests.steps.test_layers import full_request
from tests.support.toy import CONTROLS, ToyBundle, ToyEngine
from tests.threats.test_privacy import REFUSALS

Make = Callable[[pytest.MonkeyPatch], Refusal | Plan]
NOW = "2026-11-30T08:00:00Z"
SIMPLE = PlanRequest("toy-plain-char", CurrentRequest(id="q", text="so?"), max_input_tokens=5_000, now=NOW)


class Forging(ToyEngine):
    """A tokenizer that makes a control id out of content."""

    def encode(self, text: str) -> Any:
        """Encode, and put a control id first."""
        made = super().encode(text)
        made.ids = [CONTROLS[0].id, *made.ids[1:]]
        return made


def _forged(_: pytest.MonkeyPatch) -> Refusal | Plan:
    bundle = ToyBundle()
    bundle.engine = Forging("char")
    return Planner(bundle).plan(SIMPLE)


def _raw_history(_: pytest.MonkeyPatch) -> Refusal | Plan:
    return toy().plan(replace(with_room(asking(talk(1), talk(2)), 200), options=Options(allow_history_eviction=False)))


def _bad_summary(**change: Any) -> Make:
    def make(_: pytest.MonkeyPatch) -> Refusal | Plan:
        request = summed(asking(talk(1), talk(2), talk(3)), (1, 2))
        request = replace(request, summaries=(replace(request.summaries[0], **change),))
        return toy().plan(replace(request, request=replace(request.request, on_invalid_summary="refuse")))

    return make


def _unattributed(monkeypatch: pytest.MonkeyPatch) -> Refusal | Plan:
    certified = Encoder.certified

    def losing(self: Encoder, *given: Any, **named: Any) -> Encoding:
        return replace(certified(self, *given, **named), ambiguous=(Leaf("turn/t", "history", "user_text", "x"),))

    monkeypatch.setattr(Encoder, "certified", losing)
    return Planner(ToyBundle()).plan(SIMPLE)


def _hidden(_: pytest.MonkeyPatch) -> Refusal | Plan:
    request = replace(SIMPLE, policy=(TextItem("p", "a\u200bb"),), options=Options(unicode_policy="refuse"))
    return toy().plan(request)


def _expired(_: pytest.MonkeyPatch) -> Refusal | Plan:
    tiers = (Tier("8k", 8_192, "2026-01-31"),)
    return Planner(ToyBundle(tiers=tiers)).plan(replace(SIMPLE, max_input_tokens=None, tier_id="8k"))


def _no_evidence(_: pytest.MonkeyPatch) -> Refusal | Plan:
    return toy().plan(replace(SIMPLE, request=replace(SIMPLE.request, requires_citation=True)))


def _revoked(_: pytest.MonkeyPatch) -> Refusal | Plan:
    question = Message("user", "u", "Confirm?", protection_reason="pending-confirmation", citation_ids=("s1",))
    turn = Turn("t1", 1, "completed", (question, Message("assistant", "a", "Waiting.")))
    return toy().plan(replace(SIMPLE, turns=(turn,), claims=Claims("a")))


def _unexplained(_: pytest.MonkeyPatch) -> Refusal | Plan:
    # The window between what fits without the explanation and what fits with it.
    return tightest(disputed(other()))[1][0]


def _no_room_in_runtime(_: pytest.MonkeyPatch) -> Refusal | Plan:
    runtime = Runtime(RUNTIMES["llama.cpp"], context_tokens=256)
    return Planner(ToyBundle(runtime=runtime)).plan(SIMPLE)


def _purged(_: pytest.MonkeyPatch) -> Refusal | Plan:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/chats") as ledger:
        for name, items in (("t1", [OpenItem("i1", "pending")]), ("t2", [])):
            said = [Message("user", f"u{name}", "Order it."), Message("assistant", f"a{name}", "Ordered.")]
            ledger.append("c", name, said, state="completed", open_items=items)
        ledger.retain("c", 2, "days")
        return toy().ledger_conversation(ledger, "c").plan(SIMPLE)


def _unmeasured(_: pytest.MonkeyPatch) -> Refusal | Plan:
    question = Message("user", "u", parts=(Part("image", id="p", width_px=64, height_px=64),))
    request = replace(SIMPLE, turns=(Turn("t1", 1, "open", (question,)),), request=CurrentRequest(turn_id="t1"))
    return toy().plan(request)


def _other_app(_: pytest.MonkeyPatch) -> Refusal | Plan:
    bundle = ToyBundle(app_versions=("2.0", None))
    return Planner(bundle).plan(replace(SIMPLE, app_version="1.0"))


def _in_mode(mode: Literal["ids", "messages"], name: str) -> Make:
    bundle = ToyBundle(runtime=Runtime(RUNTIMES[name]))
    return lambda _: Planner(bundle).plan(replace(SIMPLE, options=Options(mode=mode)))


def _known(name: str) -> Make:
    make, bundle = REFUSALS[name]
    return lambda _: Planner(bundle).plan(make())


REACHED: dict[str, Make] = {
    **{name.partition(":")[0]: _known(name) for name in REFUSALS if not name.endswith(" again")},
    "raw_history_overflow": _raw_history,
    "invalid-summary": _bad_summary(summary_text=" "),
    "stale-source": _bad_summary(source_fingerprint="0" * 64),
    "attribution_lost": _unattributed,
    "control_token_forged": _forged,
    "hidden_characters": _hidden,
    "app_version_out_of_range": _other_app,
    "runtime_limit": _no_room_in_runtime,
    "runtime_not_certified": _in_mode("messages", "llama.cpp"),
    "runtime_takes_no_ids": _in_mode("ids", "litert-lm"),
    "tier_not_valid": _expired,
    "insufficient_evidence": _no_evidence,
    "protected_source_revoked": _revoked,
    "conflict_unexplained": _unexplained,
    "unrecoverable_history": _purged,
    "unmeasured_part": _unmeasured,
}
"""A request, and where needed a broken bundle, for every refusal that planning gives."""
ELSEWHERE = {"account_incomplete": lambda: parse_account(b"{}")}
"""Refusals of reading an answer back: no plan is made there."""
WAITING: set[str] = set()
"""Rows no refusal of this version has; whoever raises one adds its builder above."""


@pytest.mark.parametrize("code", [name for name, row in CODES.items() if row.kind == "refusal"])
def test_R183_other_refusals_have_own_codes(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refusal of the table is reached by a request, carries that very code, and says what to do."""
    row = CODES[code]
    assert row.meaning
    assert row.remedy
    assert re.fullmatch(r"[a-z]+([_-][a-z]+)*", code)
    if code in WAITING:
        source = "".join(path.read_text(encoding="utf-8") for path in Path(package.__file__).parent.rglob("*.py"))
        assert f'RefusalSignal("{code}"' not in re.sub(r"\s+", "", source), "it is raised now: add a builder"
        return
    if code in ELSEWHERE:
        with pytest.raises(RefusalSignal) as caught:
            ELSEWHERE[code]()
        assert code == caught.value.reason
        return
    assert code in REACHED, "a new refusal needs a request that reaches it"
    answer = REACHED[code](monkeypatch)
    assert isinstance(answer, Refusal), answer
    assert code == answer.reason.partition(":")[0]


def test_R183_underscore_codes_are_ours() -> None:
    """Only the sources' own spellings have a hyphen; the cases R183 names each have a code of their own."""
    hyphens = {name for name in CODES if "-" in name}
    assert {"invalid-input", "invalid-summary", "stale-source"} == hyphens
    named = ("account_incomplete", "stale_generation", "raw_history_overflow", "unrecoverable_history")
    assert 4 == len({outcome_of(name) if name != "raw_history_overflow" else name for name in named if name in CODES})


@pytest.mark.parametrize("code", REACHED)
def test_R150_end_states_are_typed(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names its state in outcome, reason, line and receipt alike, says what would help, and has no ids."""
    answer = REACHED[code](monkeypatch)
    assert isinstance(answer, Refusal)
    state = answer.reason.partition(":")[0]
    assert "refusal" == CODES[state].kind
    assert outcome_of(answer.reason) == answer.outcome == answer.receipt.outcome
    assert answer.reason == answer.receipt.reason
    assert answer.line().startswith(f"context plan rejected: {answer.outcome}: ")
    advice = answer.advice
    assert advice.notes or advice.tiers or advice.concession
    assert all(note.strip() for note in advice.notes)
    assert answer.detail
    assert not answer.accepted
    assert not hasattr(answer, "ids")
    assert answer.receipt.final_input_digest is None


def test_R150_no_plan_is_silently_smaller() -> None:
    """In every window: what is not kept is listed with a reason, what is not listed is kept, or there is no plan."""
    request = full_request()
    request = replace(request, turns=(*request.turns, Turn("gone", 9, "cancelled", (Message("user", text="x"),))))
    everything = {f"turn/{turn.id}" for turn in request.turns}
    everything |= {f"passage/{one.citation_id}" for one in request.passages}
    full = toy().plan(request)
    assert isinstance(full, Plan)
    ends = set()
    for room in range(1, len(full.ids) + 3, 5):
        answer = toy().plan(with_room(request, room))
        ends.add(answer.receipt.outcome)
        if isinstance(answer, Refusal):
            continue
        turns = [f"turn/{turn.id}" for turn in request.turns]
        gone: list[str] = []
        for entry in answer.removed:
            assert entry.reason in CODES
            first = turns.index(entry.id) if entry.id in turns else None
            gone += [entry.id] if first is None else turns[first : turns.index(entry.last_id or entry.id) + 1]
        assert everything == {*gone, *everything.intersection(answer.kept)}
        reduced = answer.receipt.history_reduced
        lost = [key for key in gone if key.startswith("turn/") and key != "turn/gone" and key not in answer.kept]
        assert len(lost) == (reduced.removed if reduced is not None else 0)
    assert {"accepted", "context_policy_overflow"} == ends
