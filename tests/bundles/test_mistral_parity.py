"""The shipped mistral-nemo template gives the ids of mistral-common's own chat encoder (facts-tooling.md §4).

The judge is mistral-common: nothing of planner is used but the plain render. Chats are generated from seeds
with control strings in every text channel. The three rewrites that the planner makes before rendering are
stated here as pure functions, in the words of model_bundles/mistral-nemo/README.md.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from planner.encoding.template import TemplateFailure, render_plain, variables
from tests.support.mistral_chats import CONTROL, Chat, Writer

pytest.importorskip("mistral_common", reason="the extra `mistral` is not installed")

from mistral_common.integrations.chat_templates.chat_templates import (
    convert_tokenizer_to_chat_template,
)
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

BUNDLE = Path(__file__).parents[2] / "model_bundles" / "mistral-nemo"
# Each control string of the template stands for itself through one private-use character, so that the same
# string inside content stays text. No generated content holds such a character.
STAND_IN = {text: chr(0xE000 + number) for number, text in enumerate(CONTROL)}
CHATS = 100


def rstrip_assistant_spaces(text: str) -> str:
    """Cut U+0020, and nothing else, at the end of an assistant text."""
    return text.rstrip(" ")


def arguments_object(arguments: object) -> object:
    """Parse arguments given as text; empty text is the empty object, text that is no JSON stays text."""
    return parsed(arguments) if isinstance(arguments, str) else arguments


def results_json(text: str) -> object:
    """Parse a result's text; empty text is the empty object, text that is no JSON stays text."""
    return parsed(text)


def parsed(text: str) -> object:
    """Parse as Python's json does, NaN and repeated keys included."""
    if text == "":
        return {}
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def rewritten(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Apply the three rewrites to a copy of the messages.

    Neighbouring answers are one text to the encoder, which cuts spaces only where that text ends.
    """
    out = []
    followers = [message["role"] for message in messages[1:]] + [""]
    for message, follower in zip(messages, followers, strict=True):
        copy = dict(message)
        if copy["role"] == "assistant" and follower != "assistant":
            copy["content"] = rstrip_assistant_spaces(copy["content"] or "")
        if copy["role"] == "tool":
            copy["content"] = results_json(copy["content"])
        if copy.get("tool_calls"):
            copy["tool_calls"] = [with_object(call) for call in copy["tool_calls"]]
        out.append(copy)
    return out


def with_object(call: dict[str, Any]) -> dict[str, Any]:
    """Copy a call with its arguments as a value."""
    function = call["function"]
    return {**call, "function": {**function, "arguments": arguments_object(function["arguments"])}}


@pytest.fixture(scope="module")
def tekken_path() -> Path:
    files = importlib.metadata.distribution("mistral-common").files or []
    return Path(str(next(file for file in files if file.name == "tekken_240718.json").locate()))


@pytest.fixture(scope="module")
def judge(tekken_path: Path) -> Any:
    return MistralTokenizer.from_file(str(tekken_path))


@pytest.fixture(scope="module")
def source() -> str:
    return (BUNDLE / "chat_template.jinja").read_text(encoding="utf-8")


def expected_ids(judge: Any, chat: Chat) -> list[int]:
    messages, tools = chat
    request: ChatCompletionRequest[Any] = ChatCompletionRequest.model_validate({"messages": messages, "tools": tools})
    return list(judge.encode_chat_completion(request).tokens)


def planned_ids(judge: Any, source: str, chat: Chat) -> list[int]:
    """Render with stand-ins for the template's control strings; encode the stretches between them."""
    for text, stand_in in STAND_IN.items():
        source = source.replace(text, stand_in)
    messages, tools = chat
    rendered = render_plain(source, variables(rewritten(messages), tools, {}, {}, None))
    tekken = judge.instruct_tokenizer.tokenizer
    control = {stand_in: tekken.get_special_token(text) for text, stand_in in STAND_IN.items()}
    ids: list[int] = []
    for piece in re.split("([" + "".join(control) + "])", rendered):
        if piece in control:
            ids.append(control[piece])
        elif piece:
            ids.extend(tekken.encode(piece, bos=False, eos=False))
    return ids


def test_one_hundred_generated_chats_have_the_ids_of_mistral_common(judge: Any, source: str) -> None:
    """100 of 100: tools, parallel calls, results, open loops, several system texts, control text."""
    chats = [Writer(seed).chat() for seed in range(CHATS)]
    wrong = [n for n, chat in enumerate(chats) if expected_ids(judge, chat) != planned_ids(judge, source, chat)]
    assert wrong == []


def test_the_generated_chats_cover_what_they_claim() -> None:
    """Each shape occurs in at least 10 of the 100 chats, so a parity of 100 says something about it."""
    seen: dict[str, int] = dict.fromkeys(
        (
            "tools",
            "parallel",
            "open loop",
            "several systems",
            "empty result",
            "trailing space",
            "control text",
            "neighbouring users",
        ),
        0,
    )
    for seed in range(CHATS):
        messages, tools = Writer(seed).chat()
        roles = [message["role"] for message in messages]
        seen["tools"] += tools is not None
        seen["parallel"] += any(len(message.get("tool_calls", ())) > 1 for message in messages)
        seen["open loop"] += roles[-1] == "tool"
        seen["several systems"] += roles.count("system") > 1
        seen["empty result"] += any(m["role"] == "tool" and m["content"] == "" for m in messages)
        seen["trailing space"] += any(m["role"] == "assistant" and m["content"].endswith(" ") for m in messages)
        seen["control text"] += any(text in str(message) for message in messages for text in CONTROL)
        seen["neighbouring users"] += ("user", "user") in itertools.pairwise(roles)
    assert {name: count for name, count in seen.items() if count < 10} == {}


@pytest.mark.parametrize("rewrite", ["rstrip_assistant_spaces", "arguments_object", "results_json"])
def test_each_rewrite_is_needed(judge: Any, source: str, rewrite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of the rewrites some of the chats get other ids."""
    monkeypatch.setitem(globals(), rewrite, lambda value: value)
    chats = [Writer(seed).chat() for seed in range(30)]
    assert any(expected_ids(judge, chat) != planned_ids(judge, source, chat) for chat in chats)


def user(text: str = "q") -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str = "a ") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str, arguments: object = "{}", text: str = "") -> dict[str, Any]:
    functions = [{"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": functions}


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


A, B = "abcdefgh1", "abcdefgh2"
SYSTEM = {"role": "system", "content": "s"}
EDGES: dict[str, list[dict[str, Any]]] = {
    "system text and an empty question": [SYSTEM, user("")],
    "system text alone": [SYSTEM],
    "an answer first": [SYSTEM, says(), user()],
    "no question at all": [SYSTEM, calls(A), result(A, "1")],
    "a system text after the question": [user(), SYSTEM],
    "a system text between two questions": [user(), SYSTEM, user("q2"), says(), user()],
    "two answers in a row": [user(), says("a  "), says(), user()],
    "two messages with calls": [user(), calls(A), result(A, "1"), calls(B, arguments="x"), result(B, "")],
    "an answer of one space": [user(), says(" "), user()],
    "a missing result": [user(), calls(A, B), result(B, "t"), user()],
    "empty questions in a run": [user(""), user(), user(""), user()],
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges_have_the_ids_of_mistral_common(judge: Any, source: str, edge: str) -> None:
    """Shapes that stand at the border of what mistral-common takes."""
    chat: Chat = (EDGES[edge], None)
    assert expected_ids(judge, chat) == planned_ids(judge, source, chat)


REFUSED: dict[str, list[dict[str, Any]]] = {
    "text beside a call": [user(), calls(A, text="t")],
    "text after calls": [user(), calls(A), says()],
    "calls after text": [user(), says(), calls(A)],
    "a call id of ten letters": [user(), calls("abcdefghij")],
    "a call id with a dash": [user(), calls("abcd-fghi")],
    "a system text after an answer": [user(), says(), SYSTEM, user()],
    "an unknown role": [{"role": "narrator", "content": "x"}, user()],
}


@pytest.mark.parametrize("shape", REFUSED)
def test_what_mistral_common_refuses_the_template_refuses(judge: Any, source: str, shape: str) -> None:
    """Both raise; so a plan is never made from a list that the official encoder would not take."""
    chat: Chat = (REFUSED[shape], None)
    with pytest.raises(TemplateFailure):
        planned_ids(judge, source, chat)
    with pytest.raises(Exception):  # noqa: B017 - the library raises half a dozen unrelated classes
        expected_ids(judge, chat)


def test_one_hundred_chats_render_as_mistral_common_s_own_template(tekken_path: Path, source: str) -> None:
    """The text equals that of the generated template, a second reference.

    That template prints JSON results and arguments that are no object in another way than its own encoder
    does, so these chats have neither; the first test covers them.
    """
    generated = convert_tokenizer_to_chat_template(str(tekken_path))
    strings = {"bos_token": "<s>", "eos_token": "</s>"}
    different = []
    for seed in range(CHATS):
        messages, tools = Writer(seed, plain_json=True).chat()
        values = variables(rewritten(messages), tools, {}, strings, None)
        if render_plain(source, values) != render_plain(generated, values):
            different.append(seed)
    assert different == []
