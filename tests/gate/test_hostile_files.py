"""Files made to bring the gate down or to speak through it: one line, exit code 2, and nothing of theirs in it."""

from __future__ import annotations

import json

from planner.gate.deep import is_tool_schema
from planner.gate.plan_file import judge_bytes
from tests.gate.plan_files import SOUND


def test_no_depth_of_nesting_leaves_a_traceback() -> None:
    """Every depth around the one that the parser can no longer take (X21); the second reading is a little deeper."""
    head = json.dumps(SOUND)[:-1]
    lines = {judge_bytes(f'{head}, "x": {"[" * depth}{"]" * depth}}}'.encode()).message for depth in range(800, 1100)}
    nested = ('{"a":' * depth + "1" + "}" * depth for depth in range(800, 1100))
    lines |= {judge_bytes(f'{head}, "x": {inner}}}'.encode()).message for inner in nested}
    assert {None, "cannot parse plan: nested too deep"} == lines


def test_a_tool_that_requires_what_is_no_name_has_no_schema() -> None:
    """Objects and lists among the required names are no names, and no reason to stop."""
    for odd in ({}, [], None, 1):
        assert not is_tool_schema({"name": "f", "parameters": {"type": "object", "required": [odd]}})
    assert is_tool_schema({"name": "f", "parameters": {"properties": {"q": {}}, "required": ["q"]}})
