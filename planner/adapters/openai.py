"""An OpenAI message list to a PlanRequest (design.md §2, D07, D08, D12).

Leading system and developer messages become policy. Every user message starts a turn; the last one and all
that follows is the turn to answer, every turn before it counts as completed, also without an answer.
Ids follow from positions, so a longer list of the same chat keeps them: message `m7` is the seventh of the
list, turn `t2` the second, and a turn's sequence is the position of its first message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

from planner.values.check_frame import check_declaration
from planner.values.field_rules import (
    ID_RULE,
    STRING_RULE,
    invalid,
    is_id,
    is_whole,
    json_problem,
    text_problem,
)
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Message, Part, ToolCall, ToolResult, Turn

_INSTRUCTIONS = ("system", "developer")
_ROLES = (*_INSTRUCTIONS, "user", "assistant", "tool")
_REASONING = ("reasoning_content", "reasoning", "thinking")
_KEYS = {
    "system": frozenset({"role", "content"}),
    "developer": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", *_REASONING}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}
_MEDIA: dict[str, Literal["image", "audio"]] = {"image_url": "image", "input_audio": "audio"}
_EMPTY_KEYS = frozenset({"name", "refusal", "audio", "function_call", "annotations", "tool_calls", *_REASONING})
"""Client libraries write these with null or an empty list for nothing; with a value they are refused."""


def request_from_chat(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    model_bundle_id: str,
    max_tokens: int | None = None,
    max_completion_tokens: int | None = None,
    **fields: Any,
) -> PlanRequest:
    """Return the request that plans this chat.

    messages  OpenAI chat messages: content is a string, null, or a list of text parts; in a user message
              also of `image_url` and `input_audio`, whose data is left out and whose size is then unknown.
    tools     OpenAI tool declarations; a tool's id is its function's name.
    max_tokens, max_completion_tokens  either is the reserve for the answer, in tokens.
    fields    further fields of PlanRequest, such as `max_input_tokens` or `options`; `request` may hold
              parameters of the question, but neither its text nor its turn.
    Raises RefusalSignal `invalid-input` with a path into the list, or `nothing_to_answer`.
    """
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        invalid("$.messages", "expected an array")
    roles = [_role(message, f"$.messages[{index}]") for index, message in enumerate(messages)]
    start = next((index for index, role in enumerate(roles) if role not in _INSTRUCTIONS), len(roles))
    policy = tuple(
        TextItem(f"p{index + 1}", _plain_text(messages[index]["content"], f"$.messages[{index}].content"))
        for index in range(start)
    )
    if "user" not in roles[start:]:
        raise RefusalSignal("nothing_to_answer", "$.messages: no user message")
    turns = _turns(messages, roles, start)
    fields["reserved_output_tokens"] = _reserve(max_tokens, max_completion_tokens, fields)
    question = fields.pop("request", None) or CurrentRequest()
    if question.text is not None or question.turn_id is not None:
        invalid("$.request", "the list of messages names the question")
    return PlanRequest(
        model_bundle_id=model_bundle_id,
        request=replace(question, turn_id=turns[-1].id),
        policy=policy,
        tools=_tools(tools),
        turns=turns,
        **fields,
    )


def _reserve(max_tokens: Any, max_completion_tokens: Any, fields: Mapping[str, Any]) -> int | None:
    named = {
        "max_tokens": max_tokens,
        "max_completion_tokens": max_completion_tokens,
        "reservedOutputTokens": fields.get("reserved_output_tokens"),
    }
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in given.items():
        if not is_whole(value):
            invalid(f"$.{name}", "expected a whole number, 0 or more")
    if len(set(given.values())) > 1:
        invalid(f"$.{next(iter(given))}", "differs from another field that sets the same reserve")
    return next(iter(given.values()), None)


def _tools(tools: Sequence[Mapping[str, Any]] | None) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if isinstance(tools, str | bytes) or not isinstance(tools, Sequence):
        invalid("$.tools", "expected an array")
    found: dict[str, Tool] = {}
    for index, declaration in enumerate(tools):
        check_declaration(declaration, f"$.tools[{index}]")
        name = declaration["function"]["name"]
        if name in found:
            invalid(f"$.tools[{index}].function.name", "is used by another tool")
        found[name] = Tool(name, declaration)
    return tuple(found.values())


def _turn_starts(roles: Sequence[str], start: int) -> list[int]:
    """Return where turns begin: at a user message, or at the instructions right before it (D12)."""
    starts = []
    for index in range(start, len(roles)):
        if roles[index] != "user":
            continue
        first = index
        while first > start and roles[first - 1] in _INSTRUCTIONS:
            first -= 1
        starts.append(first)
    # A chat may open with an assistant's greeting; that is a turn of its own.
    return starts if starts[0] == start else [start, *starts]


def _turns(messages: Sequence[Mapping[str, Any]], roles: Sequence[str], start: int) -> tuple[Turn, ...]:
    starts = _turn_starts(roles, start)
    turns = []
    for number, (first, end) in enumerate(zip(starts, [*starts[1:], len(roles)], strict=True), start=1):
        is_last = number == len(starts)
        built = _pair(messages, first, end, is_open=is_last)
        if is_last and roles[end - 1] == "assistant" and not built[-1].tool_calls:
            raise RefusalSignal("nothing_to_answer", f"$.messages[{end - 1}]: the list ends with an answer")
        turns.append(Turn(f"t{number}", first + 1, "open" if is_last else "completed", tuple(built)))
    return tuple(turns)


def _pair(messages: Sequence[Mapping[str, Any]], first: int, end: int, *, is_open: bool) -> list[Message]:
    """Build the messages of one turn and see that calls and results pair up."""
    names: dict[str, str] = {}
    waiting: dict[str, str] = {}
    built = []
    for index in range(first, end):
        path = f"$.messages[{index}]"
        message = _message(messages[index], path, f"m{index + 1}")
        built.append(message)
        for number, call in enumerate(message.tool_calls):
            if call.id in waiting:
                invalid(f"{path}.tool_calls[{number}].id", "is used by a call that still waits")
            names[call.id] = call.name
            waiting[call.id] = f"{path}.tool_calls[{number}]"
        if message.tool_result is not None:
            if waiting.pop(message.tool_result.call_id, None) is None:
                invalid(f"{path}.tool_call_id", "names no call before it that waits for a result")
            if messages[index].get("name") not in (None, names[message.tool_result.call_id]):
                invalid(f"{path}.name", "is not the name of the function that was called")
    if waiting and not is_open:
        invalid(next(iter(waiting.values())), "has no result before the next user message")
    return built


def _role(message: Any, path: str) -> str:
    """Return the role after looking at the keys; unknown ones are only counted (threats.md §2.9)."""
    if not isinstance(message, Mapping):
        invalid(path, "expected an object")
    role = message.get("role")
    if role not in _ROLES or type(role) is not str:
        invalid(f"{path}.role", "is not one of system, developer, user, assistant, tool")
    if "content" not in message and role not in ("assistant", "tool"):
        invalid(f"{path}.content", "is missing")
    empty = {key for key in message.keys() & _EMPTY_KEYS if message[key] is None or message[key] == []}
    unknown = len(message.keys() - _KEYS[role] - empty)
    if unknown:
        invalid(path, f"has {unknown} fields a message of its role does not know")
    return role


def _message(message: Mapping[str, Any], path: str, message_id: str) -> Message:
    role: Any = message["role"]
    content = message.get("content")
    if role == "tool":
        call_id = message.get("tool_call_id")
        if not is_id(call_id):
            invalid(f"{path}.tool_call_id", ID_RULE)
        return Message(role, message_id, tool_result=ToolResult(call_id, _result_text(content, f"{path}.content")))
    text, parts = _content(content, f"{path}.content", role)
    if role != "assistant":
        return Message(role, message_id, text=text, parts=parts)
    return Message(
        role,
        message_id,
        text=text,
        parts=parts,
        tool_calls=_calls(message.get("tool_calls"), f"{path}.tool_calls"),
        reasoning=_reasoning(message, path),
    )


def _content(content: Any, path: str, role: str = "") -> tuple[str | None, tuple[Part, ...]]:
    if content is None:
        return None, ()
    if not isinstance(content, list | tuple):
        return _text(content, path), ()
    parts = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if type(kind) is str and kind in _MEDIA and part.keys() == {"type", kind} and role == "user":
            # Pixels and samples are not read, so its size is unknown: a bundle with a flat cost can plan it.
            parts.append(Part(_MEDIA[kind], id=f"part{index + 1}"))
            continue
        if not isinstance(part, Mapping) or part.get("type") != "text" or part.keys() != {"type", "text"}:
            invalid(f"{path}[{index}]", "expected a part with type text and its text, nothing else")
        parts.append(Part("text", _text(part["text"], f"{path}[{index}].text")))
    return None, tuple(parts)


def _plain_text(content: Any, path: str) -> str:
    text, parts = _content(content, path)
    return "".join([part.text or "" for part in parts]) if parts else text or ""


def _result_text(content: Any, path: str) -> str:
    # A tool may answer with a bare number; 0 is an answer and is written as JSON writes it (D08b).
    if type(content) is int or (type(content) is float and math.isfinite(content)):
        return json.dumps(content)
    return _plain_text(content, path)


def _text(value: Any, path: str) -> str:
    problem = text_problem(value)
    if problem:
        _not_text(path, problem)
    text: str = value
    return text


def _not_text(path: str, problem: str) -> NoReturn:
    invalid(path, "expected a string, null or a list of text parts" if problem == STRING_RULE else problem)


def _calls(calls: Any, path: str) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple):
        invalid(path, "expected an array")
    return tuple(_call(call, f"{path}[{index}]") for index, call in enumerate(calls))


def _call(call: Any, path: str) -> ToolCall:
    if not isinstance(call, Mapping) or not call.keys() <= {"id", "type", "function"}:
        invalid(path, "expected an object with id, type and function, nothing else")
    if call.get("type", "function") != "function":
        invalid(f"{path}.type", 'expected "function"')
    if not is_id(call.get("id")):
        invalid(f"{path}.id", ID_RULE)
    function = call.get("function")
    if not isinstance(function, Mapping) or function.keys() != {"name", "arguments"}:
        invalid(f"{path}.function", "expected an object with name and arguments, nothing else")
    if not is_id(function["name"]):
        invalid(f"{path}.function.name", ID_RULE)
    arguments = function["arguments"]
    problem = json_problem(arguments) if type(arguments) in (dict, str) else "expected an object or a string"
    if problem:
        invalid(f"{path}.function.arguments", problem)
    return ToolCall(call["id"], function["name"], arguments)


def _reasoning(message: Mapping[str, Any], path: str) -> str | None:
    """Return the reasoning under whichever of its three names; two different ones are refused."""
    found: dict[str, str] = {
        key: _text(message[key], f"{path}.{key}") for key in _REASONING if message.get(key) is not None
    }
    if len(set(found.values())) > 1:
        invalid(f"{path}.{next(iter(found))}", "differs from the reasoning under another name")
    return next(iter(found.values()), None)
