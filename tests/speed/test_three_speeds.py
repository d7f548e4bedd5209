"""Whole, certified and spliced give the same ids, each compared plan at the speed it names (design.md §4.8).

By default about 150 plans over every bundle that admits splicing; PLANNER_FULL=1 makes 2,000.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.bundle import Bundle
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.turn import Message, Turn
from tests.speed.growing import Growing
from tests.tidy.sources import PACKAGE

PLANS = 2_000 if os.environ.get("PLANNER_FULL") == "1" else 150
SHIPPED = ("@qwen3-0.6b", "@reference")
FEWEST_BUNDLES = 14
FORMS = ((True, True), (False, False), (True, False), (False, True))
"""Whether a chat has a policy, and tools."""
STEPS_A_CHAT, MOST_CHATS = 12, 200
SLOWER = {"tracked", "tracked_dump", "tracked_markup", "tracked_template", "runs", "assemble", "spliced", "encoder"}

Opener = Callable[[str], Bundle]


@pytest.fixture(scope="module")
def opened(bundle_dir: Path) -> Opener:
    """Bundle by folder name or `@id` of a shipped one."""
    known: dict[str, Bundle] = {}

    def by_name(name: str) -> Bundle:
        if name not in known:
            known[name] = open_bundle(name[1:] if name.startswith("@") else bundle_dir / name)
        return known[name]

    return by_name


def admits(opened: Opener, name: str) -> bool:
    """Tell whether a bundle can plan and its measured profile admits splicing."""
    try:
        bundle = opened(name)
        return bundle.profile.splice_depth is not None and bundle.manifest.encode_mode != "whole"
    except PlannerFault:
        return False


def test_the_three_speeds_give_the_same_ids(opened: Opener, template_bundles: list[str], seed: int) -> None:
    """Ids are equal over growing chats with tools, calls, reasoning, cuts, open turns and withdrawn turns."""
    names = [name for name in (*SHIPPED, *template_bundles) if admits(opened, name)]
    assert len(names) >= FEWEST_BUNDLES, f"too few bundles admit splicing: {names}"
    each = -(-PLANS // len(names))
    seen: Counter[str] = Counter()
    for name in names:
        chats = grown(opened(name), f"{seed}/{name}", each)
        different = [speed for chat in chats for speed in chat.different]
        assert different == [], f"{name}: ids differ at these speeds: {sorted(set(different))}"
        assert sum(chat.speeds["spliced"] for chat in chats) >= each, name
        assert sum(chat.speeds["certified"] for chat in chats) >= each, name
        for chat in chats:
            seen += chat.seen
    assert all(seen[feature] > 0 for feature in ("cuts", "moved cuts", "open turns", "replaced turns")), seen


def grown(bundle: Bundle, seed: str, plans: int, cache_bytes: int | None = None) -> list[Growing]:
    """Return chats grown until so many plans were spliced, with and without a policy and tools in turn.

    A template that writes policy or tools into a question leaves no place to splice at; the same bundle
    splices without them.
    """
    chats: list[Growing] = []
    done = 0
    for number in range(MOST_CHATS):
        policy, tools = FORMS[number % len(FORMS)]
        chat = Growing(bundle, f"{seed}/{number}", policy=policy, tools=tools, cache_bytes=cache_bytes)
        chats.append(chat)
        wanted = -(-(plans - done) // 2) if number < len(FORMS) else plans - done
        for _ in range(STEPS_A_CHAT):
            if chat.speeds["spliced"] >= wanted or chat.different:
                break
            chat.step()
        done += chat.speeds["spliced"]
        if done >= plans or chat.different:
            break
    return chats


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_question_is_no_place_to_splice_at(opened: Opener, template_bundles: list[str], blank: str) -> None:
    """A turn with a blank question has no first word to cut at; the frame around it stays where it stands."""
    spliced = 0
    for name in [name for name in (*SHIPPED, *template_bundles) if admits(opened, name)]:
        planner = Planner(opened(name))
        conversation = planner.conversation()
        for number in range(1, 13):
            asked = Message("user", f"m{number}", text=blank if number in (3, 4, 6) else f"question {number}")
            answer = Message("assistant", f"m{number}b", text=f"answer {number} goes on for a few words")
            conversation.append(Turn(f"t{number}", number, "completed", (asked, answer)))
            for window in (90, 150, 4_000):
                request = PlanRequest(
                    planner.bundle_id, CurrentRequest(text=f"last {number}"),
                    max_input_tokens=window, reserved_output_tokens=9,
                )  # fmt: skip
                warm, cold = conversation.plan(request), planner.plan(replace(request, turns=conversation.turns))
                assert (cold.receipt, list(getattr(cold, "ids", ()))) == (warm.receipt, list(getattr(warm, "ids", ())))
                spliced += warm.diagnostics["speed"] == "spliced"
    assert spliced >= FEWEST_BUNDLES


@pytest.mark.parametrize("name", ["@qwen3-0.6b", "@reference"])
def test_an_evicted_cache_gives_the_same_ids(opened: Opener, name: str, seed: int) -> None:
    """With room for a run or two nearly every run is encoded again, and no id changes."""
    chats = grown(opened(name), f"{seed}/evicted/{name}", 12, cache_bytes=600)
    assert [speed for chat in chats for speed in chat.different] == []
    assert sum(chat.speeds["spliced"] for chat in chats) >= 12
    assert all(len(planner.encoder().cache) <= 3 for chat in chats for planner in chat.planners.values())


def test_the_oracle_shares_nothing_with_the_faster_speeds() -> None:
    """`whole` reaches neither tracked strings, runs, splicing nor caches, however far its imports go."""
    reached: set[Path] = set()
    waiting = [PACKAGE / "encoding" / "whole.py"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        waiting += imported_by(path)
    assert PACKAGE / "encoding" / "template.py" in reached
    assert {path.stem for path in reached if path.parent.name == "encoding"}.isdisjoint(SLOWER)


def imported_by(path: Path) -> list[Path]:
    """Return the files of this package that a file imports, wherever in it."""
    found: list[Path] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.split(".")[0] != "planner":
                continue
            target = PACKAGE.joinpath(*name.split(".")[1:])
            found += [one for one in (target.with_suffix(".py"), target / "__init__.py") if one.is_file()]
    return found
