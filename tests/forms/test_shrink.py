"""Lossless shrinking: the way back is exact, and what cannot be had back is left alone."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from planner.steps.shrink import collapsed, expand_log, minified, same_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_LINES = st.lists(
    st.sampled_from(("", " ", "idle", "no answer, trying again", "\r", "[the line above, 3 more times]", "é中")),
    max_size=40,
)


@given(value=st.dictionaries(st.text(), _VALUES) | st.lists(_VALUES), indent=st.sampled_from((None, 1, 4)),
       ascii_only=st.booleans())  # fmt: skip
def test_smaller_json_is_the_same_json(value: object, indent: int | None, ascii_only: bool) -> None:
    """Keys, their order, numbers as spelled and strings as escaped are those of the original."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    small = minified(text)
    if small is None:
        assert json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only) == text
        return
    assert len(small) < len(text)
    assert same_json(text, small)
    assert json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only) == small
    assert minified(small) is None


def test_numbers_keys_and_strings_are_kept_as_they_are_spelled() -> None:
    """1.50, 1E5, a number of 5,000 digits, a repeated key and an escaped quote come out letter for letter."""
    digits = "9" * 5_000
    text = '{ "a": 1.50, "a": 1E5,\n"n": ' + digits + ', "s" : "x \\" , y\\u00e9", "e": [ ] }'
    assert '{"a":1.50,"a":1E5,"n":' + digits + ',"s":"x \\" , y\\u00e9","e":[]}' == minified(text)
    assert not same_json('{"a": 1.5}', '{"a": 1.50}')
    assert not same_json('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')


def test_what_is_no_json_is_left_alone() -> None:
    """Broken JSON, JSON lines, NaN, plain text, a lone string or number and JSON without spaces have no such form."""
    for text in ("{ broken", '{"a": 1}\n{"b": 2}', "[ NaN ]", "pump on", '" x "', " 1 ", '{"a":1}', "[" * 100_000, ""):
        assert minified(text) is None


@given(lines=_LINES)
def test_a_collapsed_log_comes_back_letter_for_letter(lines: list[str]) -> None:
    """Every line, empty ones and carriage returns too; a log that spells our mark has no such form."""
    text = "\n".join(lines)
    small = collapsed(text)
    if small is not None:
        assert len(small) < len(text)
        assert text == expand_log(small)
    if "[the line above, 3 more times]" in lines:
        assert small is None


def test_a_log_says_how_often_a_line_came() -> None:
    """A long run is one line and a count; lines that differ in anything stay."""
    text = "\n".join(["start", *["no answer, trying again"] * 4, "no answer, trying again "])
    wanted = "start\nno answer, trying again\n[the line above, 3 more times]\nno answer, trying again "
    assert wanted == collapsed(text)
    assert collapsed("one\ntwo\nthree") is None
