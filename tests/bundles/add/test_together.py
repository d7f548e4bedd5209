"""One bundle with all at once: adapter, runtime, parts, an activated template and the fast engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.activated import dump_state
from planner.bundles.add import Wanted, add_bundle
from planner.bundles.candidate import open_candidate
from planner.bundles.digest import sha256_hex
from planner.bundles.open import open_bundle
from planner.cli.files import cache_folder, user_folder
from planner.cli.main import run
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.account import Account
from planner.values.activation import TemplateState, TemplateVersion
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.turn import Message, Part, Turn
from planner.wire.dump import dump_receipt
from planner.wire.parse import parse_receipt
from tests.bundles.add.conftest import lora, plain_copy

OVERHEAD = 3
APP = "2.4"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bundle of the user's: an adapter, a deployed runtime, a cost of images, a template for apps from 2 on."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    own, model = user_folder(), plain_copy(tmp_path / "model")
    add_bundle(Wanted(model, id="mine", adapter=lora(tmp_path / "lora"), adapter_scale=0.5), own)
    path = own / "mine" / "bundle.json"
    tree = json.loads(path.read_text("utf-8"))
    tree["runtime"] = {
        "name": "llama.cpp", "version": "xllamacpp-2026.10.11549", "contextTokens": 4_096, "slots": 2,
        "overheadTokens": OVERHEAD,
    }  # fmt: skip
    placeholder = next(one["text"] for one in tree["controlTokens"] if one["text"] not in _written(model))
    tree["parts"] = [{"type": "image", "placeholder": placeholder, "cost": {"rule": "flat", "tokens": 7}}]
    path.write_text(json.dumps(tree), encoding="utf-8")
    text = (model / "chat_template.jinja").read_text("utf-8") + "{# newer #}"
    version = TemplateVersion(sha256_hex(text.encode()), "", version="7", min_app="2")
    _, full = open_candidate("mine", version, text, user_folder=own, cache_dir=None)
    (own / "mine" / "activated").mkdir()
    (own / "mine" / "activated" / f"{full.sha256}.jinja").write_text(text, encoding="utf-8")
    state = TemplateState("mine", open_bundle("mine", user_folder=own).manifest.digest, full, can_step_back=True)
    (own / "mine" / "activation.json").write_bytes(dump_state(state))
    return "mine"


def _written(model: Path) -> str:
    return (model / "chat_template.jinja").read_text("utf-8")


def asked(**fields: Any) -> PlanRequest:
    """A question with an image, after a turn with one, asked by an app that the template is for."""
    image = Part("image", id="p1", width_px=30, height_px=20)
    turn = Turn("t1", 1, "completed", (
        Message("user", "m1", parts=(Part("text", "And this?"), image)), Message("assistant", "m2", "A valve."),
    ))  # fmt: skip
    own = Turn("now", 2, "open", (Message("user", "q", parts=(replace(image, id="p2"), Part("text", "Which?"))),))
    return PlanRequest(
        "mine", CurrentRequest(turn_id="now"), turns=(turn, own), reserved_output_tokens=64, app_version=APP, **fields
    )


def planned(answer: Plan | Refusal) -> Plan:
    """Return a plan."""
    assert isinstance(answer, Plan), answer
    return answer


def test_all_of_it_is_planned_summed_observed_blocked_and_lifted(mine: str, tmp_path: Path) -> None:
    """The account adds up to the slot's window, receipts come back, a drift is this template's alone."""
    planner = Planner(mine, user_folder=user_folder(), cache_folder=cache_folder())
    plan = planned(planner.plan(asked()))
    account = plan.account
    assert len(plan.ids) == account.input_tokens
    # One slot's window of 2,048 less the token that llama.cpp keeps back.
    assert 2_047 == account.input_limit == _spent(account)
    assert (14, OVERHEAD) == (account.part_tokens, account.runtime_overhead_tokens)
    receipt = plan.receipt
    assert ("7", APP, None, "declared") == (
        receipt.template_version, receipt.app_version, receipt.template_fallback, receipt.count_source,
    )  # fmt: skip
    assert receipt == parse_receipt(dump_receipt(receipt))
    older = planned(planner.plan(replace(asked(), app_version="1.0")))
    assert receipt.bundle_digest != older.receipt.bundle_digest
    fast = Planner(mine, user_folder=user_folder(), cache_folder=cache_folder(), engine="fast")
    for version in (APP, "1.0"):
        slow = planner.plan(replace(asked(), app_version=version))
        assert planned(slow).ids == planned(fast.plan(replace(asked(), app_version=version))).ids
    refused = planner.plan(replace(asked(), options=Options(mode="text")))
    assert "runtime_not_certified" == refused.receipt.reason
    with Ledger.open(tmp_path / "l.db") as ledger:
        assert "exact" == planner.observe(plan, len(plan.ids) + OVERHEAD, ledger=ledger).verdict
    assert "drift" == planner.observe(plan, len(plan.ids)).verdict
    with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
        Planner(mine, user_folder=user_folder()).plan(asked())
    assert planner.plan(replace(asked(), app_version="1.0")).accepted
    assert 0 == run(["bundle", "check", mine, "--remeasure", "--app-version", APP])
    assert planned(Planner(mine, user_folder=user_folder()).plan(asked())).ids == plan.ids


def _spent(account: Account) -> int:
    """Everything of the window, line by line."""
    return (
        account.input_tokens + account.reserved_output_tokens + account.safety_margin_tokens
        + account.runtime_overhead_tokens + account.runtime_kept_tokens + account.headroom_tokens
    )  # fmt: skip


def test_a_step_back_and_another_bundle_in_its_place(mine: str, tmp_path: Path) -> None:
    """Rolled back it has the built-in template; replaced it has nothing of the bundle before."""
    before = planned(Planner(mine, user_folder=user_folder()).plan(asked()))
    assert 0 == run(["bundle", "template", "rollback", mine])
    after = planned(Planner(mine, user_folder=user_folder()).plan(asked()))
    assert (None, None) == (after.receipt.template_version, after.receipt.template_fallback)
    assert before.receipt.bundle_digest != after.receipt.bundle_digest
    assert 0 == run(["bundle", "add", str(tmp_path / "model"), "--id", mine, "--replace"])
    refused = Planner(mine, user_folder=user_folder()).plan(asked())
    assert "unmeasured_part" == refused.receipt.reason
