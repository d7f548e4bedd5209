"""What a Python caller gets wrong is a refusal like any other: nothing is ignored, nothing raises (design.md §2)."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.planner import PlanEvent, Planner
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_refusal
from tests.laws.common import toy

REQUEST = PlanRequest("toy-plain-char", CurrentRequest(text="be"), max_input_tokens=900)
CHAT = [{"role": "user", "content": "be"}]


@pytest.mark.parametrize(
    "more",
    [{"messages": CHAT}, {"messages": []}, {"tools": []}, {"bundle": "toy-plain-char"}, {"max_input_tokens": 3}],
)
def test_nothing_stands_beside_a_request(more: dict[str, Any]) -> None:
    """A second list, bundle or limit would have to be ignored; the request alone is planned."""
    refusal = toy().plan(REQUEST, **more)
    assert "invalid-input" == refusal.receipt.reason
    assert toy().plan(REQUEST).accepted


@pytest.mark.parametrize("given", [{"modelBundleId": "toy-plain-char"}, "be", 5, [REQUEST]])
def test_what_is_no_request_is_refused(tmp_path: Path, given: Any) -> None:
    """A dict of the wire format is not read by guessing; the answer says what was expected."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        stored = toy().ledger_conversation(ledger, "c1").plan(given)
    for answer in (toy().plan(given), toy().conversation().plan(given), stored):
        assert ("invalid-input", "$: expected a PlanRequest") == (answer.reason, answer.detail)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("field", "value"),
    [("options", {"mode": "ids"}), ("options", None), ("schema_version", "2.0"), ("schema_version", 1)],
)
def test_a_field_of_the_wrong_type_is_refused_at_its_path(field: str, value: Any) -> None:
    """The receipt of such a refusal is built as any other."""
    refusal = toy().plan(replace(REQUEST, **{field: value}))
    assert "invalid-input" == refusal.receipt.reason
    assert "ids" == refusal.receipt.mode


def test_a_wrong_mode_is_not_repeated() -> None:
    """R187: a field that broke a rule may hold any text, and a receipt holds none."""
    broken: Any = Options(mode="canary")  # type: ignore[arg-type]
    refusal = toy().plan(replace(REQUEST, options=broken))
    assert "invalid-input" == refusal.receipt.reason
    assert b"canary" not in dump_refusal(refusal)  # type: ignore[arg-type]


def test_a_conversation_plans_for_its_own_bundle_alone() -> None:
    """A receipt that names one bundle and carries the digest of another proves nothing."""
    refusal = toy().conversation().plan(replace(REQUEST, model_bundle_id="another"))
    assert "invalid-input" == refusal.receipt.reason
    assert toy().conversation().plan(REQUEST).accepted


def test_what_a_conversation_raises_can_be_caught_by_its_public_name() -> None:
    """An application that appends turns needs no private module to see one refused."""
    import planner

    with pytest.raises(planner.RefusalSignal):
        toy().conversation().append(Turn("t1", 1, "completed", ()))


@pytest.mark.parametrize("given", [None, "t1", {"id": "t1"}])
def test_what_is_no_turn_is_refused(given: Any) -> None:
    """Append and replace say so, and the conversation stays as it was."""
    conversation = toy().conversation()
    for put in (conversation.append, conversation.replace):
        with pytest.raises(RefusalSignal, match="expected a Turn"):
            put(given)
    assert conversation.plan(REQUEST).accepted


def test_a_path_that_looks_like_an_id_is_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of a planner is its bundle's own, before anything is opened too, so every way of planning takes it."""
    shipped = Path(__file__).parents[2] / "model_bundles" / "reference"
    shutil.copytree(shipped, tmp_path / "copied")
    monkeypatch.chdir(tmp_path)
    planner = Planner("copied")
    request = replace(REQUEST, model_bundle_id=planner.bundle_id)
    assert "reference" == request.model_bundle_id == planner.plan(request).receipt.model_bundle_id
    assert planner.conversation().plan(request).accepted
    assert "absent" == Planner("absent").bundle_id


def test_a_hook_may_use_the_conversation_it_is_told_about() -> None:
    """An application that appends or plans again from its hook does not wait for itself."""
    seen: list[int] = []

    def hook(event: PlanEvent) -> None:
        del event
        seen.append(len(conversation.turns))
        if len(seen) == 1:
            conversation.append(Turn("t1", 1, "completed", (Message("user", text="a"), Message("assistant", text="b"))))
            conversation.plan(REQUEST)

    conversation = Planner(toy().encoder().bundle, on_plan=hook).conversation()
    running = threading.Thread(target=conversation.plan, args=(REQUEST,), daemon=True)
    running.start()
    running.join(timeout=30)
    assert not running.is_alive()
    assert [0, 1] == seen


def test_a_hook_may_use_the_stored_conversation_it_is_told_about(tmp_path: Path) -> None:
    """So may one that plans from a ledger."""
    seen: list[str] = []

    def hook(event: PlanEvent) -> None:
        seen.append(event.plan_id)
        if len(seen) == 1:
            chat.plan(REQUEST)

    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.append("c1", "t1", (Message("user", "u1", "a"), Message("assistant", "a1", "b")), state="completed")
        chat = Planner(toy().encoder().bundle, on_plan=hook).ledger_conversation(ledger, "c1")
        running = threading.Thread(target=chat.plan, args=(REQUEST,), daemon=True)
        running.start()
        running.join(timeout=30)
        assert not running.is_alive()
    assert 2 == len(seen)
