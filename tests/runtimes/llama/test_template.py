"""llama.cpp's own rendering of a template against the reference, asked of a running server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.runtimes.llama_renderer import LlamaRenderer
from planner.runtimes.portability import check_portability, compare, differs_on
from planner.runtimes.portability_causes import NUMBERS
from planner.runtimes.portability_shapes import SHAPES, case
from planner.values.portability import ShapeVerdict
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault
from tests.cli.support import planner
from tests.runtimes.llama.conftest import REFERENCE
from tests.support.gguf_writer import Shape, llama_model, tokenizer_keys
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
NOW = "2026-11-30T08:00:00Z"
PLAIN = TemplateProfile("")


@pytest.fixture
def served(tmp_path: Path) -> Callable[..., LlamaServer]:
    """A server over a small model with this template; its tokenizer may add the begin token."""

    def serve(template: str, *, add_bos: bool = False) -> LlamaServer:
        path = tmp_path / "model.gguf"
        keys = tokenizer_keys(REFERENCE, "gpt-2", template=template, add_bos=add_bos)
        path.write_bytes(llama_model(keys, Shape(context=512)))
        return LlamaServer(path)

    return serve


def verdicts(template: str, url: str, strings: dict[str, str] | None = None) -> dict[str, ShapeVerdict]:
    """Compare every shape of a template in plain form, texts alone."""
    now = datetime.now().astimezone().isoformat()
    cases = [case(name, PLAIN) for name in SHAPES]
    return {one.shape: one for one in compare(template, strings or {}, cases, LlamaRenderer(url, now=now))}


def test_the_embedded_bundle_differs_on_numbers_and_parts(server: LlamaServer) -> None:
    """1.0 and numbers beyond 64 bits come out otherwise, parts are joined before the template sees them."""
    bundle = open_bundle("reference")
    engine = LlamaRenderer(server.url, now=NOW)
    assert ("numbers", "parts") == differs_on(bundle, engine)
    found = {one.shape: one for one in check_portability(bundle, engine).shapes}
    assert found["numbers"].cause == NUMBERS
    assert found["numbers"].token is not None
    assert ("raises_here", None) == (found["parts"].verdict, found["parts"].token)


def test_the_command_asks_a_server(server: LlamaServer) -> None:
    """By its address, in one line of verdict."""
    done = planner("bundle", "portability", "reference", "--engine", "llama", "--llama-url", server.url, "--json")
    assert (done.code, done.err) == (
        2, "context plan rejected: template_not_portable: differs in llama on 2 of 11 shapes\n",
    )  # fmt: skip
    assert [["numbers", "parts"]] == [one["differing"] for one in done.json["engines"]]


def test_a_server_with_another_template_is_not_compared(server: LlamaServer) -> None:
    """What it renders says nothing about this bundle."""
    with pytest.raises(PlannerFault, match="runtime_mismatch: the server holds another chat template"):
        LlamaRenderer(server.url, now=NOW).render("other", {}, [case("question", PLAIN)])


def test_a_begin_token_left_to_the_tokenizer_is_no_difference(served: Callable[..., LlamaServer]) -> None:
    """The server leaves it out of the text where it adds it to the ids."""
    template = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    with served(template, add_bos=True) as running:
        asked = running.post("/apply-template", {"messages": [{"role": "user", "content": "x"}]})
        assert not asked["prompt"].startswith("<|begin|>")
        assert "same" == verdicts(template, running.url, {"bos_token": "<|begin|>"})["question"].verdict


def test_a_planted_difference_and_a_planted_refusal_are_found(served: Callable[..., LlamaServer]) -> None:
    """A filter it lacks raises there; a template that prints the date agrees to the minute."""
    template = (
        "{% for m in messages %}{{ m.role }}{% if m.role == 'system' %}{{ m.content | wordcount }}{% endif %}"
        "{% if not loop.first and m.role == 'assistant' and not m.tool_calls %}{{ raise_exception('no') }}{% endif %}"
        "{% endfor %}{{ strftime_now('%Y-%m-%d') }}"
    )
    with served(template) as running:
        found = verdicts(template, running.url)
    assert "same" == found["question"].verdict
    assert ("raises_there", "raises_there") == (found["policy"].verdict, found["tools"].verdict)
    assert "both_raise" == found["reasoning"].verdict
