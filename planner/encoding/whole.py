"""The whole speed: a plain render and one plain encode; the oracle of the other two (design.md §4.8).

It shares neither tracked strings, runs nor caches with them (a test holds that).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from planner.encoding.template import render_plain, variables
from planner.values.bundle import Bundle
from planner.values.prompt import TemplateInputs


def render_whole(bundle: Bundle, inputs: TemplateInputs) -> str:
    """Render plainly. Raises TemplateFailure."""
    plain = untracked(list(inputs.messages)), untracked(list(inputs.tools) if inputs.tools else None)
    values = variables(*plain, inputs.options, bundle.manifest.variables, inputs.now)
    return render_plain(bundle.template_source, values)


def encode_whole(bundle: Bundle, inputs: TemplateInputs) -> array[int]:
    """Return the ids the tokenizer file itself gives for the whole render; control strings are obeyed."""
    return array("i", bundle.engine.encode_parsed(render_whole(bundle, inputs)))


def untracked(value: Any) -> Any:
    """Return the same JSON value with every string a plain one."""
    if isinstance(value, str):
        return value if type(value) is str else "".join(("", *str.__iter__(value)))
    if isinstance(value, Mapping):
        return {untracked(key): untracked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [untracked(inner) for inner in value]
    return value
