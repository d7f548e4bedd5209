"""The template probe measures what a template does, whoever wrote it (design.md §6, R188)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

from planner.bundles import probe
from planner.bundles.measure import measure
from planner.values.profile import ParsedString, TemplateProfile, Trims
from planner.values.reasons import PlannerFault

STRINGS = {"bos_token": "<s>", "eos_token": "</s>"}
WHITESPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())

CALLS = """{% for c in m.tool_calls or [] %}
<call id={{ c.id }} name={{ c.function.name }}>
{%- if c.function.arguments is string %}{{ c.function.arguments }}
{%- else %}{{ c.function.arguments | tojson }}{% endif %}</call>
{% endfor %}"""

TEMPLATE = (
    "{{ bos_token }}"
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}"
    "<turn {{ m.role }}>"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}" + CALLS + "</turn>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<turn assistant>{% endif %}"
)
"""Carries everything; the variants below each change one thing."""

SPECIAL = {"template_digest", "normalisations", "template_literals", "probe_renders", "options"}


def varied(old: str, new: str) -> str:
    assert TEMPLATE.count(old) == 1, "the variant must change exactly one thing"
    return TEMPLATE.replace(old, new)


def plain(profile: TemplateProfile) -> dict[str, object]:
    """The fields that say what a template does."""
    return {f.name: getattr(profile, f.name) for f in fields(profile) if f.name not in SPECIAL}


BASE = replace(
    TemplateProfile(""), writes_bos=True, splice_depth=1, append_stable=True, user_slot=True
)  # fmt: skip

CONTENT = "{{ m.content or '' }}"
VARIANTS: dict[str, tuple[str, Mapping[str, object]]] = {
    "raises on two user messages in a row": (
        varied("<turn {{ m.role }}>", "{% if m.role == 'user' and loop.previtem and loop.previtem.role "
               "== 'user' %}{{ raise_exception('alternate') }}{% endif %}<turn {{ m.role }}>"),
        {"neighbouring_users": "raises"},
    ),
    "drops every system message but the first": (
        varied(CONTENT, "{% if m.role != 'system' or loop.first %}{{ m.content or '' }}{% endif %}"),
        {"late_system": "dropped"},
    ),
    "drops the developer's text": (
        varied(CONTENT, "{% if m.role != 'developer' %}{{ m.content or '' }}{% endif %}"),
        {"developer": "dropped", "late_developer": "dropped"},
    ),
    "drops the second of two calls": (
        varied("m.tool_calls or []", "(m.tool_calls or [])[:1]"),
        {"parallel_calls": "dropped"},
    ),
    "loses text beside a call": (
        varied(CONTENT, "{% if not m.tool_calls %}{{ m.content or '' }}{% endif %}"),
        {"text_beside_call": "dropped"},
    ),
    "takes call ids of nine alphanumerics only": (
        varied("<call id=", "{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}<call id="),
        {"call_ids": "nine_alphanumerics"},
    ),
    "quotes arguments that come as text": (
        varied("{%- if c.function.arguments is string %}{{ c.function.arguments }}\n{%- else %}"
               "{{ c.function.arguments | tojson }}{% endif %}", "{{ c.function.arguments | tojson }}"),
        {"text_arguments": "object"},
    ),
    "forgets the reasoning of old turns": (
        varied("{{ bos_token }}", "{{ bos_token }}{% set ns = namespace(last=0) %}{% for m in messages %}"
               "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}").replace(
            "{% if m.reasoning_content %}", "{% if m.reasoning_content and loop.index0 > ns.last %}"),
        {"old_reasoning": "dropped", "append_stable": False},
    ),
    "strips the user's text": (
        varied(CONTENT, "{{ m.content.strip() if m.role == 'user' else m.content or '' }}"),
        {"trims": {"user": Trims(WHITESPACE, WHITESPACE)}},
    ),
    "parses a closing tag in the assistant's text": (
        varied(CONTENT,
               "{{ (m.content or '').split('</think>')[-1] if m.role == 'assistant' else m.content }}"),
        {"parsed_strings": (ParsedString("assistant", "</think>"),)},
    ),
    "reads a pair of tags around the user's text": (
        varied(CONTENT, "{% if m.role == 'user' and m.content.startswith('<data>') and "
               "m.content.endswith('</data>') %}<turn data>{% endif %}{{ m.content or '' }}"),
        {"parsed_strings": (ParsedString("user", "<data>", "</data>"),)},
    ),
    "raises on null content": (
        varied(CONTENT, "{{ m.content + '' }}"),
        {"null_content": "raises"},
    ),
    "raises on reasoning": (
        varied("{% if m.reasoning_content %}", "{% if m.thinking %}{{ raise_exception('no') }}{% endif %}"
               "{% if m.reasoning_content %}"),
        {"reasoning": "raises", "reasoning_beside_text": "raises", "old_reasoning": "raises"},
    ),
    "has no generation prompt": (
        varied("{% if add_generation_prompt %}<turn assistant>{% endif %}", ""),
        {"generation_prompt": "ignored"},
    ),
    "closes the chat where no answer is asked for": (
        varied("{% if add_generation_prompt %}<turn assistant>{% endif %}",
               "{% if add_generation_prompt %}<turn assistant>{% else %}</s>{% endif %}"),
        {"generation_prompt": "rewrites"},
    ),
    "prints the date": (
        varied("{{ bos_token }}", "{{ bos_token }}{{ strftime_now('%Y') }}"),
        {"uses_clock": True},
    ),
    "writes no beginning of text": (varied("{{ bos_token }}", ""), {"writes_bos": False}),
    "numbers its turns": (
        varied("<turn {{ m.role }}>", "<turn {{ m.role }} {{ loop.index }}>"),
        {"splice_depth": None, "append_stable": False},
    ),
    "closes all but the last two user messages": (
        varied("</turn>", "</turn>{% if m.role == 'user' and (messages[loop.index:] | "
               "selectattr('role', 'equalto', 'user') | list | length) > 1 %}<old>{% endif %}"),
        {"splice_depth": 2, "append_stable": False},
    ),
    "takes contents as parts and drops strings": (
        varied(CONTENT, "{% if m.content is not string %}{% for p in m.content %}{{ p.text }}"
               "{% endfor %}{% endif %}"),
        {"content_form": "parts", "null_content": "raises"},
    ),
    "quotes the user's block twice": (
        varied(CONTENT, "{{ m.content or '' }}{% if m.role == 'user' %}{{ m.content }}{% endif %}"),
        {"user_slot": False},
    ),
}  # fmt: skip


def test_a_template_that_carries_everything_gets_the_profile_that_says_so() -> None:
    """Nothing is dropped, raised on, trimmed or parsed."""
    assert plain(measure(TEMPLATE, STRINGS)) == plain(BASE)


def sorted_trims(values: dict[str, object]) -> dict[str, object]:
    """The order of trimmed characters says nothing."""
    trims = values["trims"]
    assert isinstance(trims, Mapping)
    ordered = {role: Trims("".join(sorted(one.left)), "".join(sorted(one.right))) for role, one in trims.items()}
    return values | {"trims": ordered}


@pytest.mark.parametrize("name", VARIANTS)
def test_R188_one_change_of_a_template_changes_what_the_profile_says_and_no_more(name: str) -> None:
    """Each variant drops, raises on or rewrites one thing, and the profile names exactly that."""
    source, changed = VARIANTS[name]
    expected = sorted_trims(plain(replace(BASE, **changed)))  # type: ignore[arg-type]
    assert sorted_trims(plain(measure(source, STRINGS))) == expected


def test_each_normalisation_is_shown_before_and_after() -> None:
    """A shape the template refuses has no render before; the render after holds the same texts."""
    profile = measure(VARIANTS["takes call ids of nine alphanumerics only"][0], STRINGS)
    (ids,) = profile.normalisations
    assert ids.name == "call_ids"
    assert ids.before is None
    assert "qzv" in ids.after
    quoted = measure(VARIANTS["quotes arguments that come as text"][0], STRINGS)
    (arguments,) = quoted.normalisations
    assert arguments.before is not None
    assert '\\"' in arguments.before
    assert '\\"' not in arguments.after


def test_what_the_template_wrote_itself_is_in_the_literals() -> None:
    """A marker composed at run time from a role is found among them, and no text of a message is."""
    written = "\n".join(measure(TEMPLATE, STRINGS).template_literals)
    assert "<turn system>" in written
    assert "</turn><turn tool>" in written
    assert "word" not in written


def test_options_are_the_switches_that_are_no_input_of_every_template() -> None:
    """Strings of the bundle and the standard inputs are none."""
    source = varied("{{ bos_token }}", "{{ bos_token }}{% if deep_thought %}!{% endif %}{{ image_token }}")
    assert measure(source, {**STRINGS, "image_token": "<i>"}).options == ("deep_thought",)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has measured."""
    monkeypatch.setattr(probe, "_memory", {})


def no_process(*_args: object, **_more: object) -> None:
    raise AssertionError("no process was expected")


@pytest.mark.usefixtures("fresh")
def test_the_probe_process_measures_what_this_process_measures() -> None:
    """A trusted template is measured here, any other one apart, with the same answer."""
    apart = probe.profile_for(TEMPLATE, STRINGS)
    assert apart == measure(TEMPLATE, STRINGS)


@pytest.mark.usefixtures("fresh")
def test_a_trusted_template_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digest stands in a shipped certificate, so nothing is guarded against."""
    monkeypatch.setattr(subprocess, "run", no_process)
    assert probe.profile_for(TEMPLATE, STRINGS, trusted=True).user_slot


@pytest.mark.usefixtures("fresh")
def test_a_template_is_probed_once_in_a_process_and_once_on_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is kept in memory and, by digest, in the cache folder; strings are part of the digest."""
    first = probe.profile_for(TEMPLATE, STRINGS, cache_dir=tmp_path / "cache")
    monkeypatch.setattr(subprocess, "run", no_process)
    assert probe.profile_for(TEMPLATE, STRINGS) == first
    monkeypatch.setattr(probe, "_memory", {})
    assert probe.profile_for(TEMPLATE, STRINGS, cache_dir=tmp_path / "cache") == first
    monkeypatch.setattr(probe, "_memory", {})
    with pytest.raises(AssertionError, match="no process"):
        probe.profile_for(TEMPLATE, {"bos_token": "<b>"}, cache_dir=tmp_path / "cache")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("content", ["", "{}", "[1", '{"system": "kept"}'])
def test_a_damaged_cache_entry_is_measured_again(tmp_path: Path, content: str) -> None:
    """A file that is no profile of the strict form counts as absent."""
    (tmp_path / f"{probe.probe_key(TEMPLATE, STRINGS)}.json").write_text(content, encoding="utf-8")
    assert probe.profile_for(TEMPLATE, STRINGS, cache_dir=tmp_path).user_slot


def test_an_answer_with_words_of_its_own_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a captured probe process would write, a fault holds only our own sentences."""

    def captured(*_args: object, **_more: object) -> subprocess.CompletedProcess[bytes]:
        reply = json.dumps({"fault": ["template_rejected", "secret words"]}).encode()
        return subprocess.CompletedProcess([], 0, reply)

    monkeypatch.setattr(subprocess, "run", captured)
    monkeypatch.setattr(probe, "_memory", {})
    with pytest.raises(PlannerFault) as caught:
        probe.profile_for(TEMPLATE, STRINGS)
    assert caught.value.code == "template_rejected"
    assert "secret" not in str(caught.value)


def test_a_probe_that_cannot_start_says_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not the template's fault, and it is not remembered."""

    def absent(*_args: object, **_more: object) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(probe, "_memory", {})
    monkeypatch.setattr(subprocess, "run", absent)
    with pytest.raises(PlannerFault) as caught:
        probe.profile_for(TEMPLATE, STRINGS)
    assert caught.value.code == "environment"
    monkeypatch.undo()
    assert probe.profile_for(TEMPLATE, STRINGS).user_slot
