"""A rewritten template relies on less and writes the same, on every published template and on generated chats."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.encoding.template import TemplateFailure, make_environment, variables
from planner.encoding.template_lint import lint_template
from planner.encoding.template_rewrite import without_block_trimming
from planner.runtimes.portability_shapes import SHAPES, case
from tests.cli.support import ROOT, planner
from tests.support import conversations
from tests.support.portability_table import PLAIN, STRINGS, profile_of

FULL = bool(os.environ.get("PLANNER_FULL"))
RELYING = (
    "Apertus-8B-Instruct", "ByteDance-Seed-OSS", "Cohere2MoE", "MiniMax-M2", "Qwen3-Coder", "trl-glm4moe",
)  # fmt: skip
PIECES = (
    *("a", " ", "  ", "\n", "\n\n", "'", "\\", "é", "{\n", "}", "{{ y }}", "{{- y -}}", "{# z #}", "{#- z -#}"),
    *("{% if x %}", "{%- if x %}", "{% if x -%}", "{%+ if x +%}", "{% endif %}", "{%- endif -%}"),
    *("\n   {# z #}\n", "\t{% set q = 1 %}\n"),
)


class Both:
    """A template compiled with both settings on or off; what a render raises is named instead."""

    def __init__(self, source: str, *, trimming: bool) -> None:
        environment = make_environment()
        environment.trim_blocks = environment.lstrip_blocks = trimming
        self._template: jinja2.Template | None = None
        with suppress(jinja2.TemplateError):
            self._template = environment.from_string(source)

    def render(self, values: dict[str, Any]) -> str:
        if self._template is None:
            return "does not compile"
        try:
            return self._template.render(values)
        except (jinja2.TemplateError, TypeError) as error:
            return f"raises {type(error).__name__}"


def three(source: str) -> tuple[Both, Both, Both]:
    """Return the template, and the rewritten one with the settings on and off."""
    written = without_block_trimming(source)
    return Both(source, trimming=True), Both(written, trimming=True), Both(written, trimming=False)


def relies(source: str) -> bool:
    return "trim_blocks" in {one.rule for one in lint_template(source)}


def test_published_templates_are_rewritten_without_a_change(shared_dir: Path) -> None:
    """On all shapes the same text with the settings on and off, and no line left that depends on them."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (shared_dir / "templates").glob("*.jinja")}
    assert {True} == {relies(sources[name]) for name in RELYING}
    for name in sources if FULL else RELYING:
        assert not relies(without_block_trimming(sources[name])), name
        made = three(sources[name])
        for shape in SHAPES:
            values = variables(**case(shape, PLAIN), options={}, strings=STRINGS, now=None)
            texts = {one.render(values) for one in made}
            assert len(texts) == 1, (name, shape)


@pytest.mark.parametrize("name", ["trl-glm4moe", "ByteDance-Seed-OSS"])
def test_a_rewritten_template_writes_the_same_on_generated_chats(shared_dir: Path, seed: int, name: str) -> None:
    """Many scripts, tools, parallel calls, odd white space: equal text, so equal ids with every tokenizer."""
    made = three((shared_dir / "templates" / f"{name}.jinja").read_text(encoding="utf-8"))
    written = 0
    for chat in conversations.generate(500 if FULL else 60, seed):
        values = variables(chat.messages, chat.tools, {}, STRINGS, None)
        texts = {one.render(values) for one in made}
        assert len(texts) == 1
        written += not texts.pop().startswith("raises ")
    assert written > 20


@example(["{% if x %}", "\n", "it's \\n", "\n", "{% endif %}", "\n\n"], True)
@example(["\n", "  ", "{% if x %}", "\n", "{% endif %}", "\n", "{\n", "  ", "{{ y }}", "\n", "\n"], True)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.booleans())
def test_no_mixture_of_tags_and_white_space_changes_its_output(pieces: list[str], x: bool) -> None:
    """Every mark, comment, newline and indent beside every other; what does not parse is refused both times."""
    source = "".join(pieces)
    source += "{% endif %}" * (source.count("if x") - source.count("endif"))
    try:
        written = without_block_trimming(source)
    except TemplateFailure:
        assert Both(source, trimming=True).render({}) == "does not compile"
        return
    assert len({one.render({"x": x, "y": "Y"}) for one in three(source)}) == 1
    assert not relies(written)


def test_a_rewritten_template_is_measured_alike(shared_dir: Path) -> None:
    """The probe finds the same profile but for the template's own digest and literals."""
    source = (shared_dir / "templates" / "trl-glm4moe.jinja").read_text(encoding="utf-8")
    assert relies(source)
    profiles = [profile_of(source), profile_of(without_block_trimming(source))]
    first, second = (replace(one, template_digest="", template_literals=(), probe_renders=0) for one in profiles)
    assert first == second


def test_raw_blocks_are_refused() -> None:
    """What stands in them is no tag, and is not rewritten."""
    with pytest.raises(TemplateFailure, match="raw"):
        without_block_trimming("{% raw %}{% x %}\n{% endraw %}")


def test_the_command_writes_the_rewritten_template(tmp_path: Path) -> None:
    """To a file or stdout, and nothing is compared; raw blocks are a refusal in one line."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((ROOT / "model_bundles" / "reference" / name).read_bytes())
    relying = "{% for m in messages %}\n  {% if m.content %}\n{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(relying, encoding="utf-8")
    target = tmp_path / "out.jinja"
    done = planner("bundle", "portability", folder, "--rewrite", target)
    assert (done.code, done.err, done.text) == (0, "", "")
    assert target.read_text(encoding="utf-8") == without_block_trimming(relying)
    assert planner("bundle", "portability", folder, "--rewrite", "-").text == without_block_trimming(relying)
    (folder / "chat_template.jinja").write_text(relying + "{% raw %}-{% endraw %}", encoding="utf-8")
    refused = planner("bundle", "portability", folder, "--rewrite", "-")
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err.startswith("context plan rejected: not_supported_yet: ")
