"""The npm engine against the reference: planted differences, published templates, and every way it can be absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.bundle import FolderBundle
from planner.encoding.template import render_plain
from planner.runtimes import npm_renderer
from planner.runtimes.npm_renderer import NpmRenderer
from planner.runtimes.portability import check_portability, compare, differs_on
from planner.runtimes.portability_causes import NUMBERS
from planner.runtimes.portability_shapes import SHAPES, case
from planner.values.portability import Portability, ShapeVerdict
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault
from tests.bundles.test_shipped_bundles import tool
from tests.cli.support import planner
from tests.support.npm_package import FOLDER
from tests.support.portability_table import PLAIN, STRINGS, read, row, unexplained, verdicts

FULL = bool(os.environ.get("PLANNER_FULL"))
SAMPLE = (
    "GLM-4.6", "LFM2.5-8B-A1B", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "Qwen3-Coder",
    "llama-cpp-deepseek-r1", "meetkai-functionary-medium-v3.1", "meta-llama-Llama-3.2-3B-Instruct",
    "openbmb-MiniCPM5-1B", "trl-gemma4", "trl-qwen3",
)  # fmt: skip


def test_the_table_of_published_templates_is_what_is_measured(shared_dir: Path, npm: NpmRenderer) -> None:
    """Each difference of a sample is in the table with its class; in the long run all templates are."""
    table = read("npm")
    assert npm.version == table["version"]
    paths = {path.stem: path for path in (shared_dir / "templates").glob("*.jinja")}
    assert paths.keys() == table["templates"].keys()
    for name in paths if FULL else SAMPLE:
        assert table["templates"][name] == row(paths[name].read_text(encoding="utf-8"), npm), name


def test_every_difference_of_the_table_is_explained() -> None:
    """No cell without a class: what was printed otherwise, or why an engine raised."""
    reasons = frozenset(reason for _, reason in npm_renderer._REASONS)
    assert [] == unexplained(read("npm")["templates"].values(), reasons)


def test_the_page_of_engines_is_what_the_tables_say() -> None:
    """docs/engines.md repeats the tables of both engines and nothing else."""
    maker = tool("template_table/engines.py")
    assert maker.TARGET.read_text(encoding="utf-8") == maker.page()
    assert len(SHAPES) == maker.SHAPES


def test_a_planted_undefined_filter_raises_there_alone(npm: NpmRenderer) -> None:
    """Jinja2 prints nothing for an undefined value; the other engine refuses to filter it."""
    source = "{% for m in messages %}{{ m.role }}:{{ m.nothing | trim }}\n{% endfor %}"
    assert {("raises_there", "a filter gets null or undefined")} == {
        (one.verdict, one.cause) for one in verdicts(source, npm).values()
    }


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("{% for letter in messages[0].role %}{{ letter }}{% endfor %}", "a text is looped over letter by letter"),
        ("{{ messages[0].nothing | trim }}", "a filter gets null or undefined"),
        ("{{ messages[0].role | wordcount }}", "it has no such filter for such a value"),
        ("{{ messages[0].role.isspace() }}", "it has no such method for such a value"),
        ("{% set x = {1: 2} %}{{ messages[0].role }}", "an object has keys that are no strings"),
        ("{% for a, b in [(1, 2)] %}{{ a }}{% endfor %}", "a tuple is unpacked"),
        ("{{ messages[0].role is escaped }}", "it has no such test"),
        ("{{ messages[missing] }}{{ messages[0].role }}", "null or undefined is looked up or looped over"),
    ],
)
def test_a_raise_has_its_reason_in_our_words(npm: NpmRenderer, source: str, cause: str) -> None:
    """One place per reason; what the engine says of it is not kept."""
    assert ("raises_there", cause) == (
        verdicts(source, npm)["question"].verdict,
        verdicts(source, npm)["question"].cause,
    )


def test_numbers_that_javascript_does_not_keep_are_found(npm: NpmRenderer) -> None:
    """The shape of numbers differs, at the first figure that does, and no other shape does."""
    calls = "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}"
    source = "{% for m in messages %}" + calls + "{% endfor %}"
    found = verdicts(source, npm)
    assert [name for name, one in found.items() if one.verdict != "same"] == ["numbers"]
    here = render_plain(source, case("numbers", PLAIN))
    assert found["numbers"].cause == NUMBERS
    assert found["numbers"].character == here.index("1.0") + 1


def test_the_clock_of_both_is_the_same_instant(npm: NpmRenderer) -> None:
    """A template that prints the date is compared at one moment, not at two."""
    source = "{{ strftime_now('%d %b %Y %H:%M') }} {{ messages[0].role }}"
    assert {"same"} == {one.verdict for one in verdicts(source, npm).values()}


def test_a_template_that_one_engine_cannot_parse_is_a_verdict(npm: NpmRenderer) -> None:
    """Not an error of ours; neither is one that both refuse."""
    assert {"both_raise"} == {one.verdict for one in verdicts("{{ raise_exception('x') }}", npm).values()}
    assert {"raises_there"} == {one.verdict for one in verdicts("{{ 'a' if 1 is eq(1) }}", npm).values()}


def test_a_template_without_bound_is_stopped_here_too(npm: NpmRenderer) -> None:
    """It ends as one that raises, whatever the other engine does with it."""
    endless = "{% for a in range(9999) %}{% for m in messages %}{{ m.role * 99 }}{% endfor %}{% endfor %}"
    found = verdicts(endless, npm)["question"]
    assert (found.verdict, found.cause) in {("both_raise", ""), ("raises_here", "Jinja2 raises a limit of output")}


def test_the_embedded_bundle_differs_on_numbers_alone(bundle: FolderBundle, npm: NpmRenderer) -> None:
    """What an activation asks, and the token where the ids part."""
    assert ("numbers",) == differs_on(bundle, npm)
    found = check_portability(bundle, npm)
    one = next(one for one in found.shapes if one.shape == "numbers")
    here = render_plain(bundle.template_source, {
        **STRINGS, **bundle.manifest.variables, "documents": None, "add_generation_prompt": True,
        **case("numbers", bundle.profile),
    })  # fmt: skip
    ids = bundle.engine.encode_parsed(here)
    assert one.token is not None
    assert one.character is not None
    before = bundle.engine.decode(ids[: one.token])
    assert len(before) <= one.character < len(bundle.engine.decode(ids[: one.token + 1]))
    assert (found.engine, found.engine_version) == ("npm", "0.5.11")


def test_other_text_with_the_same_ids_is_alike(npm: NpmRenderer) -> None:
    """What counts is what the model reads."""

    class Deaf:
        vocab_size = 1

        def encode_parsed(self, text: str) -> list[int]:
            return [1]

    calls = "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
    source = "{% for m in messages %}" + calls + "{% endfor %}"
    cases = [case(name, PLAIN) for name in SHAPES]
    assert "different" in {one.verdict for one in compare(source, STRINGS, cases, npm)}
    assert {"same"} == {one.verdict for one in compare(source, STRINGS, cases, npm, Deaf())}  # type: ignore[arg-type]


def test_what_is_absent_has_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No node, no package, another package: an environment fault that says what to install."""
    with pytest.raises(PlannerFault, match="environment: @huggingface/jinja is not installed there: npm install"):
        NpmRenderer(tmp_path)
    other = tmp_path / "node_modules" / "@huggingface" / "jinja"
    (other / "dist").mkdir(parents=True)
    (other / "dist" / "index.js").write_text("", encoding="utf-8")
    (other / "package.json").write_text('{"name": "other"}', encoding="utf-8")
    with pytest.raises(PlannerFault, match="is not installed there"):
        NpmRenderer(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlannerFault, match="environment: node is not installed"):
        NpmRenderer(tmp_path)


@pytest.mark.parametrize(
    ("module", "detail"),
    [
        ("throw new Error('x')", "did not answer"),
        ("export class Template { render() { return 7 } }", "gave no valid answer"),
        ("process.exit(0); export class Template {}", "did not answer|gave no valid answer"),
    ],
)
def test_a_package_that_does_not_answer_is_a_fault(npm: NpmRenderer, tmp_path: Path, module: str, detail: str) -> None:
    """Whatever is installed there, its answer is data and is checked."""
    other = tmp_path / "node_modules" / "@huggingface" / "jinja"
    (other / "dist").mkdir(parents=True)
    (other / "dist" / "index.js").write_text(module, encoding="utf-8")
    stated: dict[str, Any] = {"name": "@huggingface/jinja", "version": "1\u202e", "type": "module"}
    (other / "package.json").write_text(json.dumps(stated), encoding="utf-8")
    broken = NpmRenderer(tmp_path)
    assert broken.version == "-"
    with pytest.raises(PlannerFault, match=detail):
        broken.render("x", {}, [case("question", PLAIN)])


def test_an_engine_that_does_not_end_is_stopped(npm: NpmRenderer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of time holds."""
    monkeypatch.setattr(npm_renderer, "WALL_SECONDS", 1.5)
    endless = "".join(f"{{% for {name} in range(99999) %}}" for name in "abc") + "{% endfor %}" * 3
    with pytest.raises(PlannerFault, match="environment: the npm engine did not answer"):
        npm.render(endless, {}, [case("question", PLAIN)])


def test_shapes_are_fresh_and_take_the_templates_form() -> None:
    """Eleven of them; adapting one changes no other."""
    assert len(SHAPES) == 11
    parts = TemplateProfile("", content_form="parts", object_arguments="raises")
    adapted = case("numbers", parts)
    assert adapted["messages"][0]["content"] == [{"type": "text", "text": "Which rooms are free?"}]
    assert '"rate": 1.0' in adapted["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert case("numbers", PLAIN)["messages"][0]["content"] == "Which rooms are free?"
    assert case("null_content", PLAIN)["messages"][1]["content"] is None


def test_the_command_exits_2_where_an_engine_differs(npm: NpmRenderer) -> None:
    """One line on stderr, the table on stdout, the same in JSON."""
    done = planner("bundle", "portability", "reference", "--engine", "npm", "--npm", FOLDER)
    assert (done.code, done.err) == (
        2, "context plan rejected: template_not_portable: differs in npm on 1 of 11 shapes\n",
    )  # fmt: skip
    assert NUMBERS.split()[0] in done.text
    tree = planner("bundle", "portability", "reference", "--npm", FOLDER, "--json").json
    assert (tree["engines"][0]["differing"], list(tree["notTried"])) == (["numbers"], ["llama"])


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    """Absent engines are one line each, an error only where one is named; the lint needs none."""
    done = planner("bundle", "portability", "reference", "--npm", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "llama: not tried: " in done.text
    assert "npm: not tried: " in done.text
    named = planner("bundle", "portability", "reference", "--engine", "npm", "--npm", tmp_path)
    assert (named.code, named.err.count("\n")) == (2, 1)
    assert planner("bundle", "portability", "reference", "--engine", "llama").code == 2


def test_a_shape_that_both_refuse_is_no_difference() -> None:
    """Only what one engine takes and the other does not, or takes otherwise, is named."""
    shapes = (ShapeVerdict("a", "same"), ShapeVerdict("b", "both_raise"), ShapeVerdict("c", "raises_here"))
    assert Portability("npm", "1", "", shapes).differing == ("c",)
