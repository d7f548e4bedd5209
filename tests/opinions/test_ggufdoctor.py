"""llama.cpp's engine over every published template, by the copy of it that ggufdoctor ships."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.runtimes.llama_renderer import LlamaRenderer
from planner.runtimes.portability_shapes import SHAPES, case
from tests.opinions.llama_engine import LlamaEngine
from tests.runtimes.llama.conftest import REFERENCE
from tests.support.gguf_writer import Shape, llama_model, tokenizer_keys
from tests.support.llama_server import LlamaServer, installed
from tests.support.portability_table import PLAIN, profile_of, read, row, unexplained, verdicts

pytestmark = pytest.mark.runtime
FULL = bool(os.environ.get("PLANNER_FULL"))
SAMPLE = (
    "Bielik-11B-v3.0-Instruct", "GLM-4.7-Flash", "Kimi-K2-Instruct", "MiniMax-M3", "Qwen-Qwen3-0.6B",
    "google-gemma-4-31B-it", "meetkai-functionary-medium-v3.1", "openbmb-MiniCPM5-1B", "trl-llama3_2", "trl-qwen3_6",
)  # fmt: skip

WITHOUT_THE_SWITCH = {"llama-cpp-rwkv-world", "upstage-Solar-Open-100B"}
"""Where the header is not asked for, this engine leaves the switch out, and these take it for on."""


@pytest.fixture(scope="module")
def engine() -> LlamaEngine:
    """The engine, or a skip that says what is missing."""
    try:
        return LlamaEngine()
    except ImportError:
        pytest.skip("ggufdoctor is not installed (the extra `opinions`): no engine of llama.cpp for any template")
    except OSError as error:
        pytest.skip(f"ggufdoctor has no engine here: {error}")


def test_the_table_of_published_templates_is_what_is_measured(shared_dir: Path, engine: LlamaEngine) -> None:
    """Each difference of a sample is in the table with its class; in the long run all templates are."""
    table = read("llama")
    assert engine.version == table["version"]
    paths = {path.stem: path for path in (shared_dir / "templates").glob("*.jinja")}
    assert paths.keys() == table["templates"].keys()
    for name in paths if FULL else SAMPLE:
        assert table["templates"][name] == row(paths[name].read_text(encoding="utf-8"), engine), name


def test_every_difference_of_the_table_is_explained() -> None:
    """No cell without a class, and the engine raises on nothing that the reference renders."""
    assert [] == unexplained(read("llama")["templates"].values(), frozenset())


def test_it_agrees_on_who_ignores_the_header_of_the_answer(shared_dir: Path, engine: LlamaEngine) -> None:
    """A template whose header the probe found ignored ends alike there with and without it, and no other does."""
    parted = set()
    for path in sorted((shared_dir / "templates").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        if (FULL or path.stem in {*SAMPLE, *WITHOUT_THE_SWITCH}) and profile_of(source) is not PLAIN:
            asked = case("question", profile_of(source))
            both = [asked | {"add_generation_prompt": header} for header in (True, False)]
            with_it, without = (one.text for one in engine.render(source, {}, both))
            if with_it is not None and (profile_of(source).generation_prompt == "ignored") != (with_it == without):
                parted.add(path.stem)
    assert parted == WITHOUT_THE_SWITCH


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, LlamaRenderer]]:
    """A real server over the embedded bundle's template."""
    if not installed():
        pytest.skip("the wheel xllamacpp is not installed: no llama.cpp to ask")
    template = open_bundle("reference").template_source
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "gpt-2", template=template), Shape(context=512)))
    with LlamaServer(path) as running:
        yield template, LlamaRenderer(running.url, now=datetime.now().astimezone().isoformat())


def test_the_copy_and_a_real_server_write_the_same(engine: LlamaEngine, served: tuple[str, LlamaRenderer]) -> None:
    """What is said of all templates by the copy is said of llama.cpp."""
    template, real = served
    strings = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    cases = [case(name, profile_of(template)) for name in SHAPES]
    expected = [one.text for one in real.render(template, strings, cases)]
    assert expected == [one.text for one in engine.render(template, strings, cases)]
    assert None not in expected
    assert "numbers" in {name for name, one in verdicts(template, engine).items() if one.verdict == "different"}
