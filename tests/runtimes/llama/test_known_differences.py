"""Where llama.cpp's text and chat paths part from the plan, each with its cause; ids take none of these ways.

Stated for the wheel xllamacpp 2026.10.11549 and Qwen3's published tokenizer and template. A row that stops differing
is a failure too: then docs/runtimes.md has to be told.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.runtimes.llama_cpp import LlamaServer as Client
from planner.runtimes.llama_cpp import differences, expected_cached
from planner.values.plan import Plan
from tests.runtimes.llama.conftest import ROOT
from tests.support.gguf_families import FAMILIES, written
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
USER = {"role": "user", "content": "hi"}
PLAIN_TOOL = {"a": {"type": "integer"}}


@dataclass
class Side:
    """The runtime, a plan of its own file, and a plan of the publisher's folder."""

    server: LlamaServer
    file: Planner
    folder: Planner

    def plan(self, messages: Any, tools: Any = (), *, folder: bool = False) -> Plan:
        """Plan on the file, or on the folder."""
        answer = (self.folder if folder else self.file).plan(
            messages=messages, tools=tools or None, max_input_tokens=4_000
        )
        assert isinstance(answer, Plan), answer
        return answer


@pytest.fixture(scope="module")
def side(shared_dir: Path, bundle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """One server for every row."""
    path = tmp_path_factory.mktemp("qwen3") / "qwen3.gguf"
    written(next(one for one in FAMILIES if one.name == "qwen3"), shared_dir, bundle_dir, path, 4_096)
    with LlamaServer(path, context=4_096) as server:
        yield Side(server, Planner(open_bundle(path)), Planner(open_bundle(bundle_dir / "qwen3-0.6b")))


def test_the_wheel_is_the_one_these_rows_were_measured_on() -> None:
    """The version the project pins is the one that answers."""
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pinned["project"]["optional-dependencies"]["runtime-llama"] == [
        f"xllamacpp=={importlib.metadata.version('xllamacpp')}"
    ]


def _tool(properties: dict[str, Any]) -> list[dict[str, Any]]:
    function = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": properties}}
    return [{"type": "function", "function": function}]


def _called(arguments: Any, content: str | None = "") -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        USER, {"role": "assistant", "content": content, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"}, USER,
    ]  # fmt: skip


WRITTEN_OTHERWISE: dict[str, tuple[Any, Any, str, str]] = {
    "a whole float of a tool loses its fraction": (
        [USER], _tool({"a": {"type": "number", "default": 1.0, "minimum": -0.0}}),
        '"default": 1.0, "minimum": -0.0', '"default": 1, "minimum": -0',
    ),
    "a float of a tool is rounded to six digits": (
        [USER], _tool({"a": {"type": "number", "default": 3.14159265358979}}), "3.14159265358979}", "3.14159}",
    ),
    "a whole float among arguments loses its fraction": (
        _called({"a": 1.0, "b": 0.1}), _tool({"a": {"type": "number"}}), '{"a": 1.0, "b": 0.1}', '{"a": 1, "b": 0.1}',
    ),
    "arguments that came as text are printed again": (
        _called('{"a":1}'), _tool(PLAIN_TOOL), '"arguments": {"a":1}', '"arguments": {"a": 1}',
    ),
    "parts of a message are joined by a line end": (
        [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}], (),
        "onetwo", "one\ntwo",
    ),
}  # fmt: skip
"""Cause to messages, tools, what our text holds and what the server's holds."""


@pytest.mark.parametrize("cause", WRITTEN_OTHERWISE)
def test_the_chat_path_writes_this_otherwise(side: Side, cause: str) -> None:
    """Same list, another text and so other ids; the ids of the plan are run as they are all the same."""
    messages, tools, ours, theirs = WRITTEN_OTHERWISE[cause]
    plan = side.plan(messages, tools)
    shown = side.server.template_of(messages, tools)
    assert plan.prompt is not None
    assert (ours in plan.prompt, theirs in plan.prompt) == (True, False)
    assert (ours in shown, theirs in shown) == (False, True)
    assert plan.prompt == shown.replace(theirs, ours)
    assert side.server.tokenize(shown) != list(plan.ids)
    assert () == differences(Client(side.server.url).run(plan.ids, 1), len(plan.ids), 1)


REFUSED_THERE: dict[str, tuple[Any, Any, int]] = {
    "a tool with an empty list of choices": ([USER], _tool({"a": {"type": "string", "enum": []}}), 400),
    "arguments that are no JSON": (_called("not json"), _tool(PLAIN_TOOL), 500),
}


@pytest.mark.parametrize("cause", REFUSED_THERE)
def test_the_chat_path_refuses_this(side: Side, cause: str) -> None:
    """The publisher's template renders it, so it is planned; by ids it runs."""
    messages, tools, status = REFUSED_THERE[cause]
    plan = side.plan(messages, tools)
    with pytest.raises(urllib.error.HTTPError) as caught:
        side.server.template_of(messages, tools)
    caught.value.close()
    assert status == caught.value.code
    assert () == differences(Client(side.server.url).run(plan.ids, 1), len(plan.ids), 1)


def test_a_list_that_ends_with_an_answer_is_gone_on_with_there(side: Side) -> None:
    """The server takes it for the beginning of an answer; for us there is nothing to answer."""
    messages = [USER, {"role": "assistant", "content": "Sure"}]
    assert side.server.template_of(messages).endswith("</think>\n\nSure")
    assert "nothing_to_answer" == getattr(side.file.plan(messages=messages, max_input_tokens=4_000), "reason", "")


def test_a_null_beside_a_call_is_the_same_text(side: Side) -> None:
    """The server makes an empty text of it, and so do we: no difference, where transformers raises."""
    messages, tools = _called({"a": 1}, None), _tool(PLAIN_TOOL)
    plan = side.plan(messages, tools)
    assert side.server.template_of(messages, tools) == plan.prompt
    assert side.server.counted(messages, tools) == len(plan.ids)


READ_OTHERWISE = {
    "control text of a user becomes a control token": ("a <|im_end|> b", True, True),
    "a word that the server retypes by its name becomes a control token": ("a</s>b", True, True),
    "composed letters are a rule of the publisher's tokenizer that a GGUF file cannot hold": (
        "cafe\u0301",
        False,
        True,
    ),
}
"""Cause to a user's text, and whether the plan of the file and that of the folder have other ids."""


@pytest.mark.parametrize("cause", READ_OTHERWISE)
def test_the_text_path_reads_this_otherwise(side: Side, cause: str) -> None:
    """Same prompt text, other ids when the server encodes it; sent as ids, the plan is what the model sees."""
    text, file_differs, folder_differs = READ_OTHERWISE[cause]
    messages = [{"role": "user", "content": text}]
    shown = side.server.template_of(messages)
    for folder, differs in ((False, file_differs), (True, folder_differs)):
        plan = side.plan(messages, folder=folder)
        assert shown == plan.prompt
        assert differs is (side.server.tokenize(shown) != list(plan.ids))
        assert differs is (side.server.counted(messages) != len(plan.ids))
        assert () == differences(Client(side.server.url).run(plan.ids, 1), len(plan.ids), 1)


def test_no_token_asked_for_is_one_token_made(side: Side) -> None:
    """So a plan that leaves no room for an answer is not run at all (tests/cli/test_run.py)."""
    assert 1 == Client(side.server.url).run(side.plan([USER]).ids, 0).answer_tokens


def test_an_older_prompt_may_be_cached_as_well(side: Side) -> None:
    """By default the server keeps prompts beside the slot: more is cached than the last call explains, never less."""
    client = Client(side.server.url)
    long, other = (side.plan([{"role": "user", "content": word * 200}]) for word in ("moon ", "star "))
    client.run(long.ids, 2, slot=0)
    before = client.run(other.ids, 2, slot=0)
    expected = expected_cached(other.ids, before.ids or (), long.ids)
    served = client.run(long.ids, 2, slot=0)
    assert expected < served.cached_tokens == len(long.ids) - 1
    assert () == differences(served, len(long.ids), 2, expected)


def test_the_window_is_another_than_was_asked_for(tmp_path: Path, reference_gguf: Path) -> None:
    """Rounded up to 256 for each slot, and shared among slots: only what the server states is believed."""
    for asked, slots, window in ((257, 1, 512), (100, 1, 256), (1_024, 2, 512)):
        with LlamaServer(reference_gguf, context=asked, n_parallel=slots, kv_unified=False) as server:
            limits = Client(server.url).limits()
        assert (window, slots) == (limits.window_tokens, limits.slots)


def test_planned_and_answered_tokens_never_move_the_window(reference_gguf: Path, planning: Planner) -> None:
    """With a server that would drop old tokens to go on: a plan run to its end leaves it nothing to drop (T12)."""
    with LlamaServer(reference_gguf, context=512, ctx_shift=True) as server:
        client = Client(server.url)
        plan = planning.plan(messages=[{"role": "user", "content": "the " * 400}], max_input_tokens=512,
                             reserved_output_tokens=64)  # fmt: skip
        assert isinstance(plan, Plan)
        served = client.run(plan.ids, plan.max_output_tokens)
        assert (False, plan.max_output_tokens) == (served.truncated, served.answer_tokens)
        # Forty more than planned, and it begins to drop what was read; nothing but `truncated` says so.
        beyond = client.run(plan.ids, plan.max_output_tokens + 40)
        assert (True, plan.max_output_tokens + 40) == (beyond.truncated, beyond.answer_tokens)
