"""Noise-free cost: what a plan renders and encodes, counted, over a chat of 200 turns (design.md §4.9).

Audits of every 64th plan are counted apart, in the fields `audit_*`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from statistics import mean
from types import FrameType
from typing import Any

import pytest

from benchmarks.chat import Chat
from benchmarks.growth import as_turn
from planner.bundles.open import open_bundle
from planner.encoding.encoder import AUDIT_EVERY
from planner.planner import Planner
from planner.values.bundle import Bundle
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Turn

BUNDLES = ("qwen3-0.6b", "reference")
TURNS = 200
SETTLED = 40
"""Plans before the smaller window is full are left out of comparisons of two windows."""
FULL = 130
"""Plans after which the larger window is full and its cut moves too."""
LONG, LONGER = 128_000, 1_000_000
CHARACTERS_A_TOKEN = 4
"""More than either bundle has on the benchmark's chat, so that the histories are at least as long as said."""


@cache
def bundle_of(name: str) -> Bundle:
    """Open a shipped bundle once."""
    return open_bundle(name)


@dataclass(frozen=True)
class Row:
    """One plan: its counters and the characters that were new to it."""

    counters: dict[str, Any]
    new_characters: int
    ids: int


class Growth:
    """A planner's conversation over the benchmark's chat."""

    def __init__(self, name: str, window: int, *, spliced: bool) -> None:
        self.planner = Planner(bundle_of(name))
        self.planner.encoder().splicing = spliced
        self.conversation = self.planner.conversation()
        self.chat = Chat()
        self.window = window
        self.tools = tuple(Tool(tool["function"]["name"], tool) for tool in self.chat.tools)
        self.policy = (TextItem("rules", self.chat.policy),)
        self.turns = 0
        self.question = self.chat.question()
        self.characters = 0

    def plan(self) -> Plan:
        """Plan the question that waits."""
        answer = self.conversation.plan(
            PlanRequest(
                self.planner.bundle_id,
                CurrentRequest(id="q", text=self.question),
                policy=self.policy,
                tools=self.tools,
                max_input_tokens=self.window,
                reserved_output_tokens=512,
            )
        )
        assert isinstance(answer, Plan), answer.line()
        return answer

    def append(self) -> int:
        """Answer the question and ask the next; return how many characters of content that is."""
        turn = as_turn(self.turns, self.question, self.chat.answers(self.turns))
        self.conversation.append(turn)
        self.turns += 1
        self.question = self.chat.question()
        new = characters(turn) + len(self.question)
        self.characters += new
        return new

    def rows(self, turns: int) -> Iterator[Row]:
        """Plan before and after each of so many turns."""
        self.plan()
        for _ in range(turns):
            new = self.append()
            answer = self.plan()
            yield Row(dict(answer.diagnostics), new, len(answer.ids))


def characters(turn: Turn) -> int:
    """Count a turn's characters of content: texts, names and arguments of calls."""
    total = 0
    for message in turn.messages:
        total += len(message.words())
        for call in message.tool_calls:
            total += len(call.name) + sum(len(key) + len(value) for key, value in dict(call.arguments).items())
    return total


@cache
def grown(name: str, window: int, spliced: bool) -> tuple[Row, ...]:
    """Return the rows of 200 turns at one window."""
    return tuple(Growth(name, window, spliced=spliced).rows(TURNS))


@pytest.mark.parametrize("window", [8_192, 32_768])
@pytest.mark.parametrize("name", BUNDLES)
def test_a_certified_plan_renders_its_window_once(name: str, window: int) -> None:
    """At most 1.05 full renders a plan on average, never above 3, one mini render beside it."""
    rows = grown(name, window, False)
    assert {row.counters["speed"] for row in rows} == {"certified"}
    assert mean(row.counters["renders"] for row in rows) <= 1.05
    assert max(row.counters["renders"] for row in rows) <= 3
    assert {row.counters["mini_renders"] for row in rows} == {1}
    assert {row.counters["probe_renders"] for row in rows} == {0}


@pytest.mark.parametrize("name", BUNDLES)
def test_a_certified_plan_encodes_only_what_is_new(name: str) -> None:
    """At most 1.2 times the new characters, at any window."""
    for window in (8_192, 32_768):
        rows = grown(name, window, False)[1:]
        assert sum(row.counters["characters_encoded"] for row in rows) <= 1.2 * sum(r.new_characters for r in rows)


@pytest.mark.parametrize("name", BUNDLES)
def test_what_a_spliced_plan_renders_does_not_depend_on_the_window(name: str) -> None:
    """The fixed parts, the newest turns and the question: to the character the same at 8k and at 32k."""
    small, large = (grown(name, window, True)[SETTLED:] for window in (8_192, 32_768))
    assert {row.counters["speed"] for row in (*small, *large)} == {"spliced"}
    assert {row.counters["renders"] for row in (*small, *large)} == {0}
    assert {row.counters["mini_renders"] for row in (*small, *large)} == {1}
    assert large[-1].ids > 3 * small[-1].ids
    rendered = [[row.counters["characters_rendered"] for row in rows] for rows in (small, large)]
    assert rendered[0] == rendered[1]


@pytest.mark.parametrize("window", [8_192, 32_768])
@pytest.mark.parametrize("name", BUNDLES)
def test_a_spliced_plan_encodes_only_what_is_new(name: str, window: int) -> None:
    """At most 1.2 times the new characters, over all turns and for the median turn."""
    rows = grown(name, window, True)[1:]
    assert sum(row.counters["characters_encoded"] for row in rows) <= 1.2 * sum(r.new_characters for r in rows)
    shares = sorted(row.counters["characters_encoded"] / row.new_characters for row in rows)
    assert shares[len(shares) // 2] <= 1.2


@pytest.mark.parametrize("name", BUNDLES)
def test_audits_are_counted_apart(name: str) -> None:
    """Every 64th plan says what its audit cost, every other plan that there was none."""
    rows = grown(name, 8_192, True)
    audited = [at for at, row in enumerate(rows) if row.counters["audit_renders"]]
    assert audited == [at for at in range(len(rows)) if (at + 2) % AUDIT_EVERY == 0]
    for row in rows:
        due = row.counters["audit_renders"] > 0
        assert (row.counters["audit_characters_rendered"] > 0) == due
        assert (row.counters["audit_characters_encoded"] > 0) == due
        assert row.counters["audit_differences"] == 0


@pytest.mark.parametrize("name", BUNDLES)
def test_a_history_of_a_million_tokens_costs_no_more_than_one_of_128k(name: str) -> None:
    """The same newest turns, a window of 32k: rendered and encoded characters are the same after a longer past."""
    found: list[list[Row]] = []
    for tokens in (LONG, LONGER):
        growth = Growth(name, 32_768, spliced=True)
        while growth.characters < tokens * CHARACTERS_A_TOKEN:
            growth.append()
        growth.chat = Chat(seed=9)  # the same last turns for both
        growth.question = growth.chat.question()
        growth.plan()
        found.append(list(growth.rows(12)))
    short, long = found
    assert {row.counters["speed"] for row in (*short[1:], *long[1:])} == {"spliced"}
    for counter in ("renders", "mini_renders", "probe_renders", "characters_rendered", "characters_encoded"):
        assert sum(row.counters[counter] for row in long[1:]) <= sum(row.counters[counter] for row in short[1:])


def calls_of(work: Callable[[], Plan]) -> tuple[int, str]:
    """Count the calls of Python functions that a plan makes; return them and its speed."""
    found = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal found
        found += event == "call"

    before = sys.getprofile()
    gc.disable()  # what other tests left behind is finalized by calls that are none of a plan's
    sys.setprofile(count)
    try:
        answer = work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found, f"{answer.diagnostics['speed']} {answer.diagnostics['audit_renders']}"


@pytest.mark.parametrize("name", BUNDLES)
def test_a_spliced_plan_calls_as_many_functions_at_any_window(name: str) -> None:
    """Turns that were planned before cost no call each: one call a turn would be sixty more at 32k than at 8k."""
    small, large = (Growth(name, window, spliced=True) for window in (8_192, 32_768))
    for growth in (small, large):
        list(growth.rows(FULL))
    more: list[int] = []
    for _ in range(20):
        few, speed = calls_of(small.plan)
        many, other = calls_of(large.plan)
        if {"spliced 0"} == {speed, other}:
            more.append(many - few)
        small.append(), large.append()
    assert len(more) >= 15
    assert max(more) <= 40
