"""Why two engines differ is told by trying, and only where trying gives the other's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.runtimes import portability_causes as causes
from planner.runtimes.portability_causes import CAUSES, NUMBERS, cause_of

ONE = {"messages": [{"role": "user", "content": "x"}], "tools": None}


def told(here: str, there: str) -> str:
    """Return the cause for a reference that writes one text whatever it is given."""
    return cause_of(lambda one, switches: here, ONE, {}, there)


@pytest.mark.parametrize(
    ("here", "there", "cause"),
    [
        ('{"rate": 1.0, "step": 1e-07}', '{"rate": 1, "step": 1e-7}', NUMBERS),
        ("large: 12345678901234567890", "large: -6101065172474983726", NUMBERS),
        ("a None b", "a  b", causes.NOTHING),
        ("open=True", "open=true", causes.CONSTANTS),
        ("['a']", '["a"]', causes.QUOTES),
        ("<p>['quiet']</p>", "<p>quiet</p>", causes.ITEMS),
        ("&lt;a&gt;", "<a>", causes.ESCAPES),
        ("a\n b", "a b", causes.WHITE_SPACE),
        ("a", "b", ""),
        ("version 11.0", "version 11", ""),
        ("rate 1.0 b", "rate 1  b", f"{NUMBERS}; {causes.WHITE_SPACE}"),
    ],
)
def test_causes_are_told_from_the_texts(here: str, there: str, cause: str) -> None:
    """The fewest that make both texts equal, none where none does."""
    assert cause == told(here, there)


def test_what_the_engine_does_to_its_input_is_told_by_rendering_again() -> None:
    """Switches of its own, parts joined, null as empty text: the reference is rendered with each and with all."""

    def render(one: Mapping[str, Any], switches: Mapping[str, Any]) -> str | None:
        content = one["messages"][0]["content"]
        return None if content is None else f"{content}|{switches.get('enable_thinking')}"

    def cause(content: Any, there: str) -> str:
        one = {"messages": [{"role": "user", "content": content}], "tools": None}
        return cause_of(render, one, {"enable_thinking": True}, there)

    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert causes.SWITCHES == cause("x", "x|True")
    assert causes.JOINED == cause(parts, "a\nb|None")
    assert causes.EMPTY == cause(None, "|None")
    assert f"{causes.SWITCHES}; {causes.JOINED}" == cause(parts, "a\nb|True")
    assert "" == cause("x", "y|True")


@given(st.text(alphabet="aN1.0 eonTru'\"[]&lt;\n", max_size=30), st.text(alphabet="aN1.0 eon'\"\n", max_size=30))
def test_a_cause_is_one_of_the_closed_set(here: str, there: str) -> None:
    """Whatever the texts are, nothing of them is in it."""
    found = told(here, there)
    assert found == "" or set(found.split("; ")) <= CAUSES
