"""How a list is framed for the reference: measured normalisations, and the three concessions.

Everything here is measured by rendering, for tests only: whether a template restricts call ids, prints
string arguments verbatim, raises on null content or on reasoning, and which concession its shape needs.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.reference import CannotRender, ReferenceBundle

Message = dict[str, Any]
CONCESSIONS = ("serialise_parallel_calls", "omit_text_beside_call", "join_same_role")
_TOOL = {"type": "function", "function": {"name": "probe_tool", "description": "A probe.", "parameters": {
    "type": "object", "properties": {"key": {"type": "string", "description": "A key."}}}}}  # fmt: skip


def nine_alphanumerics(call_id: str) -> str:
    """The documented alias of a call id: nine alphanumerics stay, else nine base-62 digits of its digest.

    The first eight bytes of the sha256 are one big-endian number, written in 0-9A-Za-z with the least
    significant digit first.

    >>> nine_alphanumerics("abcdefgh1")
    'abcdefgh1'
    """
    if re.fullmatch(r"[0-9A-Za-z]{9}", call_id):
        return call_id
    number = int(hashlib.sha256(call_id.encode()).hexdigest()[:16], 16)
    letters = string.digits + string.ascii_uppercase + string.ascii_lowercase
    return "".join(letters[number // 62**place % 62] for place in range(9))


def user(text: str) -> Message:
    """A user message."""
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: Message, **more: Any) -> Message:
    """An assistant message, with calls if there are any."""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def call(call_id: str, name: str = "probe_tool", arguments: Any = None) -> Message:
    """One tool call; arguments default to an object with one key."""
    given = {"key": "value"} if arguments is None else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}


def result(call_id: str, text: str = "result text") -> Message:
    """One tool result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _around(middle: Sequence[Message], *, closed: bool) -> list[Message]:
    """Put messages between a question and, if closed, an answer and a second question."""
    head = [{"role": "system", "content": "policy text"}, user("first question"), *middle]
    return [*head, assistant("final answer"), user("second question")] if closed else head


@dataclass(frozen=True)
class Traits:
    """What a template needs of a list before it renders it; every field is measured.

    alias_ids         a long call id raises and a nine-character one does not
    arguments         "given" if a string of arguments is printed verbatim, else "object"
    keeps_null        null beside a call must stay: with "" in its place the call is lost
    omit_reasoning    shapes that raise with reasoning and render without: plain, call, text_beside_call
    needs             concessions without which the shape is raised on or loses text
    """

    alias_ids: bool
    arguments: str
    keeps_null: bool
    omit_reasoning: frozenset[str]
    needs: frozenset[str]


class _Prober:
    def __init__(self, bundle: ReferenceBundle) -> None:
        self.bundle = bundle

    def carried(self, middle: Sequence[Message], *, tools: bool = True, positions: str = "both") -> bool:
        """Tell if no user, assistant, call or result piece is lost, before an answer and in an open loop."""
        for closed in (True, False) if positions == "both" else (True,):
            verdict = self.bundle.carries(_around(middle, closed=closed), [_TOOL] if tools else None)
            if verdict.raised or any(piece.turn >= 0 for piece in verdict.missing):
                return False
        return True

    def renders(self, middle: Sequence[Message]) -> bool:
        return not self.bundle.carries(_around(middle, closed=True), [_TOOL]).raised

    def arguments(self, identifier: str) -> str:
        """Choose the form of arguments: verbatim text where it is printed so, else an object."""
        words = '{"alpha": "beta gamma", "n":  7}'
        middle = [assistant("", call(identifier, arguments=words)), result(identifier)]
        try:
            text = self.bundle.render(_around(middle, closed=True), [_TOOL])
        except CannotRender:
            return "object"
        return "given" if words in text or "beta gamma" not in text else "object"


def measure_traits(bundle: ReferenceBundle) -> Traits:
    """Measure a template by rendering small lists; about twenty renders."""
    prober, nine = _Prober(bundle), "abcdefgh1"
    one = [assistant("", call(nine)), result(nine)]
    long_id = "call_0123456789abcdef"
    alias = prober.renders(one) and not prober.renders([assistant("", call(long_id)), result(long_id)])
    two = [assistant("", call(nine), call("abcdefgh2")), result(nine), result("abcdefgh2")]
    with_text = [assistant("text beside", call(nine)), result(nine)]
    needs = set()
    if prober.carried(one):
        if not prober.carried(two):
            needs.add("serialise_parallel_calls")
        if not prober.carried(with_text):
            needs.add("omit_text_beside_call")
    for middle in ([user("another question")], [assistant("an answer"), assistant("another answer")]):
        verdict = bundle.carries(_around(middle, closed=True))
        if verdict.raised and not bundle.carries(_around([], closed=True)).raised:
            needs.add("join_same_role")
    form = prober.arguments(nine)
    words = '{"key": "value"}' if form == "given" else None
    empty = [assistant("", call(nine, arguments=words)), result(nine)]
    null = [assistant(None, call(nine, arguments=words)), result(nine)]
    return Traits(
        alias_ids=alias, arguments=form, omit_reasoning=_raising_reasoning(prober, nine),
        keeps_null=prober.carried(null) and not prober.carried(empty), needs=frozenset(needs),
    )  # fmt: skip


def _raising_reasoning(prober: _Prober, nine: str) -> frozenset[str]:
    """List the shapes of an assistant message that render without reasoning and raise with it."""
    shapes = {
        "plain": [assistant("an answer"), user("another question")],
        "call": [assistant("", call(nine)), result(nine)],
        "text_beside_call": [assistant("text beside", call(nine)), result(nine)],
    }
    found = set()
    for name, (message, *rest) in shapes.items():
        thought = {**message, "reasoning_content": "a thought"}
        if prober.renders([message, *rest]) and not prober.renders([thought, *rest]):
            found.add(name)
    return frozenset(found)


def _shape(message: Message) -> str:
    if not message.get("tool_calls"):
        return "plain"
    return "text_beside_call" if has_text_beside_call(message) else "call"


def normalise(messages: Sequence[Message], traits: Traits, alias: Any = nine_alphanumerics) -> list[Message]:
    """Apply the lossless changes a template needs; null content becomes empty text unless it must stay.

    alias  call id -> nine alphanumerics, used only where the template restricts ids
    """
    framed = []
    for message in messages:
        copy = dict(message)
        if copy.get("content") is None and not (traits.keeps_null and copy.get("tool_calls")):
            copy["content"] = ""
        if _shape(copy) in traits.omit_reasoning:
            for key in ("reasoning_content", "thinking", "reasoning"):
                copy.pop(key, None)
        if copy.get("tool_calls"):
            copy["tool_calls"] = [_normal_call(item, traits, alias) for item in copy["tool_calls"]]
        elif "tool_calls" in copy:
            del copy["tool_calls"]
        if traits.alias_ids and copy.get("tool_call_id"):
            copy["tool_call_id"] = alias(copy["tool_call_id"])
        framed.append(copy)
    return framed


def _normal_call(item: Message, traits: Traits, alias: Any) -> Message:
    function = dict(item["function"])
    if traits.arguments == "object" and isinstance(function["arguments"], str):
        try:
            parsed = json.loads(function["arguments"])
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            function["arguments"] = parsed
    return {**item, "id": alias(item["id"]) if traits.alias_ids else item["id"], "function": function}


def has_parallel(message: Message) -> bool:
    """Tell if a message makes two or more calls."""
    return len(message.get("tool_calls") or ()) > 1


def has_text_beside_call(message: Message) -> bool:
    """Tell if a message has calls and a text of more than whitespace."""
    return bool(message.get("tool_calls")) and bool((message.get("content") or "").strip())


def joins_previous(messages: Sequence[Message], at: int) -> bool:
    """Tell if the message at `at` is a plain neighbour of the same role as the one before it."""
    if at == 0:
        return False
    before, here = messages[at - 1], messages[at]
    plain = not (before.get("tool_calls") or here.get("tool_calls"))
    return here["role"] == before["role"] and here["role"] in {"user", "assistant"} and plain


@dataclass(frozen=True)
class Conceded:
    """A list after concessions: `omitted` texts, and for each new message the position it came from."""

    messages: list[Message]
    omitted: list[str]
    source: list[int]


def concede(messages: Sequence[Message], names: Collection[str], except_for: tuple[str, int] | None = None) -> Conceded:
    """Apply concessions by name to every message that has the shape.

    except_for  (name, position) of the one place where that concession is not applied; used to find
                out which shape a template fails on.
    """

    def allowed(name: str, at: int) -> bool:
        return name in names and except_for != (name, at)

    out: list[Message] = []
    source: list[int] = []
    omitted: list[str] = []
    at = 0
    while at < len(messages):
        message, begin = dict(messages[at]), at
        if has_text_beside_call(message) and allowed("omit_text_beside_call", at):
            omitted.append(message["content"])
            message["content"] = ""
        at += 1
        if has_parallel(message) and allowed("serialise_parallel_calls", begin):
            results = []
            while at < len(messages) and messages[at]["role"] == "tool":
                results.append(at)
                at += 1
            pieces = _serialised(message, [(place, messages[place]) for place in results], begin)
            out += [piece for _, piece in pieces]
            source += [place for place, _ in pieces]
        elif joins_previous(messages, begin) and allowed("join_same_role", begin):
            texts = (out[-1]["content"], message["content"])
            out[-1] = {**out[-1], "content": "\n\n".join(text for text in texts if text)}
        else:
            out.append(message)
            source.append(begin)
    return Conceded(out, omitted, source)


def _serialised(message: Message, results: Sequence[tuple[int, Message]], at: int) -> list[tuple[int, Message]]:
    """Each call followed by its result; text and reasoning stay with the first, order is kept."""
    pieces: list[tuple[int, Message]] = []
    left = list(results)
    for number, item in enumerate(message["tool_calls"]):
        extra = {**message, "tool_calls": [item]} if number == 0 else assistant("", item)
        pieces.append((at, extra))
        for entry in [pair for pair in left if pair[1].get("tool_call_id") == item["id"]]:
            pieces.append(entry)
            left.remove(entry)
    return pieces + left
