"""Would it fit, and what would go: every cell is the plan that planner plan would make (R30)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli.main import group
from planner.planner import Planner
from planner.values.bundle import Tier
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, Turn
from planner.whatif import AS_ASKED, whatif
from planner.wire.dump import dump_request
from tests.strategies import tool_of
from tests.support.toy import ToyBundle

TIERS = (Tier("small", 200), Tier("middle", 700), Tier("old", 900, "2026-01-31"), Tier("large", 5_000))
PLANNERS = [Planner(ToyBundle(template, tiers=TIERS, longest_token_bytes=None)) for template in ("plain", "jitter")]
BUNDLES = [(planner.bundle_id, planner.plan) for planner in PLANNERS]
REQUEST = PlanRequest(
    "toy-plain-char", CurrentRequest(id="q", text="and now?"), policy=(TextItem("p", "be brief"),),
    now="2026-11-30T08:00:00Z",
    tools=(tool_of("send", "send it"), tool_of("book", "book it")), passages=(Passage("c1", "x" * 300, 0.5),),
    turns=tuple(Turn(f"t{at}", at, "completed", (Message("user", text="y" * 100),)) for at in range(1, 9)),
    max_input_tokens=1_000, reserved_output_tokens=5, safety_margin_tokens=1,
)  # fmt: skip


def test_every_cell_is_a_plan_of_its_own() -> None:
    """Outcome, tokens and removals of each bundle and tier are those of the plan in that window, by the same count."""
    named = ["small", "middle", "large", "700", "old", "none", AS_ASKED]
    cells = whatif(REQUEST, BUNDLES, named)
    assert [(planner.bundle_id, tier) for planner in PLANNERS for tier in named] == [
        (c.bundle_id, c.tier) for c in cells
    ]
    for cell, planner in zip(cells, [planner for planner in PLANNERS for _ in named], strict=True):
        window = {"700": {"max_input_tokens": 700}, AS_ASKED: {"max_input_tokens": 1_000}}.get(
            cell.tier, {"max_input_tokens": None, "tier_id": cell.tier}
        )
        answer = planner.plan(replace(REQUEST, model_bundle_id=planner.bundle_id, **window))  # type: ignore[arg-type]
        assert (answer.receipt.outcome, answer.receipt.reason) == (cell.outcome, cell.reason)
        if isinstance(answer, Plan):
            assert cell.fits
            assert (len(answer.ids), answer.removed) == (cell.tokens, cell.removed)
        else:
            assert isinstance(answer, Refusal)
            assert (answer.tokens_missing, answer.advice.droppable) == (cell.missing, cell.droppable)
    reasons = {cell.tier: cell.reason for cell in cells}
    assert {"small": "context_policy_overflow", "middle": None, "large": None, "700": None, "old": "tier_not_valid",
            "none": "invalid-input", AS_ASKED: None} == reasons  # fmt: skip
    assert {cell.removed == () for cell in cells if cell.tier == "large"} == {True}


def test_the_command_draws_one_table(tmp_path: Path) -> None:
    """One line a cell: the code or fits, tokens, and what would go; exit 0, for the table is the answer."""
    path = tmp_path / "request.json"
    path.write_bytes(dump_request(replace(REQUEST, model_bundle_id="reference")))
    done = CliRunner().invoke(group, ["whatif", str(path), "--tiers", "100,400,9000"], standalone_mode=False)
    assert (0, "") == (done.return_value, done.stderr)
    lines = done.stdout.splitlines()
    assert ["bundle", "tier", "answer", "tokens", "limit"] == lines[0].split()[:5]
    small, middle, large = [line for line in lines if "reference" in line]
    assert "context_policy_overflow" in small
    assert "tokens are missing" in small
    assert "turns" in middle
    assert large.rstrip().endswith("nothing")


def test_the_command_gives_every_id_as_json(tmp_path: Path) -> None:
    """JSON holds the cells with ids; an unknown bundle and an empty name exit 2."""
    path = tmp_path / "request.json"
    path.write_bytes(dump_request(replace(REQUEST, model_bundle_id="reference")))
    done = CliRunner().invoke(group, ["whatif", str(path), "--tiers", "400", "--bundles", "reference", "--json"],
                              standalone_mode=False)  # fmt: skip
    (cell,) = json.loads(done.stdout)
    assert ("reference", "400", True) == (cell["bundleId"], cell["tier"], cell["fits"])
    assert {"passage/c1", "turn/t1"} <= {entry["id"] for entry in cell["removed"]}
    for wrong in (["--bundles", "absent"], ["--tiers", "4k,"]):
        failed = CliRunner().invoke(group, ["whatif", str(path), *wrong], standalone_mode=False)
        assert failed.exception is not None


@pytest.mark.parametrize("tier", ["32k", "8k"])
def test_tiers_of_the_shipped_bundle_are_named_by_id(tier: str) -> None:
    """4k, 8k and 32k are ids of the default bundle's manifest."""
    tiers = {one.id for one in Planner("qwen3-0.6b").encoder().bundle.manifest.tiers}
    assert tier in tiers
