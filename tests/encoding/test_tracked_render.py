"""Rendering with owners prints what rendering plainly prints, on every template there is (design.md §4.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from planner.encoding.template import TemplateFailure, compile_plain, render_plain, variables
from planner.encoding.tracked import own
from planner.encoding.tracked_template import render_tracked
from planner.values.prompt import Leaf
from tests.support import conversations

EXAMPLES = int(os.environ.get("PLANNER_MAX_EXAMPLES", "12"))
STRINGS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
STRUCTURE = {"role", "type"}
NAMES = {
    *STRUCTURE, "content", "tool_calls", "function", "name", "arguments", "id", "tool_call_id", "description",
    "parameters", "properties", "required", "reasoning_content", "enum", "items",
}  # fmt: skip


def _owned(value: Any, key: str = "") -> Any:
    """Wrap every string of content, keys of content too; roles and types stay plain, as framing leaves them."""
    if isinstance(value, str):
        if key in STRUCTURE:
            return value
        return own(Leaf(item="turn/t1", section="history", kind="user_text", text=value))
    if isinstance(value, Mapping):
        return {(name if name in NAMES else _owned(name)): _owned(item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_owned(item, key) for item in value]
    return value


def _result(render: Any, source: str, values: dict[str, Any]) -> Any:
    try:
        return render(source, values)
    except TemplateFailure as failure:
        return failure.kind


def _templates(shared: Path) -> list[Path]:
    return sorted((shared / "templates").glob("*.jinja"))


def test_a_tracked_render_equals_the_plain_one_on_every_template(shared_dir: Path, seed: int) -> None:
    """Every shape of conversation, null content and text arguments as they come; spans add up every time."""
    chats = conversations.generate(EXAMPLES, seed)
    paths = _templates(shared_dir)
    assert len(paths) > 100
    rendered = 0
    for path in paths:
        source = path.read_text(encoding="utf-8")
        try:
            compile_plain(source)
        except TemplateFailure:
            continue
        for chat in chats:
            messages, tools = list(chat.messages), list(chat.tools) or None
            plain = _result(render_plain, source, variables(messages, tools, {}, STRINGS, None))
            values = variables(_owned(messages), _owned(tools), {}, STRINGS, None)
            tracked = _result(render_tracked, source, values)
            if isinstance(tracked, str):
                assert tracked == plain, f"{path.name} {chat.id}"
                continue
            rendered += 1
            assert tracked.text == plain, f"{path.name} {chat.id}"
            assert sum(length for _, length in tracked.spans) == len(tracked.text)
    assert rendered > 0.6 * len(paths) * len(chats)


CONSTRUCTS = (
    "{{ m }}", "{{ m ~ '<' ~ m }}", "{{ 'a' + m + 'b' }}", "{{ m[1:] + m[:2] + m[::-1] }}", "{{ m | trim | upper }}",
    "{{ m | tojson }}{{ [m, {m: m, 'k': 1}] | tojson(indent=2) }}", "{{ [m, 1, {'k': m}] }}", "{{ {'a': (m,)} }}",
    "{{ [m, 'x'] | join(', ') }}", "{{ ', '.join([m, 'x']) }}", "{{ 'abXc'.replace('X', m) }}",
    "{{ 'a{}b{}'.format(m, m) }}", "{{ m.format(1) }}", "{{ '%s-%s' % (m, 3) }}", "{{ '%s' | format(m) }}",
    "{{ m % 3 }}", "{{ m | indent(2, true) }}", "{{ m | string }}{{ 3 | string }}{{ {'a': m} | string }}",
    "{{ '<i>' | safe + m }}", "{{ m | safe + '<' }}", "{{ (m | safe | trim) + '<' }}", "{{ m + ('<' | safe) }}",
    "{{ m | escape }}", "{{ m | replace('h', '<') }}", "{{ m | list | join }}", "{{ m | length }}{{ m | int }}",
    "{% set x %}a{{ m }}{% endset %}{{ x + 'b' }}", "{% macro q(z) %}[{{ z }}]{% endmacro %}{{ q(m) ~ q('c') }}",
    "{% filter upper %}{{ m }}x{% endfilter %}", "{% for c in m %}{{ c }}-{% endfor %}",
    "{% for k, v in {m: m}.items() %}{{ k }}={{ v }}{% endfor %}", "{{ {'b': m, 'a': m} | dictsort }}",
    "{{ [{'a': m}] | map(attribute='a') | join(',') }}", "{{ m.split(' ') | join('_') }}", "{{ m is string }}",
    "{{ m == 'hi' }}{{ m in m }}{{ m.startswith('h') }}", "{{ none }}{{ true }}{{ missing }}{{ m | default('x') }}",
)  # fmt: skip


@pytest.mark.parametrize("source", CONSTRUCTS)
def test_each_construct_of_templates_prints_what_it_prints_plainly(source: str) -> None:
    """Operators, filters, macros and methods, with quotes, percent signs, braces and tags in the text."""
    for text in ('hi {0} %s <b> it\'s "x"\n tail ', "héllo\\ 'a'", "x"):
        leaf = Leaf(item="turn/t1", section="history", kind="user_text", text=text)
        plain = _result(render_plain, source, {"m": text})
        tracked = _result(render_tracked, source, {"m": own(leaf)})
        if isinstance(tracked, str):
            assert tracked == plain
            continue
        assert tracked.text == plain
        assert sum(length for _, length in tracked.spans) == len(tracked.text)


@pytest.mark.parametrize("source", [
    "<{{ m }}>", "<{{ m ~ '' }}>", "<{{ [m] | join }}>", "<{{ ''.join([m]) }}>", "<{{ '{}'.format(m) }}>",
    "<{{ '%s!' % m }}>", "<{{ {'k': m} }}>", "<{{ {'k': m} | tojson }}>", "<{{ ('' | safe) + m }}>",
    "<{% set x %}{{ m }}{% endset %}{{ x }}>", "<{{ m | trim | string }}>", "<{{ 'X'.replace('X', m) }}>",
])  # fmt: skip
def test_content_stays_owned_whatever_carries_it(source: str) -> None:
    """No way of printing a text makes framing of it: framing is searched for control tokens."""
    leaf = Leaf(item="turn/t1", section="history", kind="user_text", text="content")
    rendered = render_tracked(source, {"m": own(leaf)})
    assert [length for owner, length in rendered.spans if owner is leaf] == [7]


@pytest.mark.parametrize("source", [
    "{{ o | tojson }}{{ o | tojson }}", "<{{ o | tojson }}{{ m }}{{ o | tojson }}>", "{{ m }}{{ m }}{{ [o, m] }}",
    "{{ o.k }}{{ o | tojson(indent=2) }}{{ [] | tojson }}{{ m }}",
])  # fmt: skip
def test_neighbouring_spans_have_different_owners(source: str) -> None:
    """Printed objects too, beside themselves, framing or their own texts."""
    leaf, other = (Leaf(item="turn/t1", section="history", kind="user_text", text=text) for text in ("m", "k\n"))
    rendered = render_tracked(source, {"m": own(leaf), "o": {"k": own(other), "l": [own(leaf), 1, ""]}})
    owners = [owner for owner, _ in rendered.spans]
    assert all(first is not second for first, second in pairwise(owners))
    assert all(length > 0 for _, length in rendered.spans)
    assert sum(length for _, length in rendered.spans) == len(rendered.text)
