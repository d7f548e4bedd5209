"""What only some engines forgive is named with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.encoding.template import TemplateFailure
from planner.encoding.template_lint import RULES, lint_template

CLEAN = """{%- for message in messages -%}
{{- '<|' + message.role + '|>' -}}
{%- if message.content is not none and message.content is defined -%}
{{- message.content | trim -}}
{%- endif -%}
{%- endfor -%}
"""


def _named(source: str) -> set[tuple[str, int, str]]:
    return {(one.rule, one.line, one.about) for one in lint_template(source)}


def test_a_template_that_relies_on_nothing_has_no_finding() -> None:
    """Guarded values, marked white space, text keys."""
    assert set() == _named(CLEAN)


def test_a_planted_undefined_filter_is_named() -> None:
    """The line of the filter whose operand nothing makes sure of, and the operand."""
    planted = CLEAN.replace("{%- endfor -%}", "{{- message.reasoning_content | trim -}}\n{%- endfor -%}")
    assert {("null_into_filter", 6, "message.reasoning_content")} == _named(planted)


def test_a_planted_trim_difference_is_named() -> None:
    """A block whose newline and indent count on trim_blocks and lstrip_blocks."""
    planted = CLEAN.replace("{%- endif -%}", "{%- if message.name is defined %}\n!{%- endif -%}\n{%- endif -%}")
    assert {("trim_blocks", 5, "white space beside a block")} == _named(planted)
    indented = CLEAN.replace("{%- endfor -%}", "{{- '!' }}\n  {% set x = 1 -%}\n{%- endfor -%}")
    assert {("trim_blocks", 6, "white space beside a block")} == _named(indented)


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("\n{% set names = {1: 'a'} %}", ("integer_key", 2, "1")),
        ("\n\n{{ messages | groupby('role') }}", ("missing_filter", 3, "groupby (npm, llama)")),
        ("{{ messages | from_json }}", ("missing_filter", 1, "from_json (Jinja2)")),
        ("\n{{ messages[0].role is sameas('a') }}", ("missing_test", 2, "sameas (npm, llama)")),
        ("{{ 'a b'.partition(' ') }}", ("missing_method", 1, "partition (npm, llama)")),
        ("\n{{ strftime_now('%d') }}", ("clock", 2, "strftime_now")),
        ("{{ tools | string }}", ("printed_value", 1, "tools | string")),
        ("\n{%- for a, b in [(1, 2)] %}{{ a }}{% endfor -%}", ("unpacked_tuple", 2, "a, b")),
        ("{{ messages[0]['content'].strip() }}", ("null_into_filter", 1, "messages[0].content")),
        ("{%- set c = messages[0].content -%}\n{{- c | upper }}", ("null_into_filter", 2, "c")),
        ("{{ tools | length }}", ("null_into_filter", 1, "tools")),
    ],
)
def test_each_rule_has_its_line(source: str, finding: tuple[str, int, str]) -> None:
    """One place per rule, alone in a template."""
    assert finding in _named(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ (messages[0].content or '') | trim }}",
        "{{ messages[0].content | default('') | trim }}",
        "{{ messages[0].content | trim if messages[0].content else '' }}",
        "{{ messages[0].content and messages[0]['content'] | trim }}",
        "{% if messages[0].content is string %}{{ messages[0].content.strip() }}{% endif %}",
        "{% if messages[0].content is none %}-{% else %}{{ messages[0].content | trim }}{% endif %}",
        "{% set ns = namespace(text='') %}{{ ns.text | trim }}",
        "{{ messages[0].role | upper }}",
        "{{ messages[0].content | tojson }}",
    ],
)
def test_a_guarded_value_is_no_finding(source: str) -> None:
    """A condition that asked about the value, a default, or a key that is always there."""
    assert "null_into_filter" not in {rule for rule, _, _ in _named(source)}


def test_every_rule_of_published_templates_is_in_the_table(shared_dir: Path) -> None:
    """All of them parse, lines are lines of the file, names are short ASCII."""
    seen = set()
    paths = sorted((shared_dir / "templates").glob("*.jinja"))
    for path in paths if os.environ.get("PLANNER_FULL") else paths[::3]:
        source = path.read_text(encoding="utf-8")
        for one in lint_template(source):
            assert 1 <= one.line <= source.count("\n") + 1
            assert one.about.isascii()
            assert len(one.about) <= 80
            seen.add(one.rule)
    assert seen <= RULES.keys()
    assert {"null_into_filter", "trim_blocks", "integer_key", "missing_filter", "clock"} <= seen


def test_what_does_not_parse_is_one_failure() -> None:
    """Its words are not kept."""
    with pytest.raises(TemplateFailure) as caught:
        lint_template("{% if %}")
    assert caught.value.kind == "TemplateSyntaxError"
