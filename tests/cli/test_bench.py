"""`planner bench`: every shipped bundle has its own result; counts are asserted, times never (R217)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from planner import Planner
from planner.cli.bench_chat import Chat
from planner.cli.benching import BundleBench, Size, bench, optimum
from planner.cli.main import run as run_command
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest
from tests.cli.support import ROOT

SHIPPED = sorted(path.name for path in (ROOT / "model_bundles").iterdir() if path.is_dir())
SMALL = Size(turns=10, window=1024)


def measured(name: str) -> BundleBench:
    """Run a bundle at the smallest size; skips where its files are not here."""
    try:
        return bench(name, SMALL)
    except PlannerFault as fault:
        pytest.skip(f"{name}: {fault.code}")


@pytest.mark.parametrize("name", SHIPPED)
def test_card_bundle_benchmark_exists_for_each_bundle(name: str) -> None:
    """Each shipped bundle is measured by itself: appends and moved cuts, a full window, work that stays small."""
    found = measured(name)
    assert (name, Planner(name).encoder().bundle.manifest.digest) == (found.bundle_id, found.bundle_digest)
    assert SMALL.turns == found.append.plans + found.cut_moving.plans
    assert min(found.append.plans, found.cut_moving.plans) > 0
    assert found.optimum_tokens == found.prompt_tokens
    assert 1.0 == found.utilisation
    assert found.prompt_tokens <= SMALL.window - 128
    assert 0 < found.prefix_reuse < 1
    assert 0 < found.characters_encoded_per_plan < found.characters_rendered_per_plan * 4
    assert None not in (found.append.p50_ms, found.append.p99_ms, found.cut_moving.p50_ms, found.cut_moving.p99_ms)


@pytest.mark.parametrize("name", SHIPPED)
def test_R217_benchmark_per_bundle(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The command gives a bundle's result as JSON, and all but the times is the same in the next run."""
    try:
        Planner(name).encoder().bundle.engine  # noqa: B018
    except PlannerFault as fault:
        pytest.skip(f"{name}: {fault.code}")
    arguments = ["bench", "--bundles", name, "--turns", "6", "--window", "1024", "--json"]
    trees = []
    for _ in range(2):
        capfd.readouterr()
        assert 0 == run_command(arguments)
        trees.append(json.loads(capfd.readouterr().out))
    assert [name] == [one["bundleId"] for one in trees[0]["bundles"]]
    assert counts(trees[0]) == counts(trees[1])
    assert {"loadMs", "firstPlanMs", "append", "cutMoving", "rendersPerPlan", "charactersEncodedPerPlan",
            "utilisation", "optimumTokens", "prefixReuse"} <= trees[0]["bundles"][0].keys()  # fmt: skip


def counts(tree: Any) -> Any:
    """Return a result without its times."""
    if isinstance(tree, dict):
        return {key: counts(value) for key, value in tree.items() if not key.endswith("Ms")}
    return [counts(one) for one in tree] if isinstance(tree, list) else tree


def test_the_optimum_is_the_longest_whole_suffix() -> None:
    """Counted here once more: the newest turns, as many as fit, none of them cut."""
    planner = Planner("reference")
    chat = Chat()
    turns = []
    for _ in range(9):
        chat.question()
        turns.append(chat.answered())
    asked = PlanRequest("reference", CurrentRequest("q", text="?"), max_input_tokens=900, reserved_output_tokens=128)
    sizes = []
    for kept in range(10):
        whole = planner.plan(PlanRequest("reference", asked.request, max_input_tokens=30_000, turns=tuple(
            turns[9 - kept:]), reserved_output_tokens=128))  # fmt: skip
        assert isinstance(whole, Plan)
        sizes.append(len(whole.ids))
    assert max(size for size in sizes if size <= 900 - 128 - 1) == optimum(planner, asked, turns)
    assert sizes[-1] > 900


def test_an_earlier_run_is_compared_and_drawn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Figures of before stand beside the new ones, changes in the JSON; the plot is a picture with a bar per kind."""
    common = ["bench", "--bundles", "reference", "--turns", "10", "--window", "1024"]
    assert 0 == run_command([*common, "--json"])
    (tmp_path / "old.json").write_text(capfd.readouterr().out)
    old = json.loads((tmp_path / "old.json").read_text())
    old["bundles"][0]["promptTokens"] *= 2
    (tmp_path / "double.json").write_text(json.dumps(old))
    assert 0 == run_command([*common, "--json", "--compare", str(tmp_path / "double.json")])
    changes = json.loads(capfd.readouterr().out)["changes"]["reference"]
    assert (0.5, 1.0) == (changes["promptTokens"], changes["charactersEncodedPerPlan"])
    plot = str(tmp_path / "b.svg")
    assert 0 == run_command([*common, "--compare", str(tmp_path / "old.json"), "--plot", plot])
    assert re.search(r"reference +before", capfd.readouterr().out)
    bars = ElementTree.fromstring((tmp_path / "b.svg").read_text()).iter("{http://www.w3.org/2000/svg}rect")
    assert 2 == sum(1 for _ in bars)
    (tmp_path / "odd.json").write_text('{"bundles": [{"bundleId": "reference"}]}')
    assert 2 == run_command([*common, "--compare", str(tmp_path / "odd.json")])
    assert "--compare is no result" in capfd.readouterr().err
