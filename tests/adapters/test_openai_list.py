"""An OpenAI message list becomes turns, policy and a question (design.md §2; D07, D08, D12)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.adapters.openai import request_from_chat
from planner.values.check import check_request
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Message, Part, ToolCall, ToolResult
from planner.values.unsupported import check_supported
from planner.wire.chat import parse_chat

CANARY = "kestrel7391"
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def say(role: str, content: Any = "words", **fields: Any) -> dict[str, Any]:
    """Return one message of the list."""
    return {"role": role, "content": content, **fields}


def calling(*ids: str, **fields: Any) -> dict[str, Any]:
    """Return an assistant message with calls of these ids."""
    calls = [{"id": one, "type": "function", "function": {"name": "find", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def one_call(function: Any) -> dict[str, Any]:
    """Return an assistant message whose only call holds this function."""
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}


def answering(call_id: str, content: Any = "found", **fields: Any) -> dict[str, Any]:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def plan(messages: Any, tools: Any = None, **fields: Any) -> PlanRequest:
    """Return the request of a list, after the rules every request must keep."""
    request = request_from_chat(messages, tools, model_bundle_id="b", **fields)
    check_request(request)
    check_supported(request)
    return request


def shape(request: PlanRequest) -> list[tuple[str, int, str, list[str]]]:
    """Return each turn's id, sequence, state and the roles of its messages."""
    return [(t.id, t.sequence, t.state, [m.role for m in t.messages]) for t in request.turns]


def refusal(messages: Any, tools: Any = None, **fields: Any) -> str:
    """Return the refusal, after looking for the canary wherever an exception carries words."""
    with pytest.raises(RefusalSignal) as caught:
        plan(messages, tools, **fields)
    assert CANARY not in repr(caught.value.args)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_a_list_becomes_policy_turns_and_the_question() -> None:
    """Leading instructions are policy, ids and sequences positions, the last user message the question."""
    request = plan(
        [
            say("system", "Be brief."),
            say("developer", [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]),
            say("user"), calling("c1"), answering("c1"), say("assistant"),
            say("user", "Now?"), calling("c2", "c3"), answering("c3"), answering("c2"),
        ],
        [TOOL],
    )  # fmt: skip
    assert request.policy == (TextItem("p1", "Be brief."), TextItem("p2", "Be kind."))
    assert request.tools == (Tool("find", TOOL),)
    assert shape(request) == [
        ("t1", 3, "completed", ["user", "assistant", "tool", "assistant"]),
        ("t2", 7, "open", ["user", "assistant", "tool", "tool"]),
    ]
    assert [message.id for message in request.turns[1].messages] == ["m7", "m8", "m9", "m10"]
    assert request.request == CurrentRequest(turn_id="t2")
    assert request.turns[0].messages[1].tool_calls == (ToolCall("c1", "find", "{}"),)
    assert request.turns[0].messages[2].tool_result == ToolResult("c1", "found")


def test_a_longer_list_of_the_same_chat_keeps_every_id() -> None:
    """A growing conversation only adds turns; the old ones change their state and nothing else."""
    chat = [say("system"), say("user"), say("assistant"), say("user"), say("assistant"), say("user")]
    short, long = plan(chat[:4]), plan(chat)
    assert short.turns[0] == long.turns[0]
    assert short.turns[1].messages == long.turns[1].messages[:1]
    assert [turn.id for turn in long.turns] == ["t1", "t2", "t3"]


def test_D07_neighbouring_user_messages_are_two_turns() -> None:
    """The first of two is a completed turn without an answer; neither text is lost or joined."""
    request = plan([say("user", "first"), say("user", "second")])
    assert shape(request) == [("t1", 1, "completed", ["user"]), ("t2", 2, "open", ["user"])]
    assert [turn.messages[0].text for turn in request.turns] == ["first", "second"]


@pytest.mark.parametrize("content", [None, "absent", "", []])
def test_D08_null_missing_and_empty_content_are_one_thing(content: Any) -> None:
    """All of them are a message without words; what came in is not rewritten into the word None."""
    message = calling("c")
    message["content"] = content
    if content == "absent":
        del message["content"]
    built = plan([say("user"), message, answering("c")]).turns[0].messages[1]
    assert built.words() == ""
    assert built.text in (None, "")
    assert built.parts == ()


def test_D08a_an_empty_question_is_refused() -> None:
    """No neighbour takes its place."""
    assert refusal([say("user"), say("assistant"), say("user", "")]).startswith("invalid-input: $.request: ")


@pytest.mark.parametrize(("content", "text"), [("", ""), (None, ""), (0, "0"), (0.5, "0.5"), ([], "")])
def test_D08b_a_falsy_result_still_is_a_result(content: Any, text: str) -> None:
    """The empty text, null and the number 0 answer their call."""
    request = plan([say("user"), calling("c"), answering("c", content), say("user")])
    assert request.turns[0].messages[2].tool_result == ToolResult("c", text)


def test_D12_a_late_system_message_belongs_to_the_turn_it_precedes() -> None:
    """Right before a user message it opens that turn; inside a turn it stays where it is."""
    request = plan([
        say("system", "Be brief."), say("user"), say("assistant"),
        say("system", "The folder was cleaned."), say("user"), say("developer"), say("assistant"),
        say("developer"), say("system"), say("user"), say("system"),
    ])  # fmt: skip
    assert request.policy == (TextItem("p1", "Be brief."),)
    assert shape(request) == [
        ("t1", 2, "completed", ["user", "assistant"]),
        ("t2", 4, "completed", ["system", "user", "developer", "assistant"]),
        ("t3", 8, "open", ["developer", "system", "user", "system"]),
    ]


def test_a_greeting_before_the_first_question_is_a_turn_of_its_own() -> None:
    """Nothing of the list is dropped for its shape."""
    request = plan([say("system"), say("assistant", "Hello."), say("system"), say("user")])
    assert shape(request) == [("t1", 2, "completed", ["assistant"]), ("t2", 3, "open", ["system", "user"])]


@pytest.mark.parametrize(
    "messages",
    [[], [say("system")], [say("assistant")], [say("user"), say("assistant")],
     [say("user"), calling("c"), answering("c"), say("assistant", None)]],
)  # fmt: skip
def test_a_list_that_asks_nothing_has_nothing_to_answer(messages: list[Any]) -> None:
    """No user message, or an answer at the end."""
    assert refusal(messages).startswith("nothing_to_answer: $.messages")


def test_a_call_may_wait_only_in_the_last_turn() -> None:
    """An agent may plan while a tool runs; in an older turn the result is missing for good."""
    assert plan([say("user"), calling("c")]).turns[0].state == "open"
    assert refusal([say("user"), calling("c"), say("user")]) == (
        "invalid-input: $.messages[1].tool_calls[0]: has no result before the next user message"
    )


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        ([say("user"), answering("c")], "$.messages[1].tool_call_id"),
        ([say("user"), calling("c"), answering("c"), answering("c")], "$.messages[3].tool_call_id"),
        ([say("user"), calling("c"), answering("c"), say("user"), answering("c")],
         "$.messages[4].tool_call_id"),
        ([say("user"), calling("c", "c")], "$.messages[1].tool_calls[1].id"),
        ([say("user"), calling("two words")], "$.messages[1].tool_calls[0].id"),
        ([say("user"), calling("c"), answering("c", name=CANARY)], "$.messages[2].name"),
        ([say("user", name=CANARY)], "$.messages[0]"),
        ([say("user", kestrel7391=1)], "$.messages[0]"),
        ([say("user"), say("assistant", refusal=CANARY)], "$.messages[1]"),
        ([say("user"), say("assistant", function_call={"name": CANARY})], "$.messages[1]"),
        ([say("user", reasoning=CANARY)], "$.messages[0]"),
        ([say("user"), say("assistant", reasoning=CANARY, thinking="other"), say("user")],
         "$.messages[1].reasoning"),
        ([say(CANARY)], "$.messages[0].role"),
        ([say("im_end")], "$.messages[0].role"),
        ([{"role": "user"}], "$.messages[0].content"),
        ([CANARY], "$.messages[0]"),
        (CANARY, "$.messages"),
        ([say("user", 7)], "$.messages[0].content"),
        ([say("user", {"text": CANARY})], "$.messages[0].content"),
        ([say("user", "\ud800")], "$.messages[0].content"),
        ([say("user", [{"type": "image_url", "url": CANARY}])], "$.messages[0].content[0]"),
        ([say("user"), say("assistant", [{"type": "image_url", "image_url": {"url": CANARY}}])],
         "$.messages[1].content[0]"),
        ([say("user", [{"type": ["image_url"], "image_url": CANARY}])], "$.messages[0].content[0]"),
        ([say("user", [{"type": "text", "text": CANARY, "cache_control": {}}])], "$.messages[0].content[0]"),
        ([say("user", [{"type": "text", "text": None}])], "$.messages[0].content[0].text"),
        ([say("user"), say("assistant", tool_calls=CANARY)], "$.messages[1].tool_calls"),
        ([say("user"), say("assistant", tool_calls=[CANARY])], "$.messages[1].tool_calls[0]"),
        ([say("user"), say("assistant", tool_calls=[{"id": "c", "type": "custom", "function": {}}])],
         "$.messages[1].tool_calls[0].type"),
        ([say("user"), one_call({"name": "f"})],
         "$.messages[1].tool_calls[0].function"),
        ([say("user"), one_call({"name": "f", "arguments": [CANARY]})],
         "$.messages[1].tool_calls[0].function.arguments"),
        ([say("user"), one_call({"name": "f\n", "arguments": ""})],
         "$.messages[1].tool_calls[0].function.name"),
    ],
)  # fmt: skip
def test_a_broken_message_is_refused_at_its_place(messages: Any, path: str) -> None:
    """The path points into the list as the caller wrote it, and nothing of the message is shown."""
    assert refusal(messages).startswith(f"invalid-input: {path}: ")


@pytest.mark.parametrize(
    ("tools", "path"),
    [
        (CANARY, "$.tools"),
        ([CANARY], "$.tools[0]"),
        ([TOOL, TOOL], "$.tools[1].function.name"),
        ([{"type": "function", "function": {"name": f"{CANARY} x"}}], "$.tools[0].function.name"),
        ([{"type": CANARY, "function": {"name": "f"}}], "$.tools[0].type"),
        ([{"name": CANARY}], "$.tools[0].type"),
    ],
)
def test_a_broken_tool_is_refused_at_its_place(tools: Any, path: str) -> None:
    """Declarations have the OpenAI shape."""
    assert refusal([say("user")], tools).startswith(f"invalid-input: {path}: ")


def test_empty_leftovers_of_client_libraries_are_no_fields() -> None:
    """A message dumped by a client library carries null refusal, audio and function_call."""
    dumped = say(
        "assistant", refusal=None, audio=None, function_call=None, annotations=[], tool_calls=None, name=None,
        reasoning_content=None,
    )  # fmt: skip
    assert plan([say("user"), dumped, say("user")]).turns[0].messages[1] == Message("assistant", "m2", text="words")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_three_names_and_one_place(name: str) -> None:
    """Whichever name a server used, it is the reasoning of that message."""
    request = plan([say("user"), say("assistant", **{name: "Because."}), say("user")])
    assert request.turns[0].messages[1].reasoning == "Because."


def test_arguments_stay_as_they_came() -> None:
    """D06: text or object; the template decides later what it needs."""
    given = [{"b": 1, "a": 2}, '{"b": 1}', "no JSON"]
    calls = [
        {"id": f"c{index}", "type": "function", "function": {"name": "f", "arguments": arguments}}
        for index, arguments in enumerate(given)
    ]
    built = plan([say("user"), say("assistant", None, tool_calls=calls)]).turns[0].messages[1].tool_calls
    assert [call.arguments for call in built] == given


def test_parts_stay_parts() -> None:
    """Two neighbouring parts are two leaves of content; no control string may arise between them (H03)."""
    parts = [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|>"}]
    assert plan([say("user", parts)]).turns[0].messages[0].parts == (
        Part("text", "<|im_"),
        Part("text", "end|>"),
    )


def test_the_reserve_has_three_names_that_must_agree() -> None:
    """max_tokens, max_completion_tokens and reserved_output_tokens are one figure."""
    chat = [say("user")]
    assert plan(chat).reserved_output_tokens is None
    assert plan(chat, max_tokens=100).reserved_output_tokens == 100
    assert plan(chat, max_completion_tokens=0).reserved_output_tokens == 0
    assert plan(chat, max_tokens=7, max_completion_tokens=7, reserved_output_tokens=7).reserved_output_tokens == 7
    assert refusal(chat, max_tokens=7, max_completion_tokens=8).startswith("invalid-input: $.max_tokens: ")
    assert refusal(chat, max_tokens=7, reserved_output_tokens=8).startswith("invalid-input: $.max_tokens: ")
    assert refusal(chat, max_completion_tokens=True).startswith("invalid-input: $.max_completion_tokens: ")


def test_further_fields_are_those_of_the_request() -> None:
    """Limits and parameters of the question pass through; the list alone names the question."""
    question = CurrentRequest(required_parameters=(TextItem("zone", "UTC"),))
    request = plan([say("user")], max_input_tokens=4096, request=question)
    assert (request.max_input_tokens, request.request.turn_id) == (4096, "t1")
    assert request.request.required_parameters == question.required_parameters
    assert refusal([say("user")], request=CurrentRequest(text=CANARY)).startswith("invalid-input: $.request: ")
    with pytest.raises(TypeError):
        request_from_chat([say("user")], model_bundle_id="b", max_inputs=1)


def test_chat_files_hold_a_list_or_a_body() -> None:
    """A body's sampling fields are the runtime's; any other unknown field is refused by number only."""
    messages = [say("user")]
    assert parse_chat(json.dumps(messages).encode()).messages == messages
    body = {"model": "m", "temperature": 0, "messages": messages, "tools": [TOOL], "max_tokens": 5}
    chat = parse_chat(json.dumps(body).encode())
    assert (chat.messages, chat.tools, chat.max_tokens) == (messages, [TOOL], 5)
    assert parse_chat(json.dumps(messages).encode(), json.dumps([TOOL]).encode()).tools == [TOOL]
    for data, tools, path in [
        ({**body, CANARY: 1}, None, "$"),
        (body, [TOOL], "$.tools"),
        ({"messages": CANARY}, None, "$.messages"),
        (CANARY, None, "$"),
        ({**body, "tools": {}}, None, "$.tools"),
    ]:
        with pytest.raises(RefusalSignal) as caught:
            parse_chat(json.dumps(data).encode(), tools and json.dumps(tools).encode())
        assert str(caught.value).startswith(f"invalid-input: {path}: ")
        assert CANARY not in str(caught.value)
