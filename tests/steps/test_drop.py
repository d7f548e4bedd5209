"""What a caller could leave out is found by few measurements, however many tools were offered (R30)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.steps.drop import _first
from planner.values.plan import Refusal


@given(st.data())
def test_the_search_finds_what_a_scan_finds_wherever_it_begins(data: st.DataObject) -> None:
    """The guess only says where to look first."""
    low = data.draw(st.integers(0, 5))
    high = low + data.draw(st.integers(0, 90))
    right = data.draw(st.integers(low, high))
    asked: list[int] = []

    def holds(at: int) -> bool:
        asked.append(at)
        assert low <= at < high
        return at >= right

    guess = data.draw(st.one_of(st.integers(-3, high + 3), st.integers(right - 1, right + 1)))
    assert next(at for at in range(low, high + 1) if at >= right) == _first(low, high, guess, holds)
    assert len(asked) <= (4 if abs(guess - right) < 2 else 16)


def test_advice_about_many_tools_measures_a_few_lists_of_them() -> None:
    """120 tools alike: the refusal names how many are too many and renders no dozen prompts for it."""
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "description": "Reads one more line of the log."}}
        for at in range(120)
    ]
    ask = {"messages": [{"role": "user", "content": "Why?"}], "max_input_tokens": 1_000, "max_tokens": 50}
    refusal = Planner("reference").plan(tools=tools, **ask)  # type: ignore[arg-type]
    assert isinstance(refusal, Refusal)
    dropped = {name.partition("/")[2] for name in refusal.advice.droppable}
    kept = [tool for tool in tools if tool["function"]["name"] not in dropped]  # type: ignore[index]
    assert 0 < len(kept) < len(tools)
    assert Planner("reference").plan(tools=kept, **ask).accepted  # type: ignore[arg-type]
    one_more = [*kept, next(tool for tool in tools if tool not in kept)]
    assert not Planner("reference").plan(tools=one_more, **ask).accepted  # type: ignore[arg-type]
    assert int(refusal.diagnostics["renders"]) <= 12
