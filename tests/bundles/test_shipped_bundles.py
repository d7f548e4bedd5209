"""What we ship: committed files equal a rebuild, and the reference template does what it says."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tokenizers import Tokenizer

from planner.encoding.template import TemplateFailure, render_plain, variables

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "model_bundles" / "reference"
DEMO = ROOT / "fixtures" / "demo"


def tool(path: str) -> ModuleType:
    """Load a script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "tools" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_mistral_common() -> bool:
    try:
        importlib.metadata.distribution("mistral-common")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.parametrize("script", ["reference_bundle/build.py", "demo_fixture/derive.py"])
def test_committed_files_equal_a_rebuild(script: str) -> None:
    """Tokenizer and demo are what their sources give, byte for byte."""
    assert tool(script).main(["--check"]) == 0


@pytest.mark.skipif(not has_mistral_common(), reason="the extra `mistral` is not installed")
def test_committed_manifests_state_their_files() -> None:
    """Sizes, digests and control tokens of both manifests are those of the files."""
    assert tool("shipped_bundles/manifests.py").main(["--check"]) == 0


@pytest.fixture(scope="module")
def source() -> str:
    return (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(REFERENCE / "tokenizer.json"))


def render(source: str, messages: list[dict[str, Any]], *, prompt: bool = True, **options: Any) -> str:
    tools = options.pop("tools", None)
    return render_plain(source, variables(messages, tools, {"add_generation_prompt": prompt, **options}, {}, None))


def call(name: str, arguments: object, number: int = 1) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "rules"},
    {"role": "developer", "content": " notes "},
    {"role": "user", "content": "\nhi  "},
    {"role": "assistant", "content": "two", "tool_calls": [call("f", '{ "a":1}'), call("g", {"b": "é<"}, 2)]},
    {"role": "tool", "tool_call_id": "c2", "content": "second"},
    {"role": "tool", "tool_call_id": "c1", "content": ""},
    {"role": "assistant", "content": "done"},
    {"role": "system", "content": "late"},
    {"role": "user", "content": "again"},
]


def test_the_reference_template_prints_a_chat_like_this(source: str) -> None:
    """Worked example: string arguments verbatim, objects as JSON, results numbered by their parallel call."""
    declaration = {"type": "function", "function": {"name": "f", "description": "查"}}
    assert render(source, CHAT, tools=[declaration]) == (
        '<|begin|><|tools|>{"type": "function", "function": {"name": "f", "description": "查"}}<|end|>'
        "<|system|>rules<|end|><|developer|> notes <|end|><|user|>\nhi  <|end|>"
        '<|assistant|>two<|tool_call|>f<|sep|>{ "a":1}<|tool_call|>g<|sep|>{"b": "é<"}<|end|>'
        "<|result|>2<|sep|>second<|end|><|result|>1<|sep|><|end|><|assistant|>done<|end|>"
        "<|system|>late<|end|><|user|>again<|end|><|assistant|>"
    )


def test_without_reasoning_every_prompt_begins_with_the_one_before(source: str) -> None:
    """Append-stable: the first k messages render as a prefix of the first k + 1."""
    renders = [render(source, CHAT[:count], prompt=False) for count in range(len(CHAT) + 1)]
    assert [after.startswith(before) for before, after in itertools.pairwise(renders)] == [True] * len(CHAT)


def test_reasoning_is_shown_for_the_open_turn_only(source: str) -> None:
    """What the model thought before a later question is gone; in the open tool loop it stays."""
    old = {"role": "assistant", "content": "a", "reasoning_content": "old thought"}
    new = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "new thought",
        "tool_calls": [call("f", "")],
    }
    ask = {"role": "user", "content": "q"}
    text = render(source, [ask, old, ask, new, {"role": "tool", "tool_call_id": "c1", "content": "r"}])
    assert "old thought" not in text
    assert "<|think|>new thought<|think_end|><|tool_call|>f<|sep|><|end|>" in text


def test_thinking_can_be_switched_off(source: str) -> None:
    """`enable_thinking` false opens the answer with an empty block; true and absent change nothing."""
    asked = [{"role": "user", "content": "q"}]
    assert render(source, asked, enable_thinking=False).endswith("<|assistant|><|think|><|think_end|>")
    assert render(source, asked, enable_thinking=True) == render(source, asked)


@pytest.mark.parametrize("message", [{"role": "narrator", "content": "x"}, {"role": "user", "content": [1]}])
def test_the_reference_template_refuses_what_it_cannot_print(source: str, message: dict[str, Any]) -> None:
    """An unknown role or a list as content raises; nothing is dropped without a word."""
    with pytest.raises(TemplateFailure):
        render(source, [message])


def test_every_control_string_of_the_template_is_one_token(source: str, tokenizer: Tokenizer) -> None:
    """The rendered framing is made of control tokens alone: it encodes to one id each."""
    framing = render(source, [{"role": role, "content": ""} for role in ("system", "user", "assistant")])
    ids = tokenizer.encode(framing, add_special_tokens=False).ids
    names = [tokenizer.id_to_token(number) for number in ids]
    roles = ["<|system|>", "<|end|>", "<|user|>", "<|end|>", "<|assistant|>", "<|end|>"]
    assert names == ["<|begin|>", *roles, "<|assistant|>"]


def test_control_strings_in_content_can_be_encoded_as_text(tokenizer: Tokenizer) -> None:
    """With special tokens switched off no text gives an id of a control token, and it decodes back."""
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.encode_special_tokens = True
    controls = {token["id"]: token["content"] for token in json.loads(tokenizer.to_str())["added_tokens"]}
    for text in controls.values():
        ids = plain.encode(f"a{text}b", add_special_tokens=False).ids
        assert not set(ids) & set(controls)
        assert plain.decode(ids, skip_special_tokens=False) == f"a{text}b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n  x\t\r\n",
        "naïve e\u0301 你好 مرحبا สวัสดี नमस्ते 👩‍🔧",
        "\x00\x7f\ufeff\u200b\U0010ffff",
        "a" * 500,
    ],
)
def test_any_text_comes_back_from_its_ids(tokenizer: Tokenizer, text: str) -> None:
    """Byte-level without a normalizer: nothing is lost or changed."""
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text


def test_the_demo_does_not_fit_8k(source: str, tokenizer: Tokenizer) -> None:
    """The demo conversation needs more than 8,192 tokens, its policy and last question far less."""
    chat = json.loads((DEMO / "building_desk.chat.json").read_text(encoding="utf-8"))
    tools = json.loads((DEMO / "building_desk.tools.json").read_text(encoding="utf-8"))

    def count(messages: list[dict[str, Any]]) -> int:
        return len(tokenizer.encode(render(source, messages, tools=tools), add_special_tokens=False).ids)

    assert count(chat) > 8192
    assert count([chat[0], chat[-1]]) < 2048


def test_the_demo_answers_every_call_once() -> None:
    """Each call of the demo has one result in its own turn; ids of messages and calls are unique."""
    request = json.loads((DEMO / "building_desk.request.json").read_text(encoding="utf-8"))
    seen: list[str] = []
    for turn in request["turns"]:
        calls = [item["id"] for message in turn["messages"] for item in message.get("toolCalls", ())]
        results = [message["toolResult"]["callId"] for message in turn["messages"] if "toolResult" in message]
        assert sorted(calls) == sorted(results)
        seen += calls + [message["id"] for message in turn["messages"]]
    assert len(set(seen)) == len(seen)
