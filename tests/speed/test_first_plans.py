"""The first plan of a conversation that is longer than its window: each turn rendered once, few in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.steps import horizon
from planner.values.bundle import Bundle
from planner.values.plan import Plan, Refusal
from tests.speed.growing import Growing
from tests.speed.test_counters import BUNDLES, Growth
from tests.speed.test_planted_bugs import LookingAhead

OVERSHOOT = 1.2
FEW_BYTES = 300
FORMS = ((True, True), (False, False))


def first_plans(name: str, turns: int) -> tuple[Plan, Plan]:
    """Return the first plan of one long conversation at the spliced and at the certified speed."""
    found = []
    for spliced in (True, False):
        growth = Growth(name, 8_192, spliced=spliced)
        for _ in range(turns):
            growth.append()
        found.append(growth.plan())
    return found[0], found[1]


@pytest.mark.parametrize("name", BUNDLES)
def test_a_first_plan_is_put_together_from_the_render_that_gave_its_sizes(name: str) -> None:
    """No whole render, at most a fifth more characters than the prompt has, and the ids of a whole render."""
    spliced, certified = first_plans(name, 120)
    assert ("spliced", 0, None) == (spliced.diagnostics["speed"], spliced.diagnostics["renders"], spliced.prompt)
    assert ("certified", 1) == (certified.diagnostics["speed"], certified.diagnostics["renders"])
    assert certified.prompt is not None
    assert certified.ids == spliced.ids
    assert certified.receipt == spliced.receipt
    assert spliced.diagnostics["characters_encoded"] <= OVERSHOOT * len(certified.prompt)
    # Beside the window: the fixed parts and the question with the sample and again with the newest turn.
    assert spliced.diagnostics["characters_rendered"] <= 0.8 * certified.diagnostics["characters_rendered"]


@pytest.mark.parametrize("name", BUNDLES)
def test_a_first_plan_with_room_for_everything_renders_it_once(name: str) -> None:
    """Nothing is sampled where all turns may fit, and the render that gave the sizes is the plan's."""
    for plan in first_plans(name, 6):
        counters = plan.diagnostics
        assert ("certified", 0, 1) == (counters["speed"], counters["renders"], counters["mini_renders"])
        assert plan.prompt is not None
        assert len(plan.prompt) == counters["characters_rendered"]


class Fresh(Growing):
    """A chat whose every plan is the first of its conversation."""

    def plan(self, question: str | None) -> dict[str, Plan | Refusal]:
        """Plan in conversations that know the turns and nothing else."""
        self.conversations = {name: planner.conversation() for name, planner in self.planners.items()}
        for conversation in self.conversations.values():
            conversation.extend(self.turns.values())
        return super().plan(question)


def opened(bundle_dir: Path, name: str) -> Bundle:
    """Open a shipped bundle by its id or a test's by its folder."""
    return open_bundle(name if name in BUNDLES else bundle_dir / name)


def compare(bundle: Bundle, seed: str) -> int:
    """Compare ten steps' first plans, with and without policy and tools; return how many were spliced."""
    spliced = 0
    for policy, tools in FORMS:
        chat = Fresh(bundle, f"{seed}/first/{policy}", policy=policy, tools=tools)
        chat.windows = (500, 900, 1_500)
        for _ in range(10):
            chat.step()
        assert [] == chat.different
        spliced += chat.speeds["spliced"]
    return spliced


def test_first_plans_give_the_same_ids(
    bundle_dir: Path, template_bundles: list[str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are learnt in several renders, from a few turns on; ids are those of the whole render."""
    monkeypatch.setattr(horizon, "_SMALLEST_BATCH", FEW_BYTES)
    for name in (*BUNDLES, *template_bundles):
        bundle = opened(bundle_dir, name)
        if bundle.profile.splice_depth is not None and bundle.manifest.encode_mode != "whole":
            assert compare(bundle, f"{seed}/{name}") > 0, name


def test_first_plans_of_a_template_that_looks_two_turns_ahead(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older turns are rendered with as many behind them as the template looks ahead."""
    monkeypatch.setattr(horizon, "_SMALLEST_BATCH", 10 * FEW_BYTES)
    chat = Fresh(LookingAhead(2), f"{seed}/ahead", tools=False)
    chat.windows = (3_500, 4_500)
    for _ in range(60):
        chat.put(chat._next(chat.pen.question(), chat.pen.answer()))
    for _ in range(6):
        chat.plan(chat.pen.question().text)
    assert [] == chat.different
    assert 6 == chat.speeds["spliced"]


def test_ids_of_turns_are_those_of_one_render(monkeypatch: pytest.MonkeyPatch) -> None:
    """What several renders kept of each turn is what one render of all of them keeps."""
    monkeypatch.setattr(horizon, "_SMALLEST_BATCH", FEW_BYTES)
    growth = Growth(BUNDLES[0], 4_096, spliced=True)
    for _ in range(40):
        growth.append()
    assert "spliced" == growth.plan().diagnostics["speed"]
    few = kept_ids(growth)
    growth.conversation, turns = growth.planner.conversation(), growth.conversation.turns
    growth.conversation.extend(turns)
    growth.window = 32_768
    growth.plan()
    everything = kept_ids(growth)
    assert 5 < len(few) < len(everything)
    assert few == {name: everything[name] for name in few}


def kept_ids(growth: Growth) -> dict[str, list[int]]:
    """Return the ids that a conversation keeps of each turn."""
    (stores,) = growth.conversation._stores.values()
    assert stores.frozen is not None
    return {name: list(turn.ids) for name, turn in stores.frozen.turns.items()}
