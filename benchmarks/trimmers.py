"""Trimmers from PyPI and ours behind one shape: a task in, messages out, None for a refusal.

Every peer stands twice: as it comes, and as an expert would set it up, with the model's own tokenizer and the tools
taken off the budget. One that is not installed is left out and named.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import CONCESSIONS, Options
from tests.support.dialogues import Dialogue
from tests.support.framing import concede, normalise
from tests.support.judge import Judge
from tests.support.reference import CannotRender

Message = dict[str, Any]
Trim = Callable[["Task"], "list[Message] | None"]
A_QUESTION = {"role": "user", "content": "x"}


@dataclass
class Task:
    """One dialogue with the room it must fit, and exact sizes for peers that take a counter."""

    judge: Judge
    dialogue: Dialogue
    known: dict[str, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """Tokens of the prompt."""
        return self.judge.room

    def messages(self) -> list[Message]:
        """Return a copy that a trimmer may change."""
        return copy.deepcopy([dict(entry) for entry in self.dialogue.messages])

    def framed(self, messages: list[Message]) -> list[Message]:
        """Return messages as the template needs them, conceded where that is allowed."""
        traits = self.judge.traits
        return list(concede(normalise(messages, traits, self.judge.alias), self.judge.allowed & traits.needs).messages)

    def size(self, messages: list[Message], *, tools: bool = False, generate: bool = False) -> int:
        """Return the tokens of a rendered list. Raises CannotRender."""
        bundle = self.judge.bundle
        text = bundle.render(self.framed(messages), list(self.dialogue.tools) or None if tools else None,
                             generate=generate)  # fmt: skip
        return len(bundle.encode(text))

    def text(self, text: str) -> int:
        """Return the tokens of a text by itself."""
        if text not in self.known:
            self.known[text] = len(self.judge.bundle.encode_text(text))
        return self.known[text]

    def cost(self, message: Message) -> int:
        """Return what one message adds to a list: its render by itself, less what every render begins with.

        A template that wants a question or a call before it gets one, which is taken off again.
        """
        key = json.dumps(message, ensure_ascii=False, sort_keys=True)
        if key not in self.known:
            call = {"id": message.get("tool_call_id"), "type": "function", "function": {"name": "f", "arguments": {}}}
            asked = {"role": "assistant", "content": "", "tool_calls": [call]}
            for before in ([], [A_QUESTION], [A_QUESTION, asked]):
                try:
                    under = self.size(before) if before else self.head
                    self.known[key] = self.size([*before, message]) - under
                    break
                except CannotRender:
                    continue
            else:
                self.known[key] = self.text(json.dumps(message, ensure_ascii=False))
        return self.known[key]

    @cached_property
    def head(self) -> int:
        """Return what every render begins with, whatever the messages are."""
        try:
            return 2 * self.size([A_QUESTION]) - self.size([A_QUESTION, A_QUESTION])
        except CannotRender:
            return 0

    @property
    def fixed(self) -> int:
        """Return what tools, the beginning and the header of the answer take beside the messages."""
        probe = [*[dict(one) for one in self.dialogue.policy], A_QUESTION]
        return self.size(probe, tools=True, generate=True) - sum(map(self.cost, probe))


def ours(planner: Planner, *, conceded: bool) -> Trim:
    """The planner with nothing set up but the bundle, and concessions by name where the template needs them."""
    options = Options(concessions=tuple(CONCESSIONS) if conceded else ())

    def trim(task: Task) -> list[Message] | None:
        answer = planner.plan(
            messages=task.dialogue.messages, tools=list(task.dialogue.tools) or None, options=options,
            max_input_tokens=task.judge.window, reserved_output_tokens=task.judge.window - task.room - 1,
        )  # fmt: skip
        if not isinstance(answer, Plan):
            return None
        kept = sum(key.startswith("turn/") for key in answer.kept)
        return [dict(one) for one in task.dialogue.suffix(len(task.dialogue.turns) - kept)]

    return trim


def langchain(task: Task, *, best: bool) -> list[Message]:
    """`trim_messages` of langchain-core."""
    from langchain_core.messages import convert_to_messages, trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    given = task.messages()
    messages = convert_to_messages(task.messages())
    for place, message in enumerate(messages):
        message.id = str(place)
    if best:
        kept = trim_messages(
            messages, max_tokens=task.room - task.fixed, strategy="last", include_system=True, start_on="human",
            end_on=("human", "tool"), token_counter=lambda some: sum(task.cost(given[int(one.id)]) for one in some),
        )  # fmt: skip
    else:
        kept = trim_messages(messages, max_tokens=task.room, token_counter=count_tokens_approximately)
    return [given[int(message.id)] for message in kept]


def litellm(task: Task, *, best: bool) -> list[Message]:
    """`trim_messages` of litellm, which takes no counter."""
    from litellm.utils import trim_messages

    if best:
        return list(trim_messages(task.messages(), max_tokens=task.room - task.fixed, trim_ratio=1.0))
    return list(trim_messages(task.messages(), max_tokens=task.room))


def llama_index(task: Task, *, best: bool) -> list[Message]:
    """`ChatMemoryBuffer` of llama-index-core; the system message is kept apart, as its agents do."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    system, *given = task.messages()
    history = [ChatMessage(role=one["role"], content=one.get("content") or "", additional_kwargs={
        "place": place, **{key: one[key] for key in ("tool_calls", "tool_call_id", "name") if one.get(key)},
    }) for place, one in enumerate(given)]  # fmt: skip
    if best:
        memory = ChatMemoryBuffer.from_defaults(
            chat_history=history, token_limit=task.room, tokenizer_fn=task.judge.bundle.encode_text
        )
        kept = memory.get(initial_token_count=task.fixed + task.cost(system))
    else:
        kept = ChatMemoryBuffer.from_defaults(chat_history=history, token_limit=task.room).get()
    return [system, *(given[one.additional_kwargs["place"]] for one in kept)]


def ctx_compact(task: Task, *, best: bool) -> list[Message] | None:
    """`compact` of ctx-compact, which says itself whether its answer fits."""
    from ctx_compact import compact

    if not best:
        return list(compact(task.messages(), max_tokens=task.room).messages)
    found = compact(
        task.messages(), max_tokens=task.room - task.fixed, count_tokens=task.cost, keep_head=1, keep_tail=1
    )
    return list(found.messages) if found.fits else None


def agentfit(task: Task, *, best: bool) -> list[Message] | None:
    """`fit` of agentfit-py, which raises where nothing fits."""
    from agentfit import OverBudgetError, fit

    more = {"tokenizer": task.text, "overhead": 5, "preserve_last_n": 1} if best else {}
    try:
        return list(fit(task.messages(), max_tokens=task.room - (task.fixed if best else 0), **more).messages)
    except OverBudgetError:
        return None


def contextpaw(task: Task, *, best: bool) -> list[Message] | None:
    """`compact_messages` of contextpaw, which raises where it finds nothing to shorten."""
    from contextpaw import CalibratedCounter, TooLongToCompact, compact_messages

    count = task.text if best else CalibratedCounter().count
    try:
        return list(compact_messages(task.messages(), task.room - (task.fixed if best else 0), count)[0])
    except TooLongToCompact:
        return None


def convopack(task: Task, *, best: bool) -> list[Message]:
    """`Packer` of convopack, as it comes or with the model's tokenizer."""
    from convopack import Packer

    packer = Packer(budget=task.room - task.fixed, tokenizer=_PackerTokens(task)) if best else Packer(budget=task.room)
    return [{**one, "content": one.get("content") or ""} for one in packer.pack_openai(task.messages())]


class _PackerTokens:
    """The tokenizer port of convopack: blocks of text, calls and results."""

    name = "model"

    def __init__(self, task: Task) -> None:
        self.task = task

    def count(self, text: str) -> int:
        return self.task.text(text)

    count_text = count

    def count_message(self, message: Any) -> int:
        total = 5
        for block in message.content:
            if block.kind == "tool_use":
                called = {"name": block.name, "arguments": block.input}
                total += 25 + self.task.text(json.dumps(called, ensure_ascii=False))
            elif block.kind == "tool_result":
                plain = isinstance(block.content, str)
                total += 12 + self.task.text(block.content if plain else "".join(one.text for one in block.content))
            elif block.kind == "text":
                total += self.task.text(block.text)
        return total

    def count_messages(self, messages: Any) -> int:
        return sum(map(self.count_message, messages))


PEERS: dict[str, Callable[..., list[Message] | None]] = {
    "langchain trim_messages": langchain,
    "litellm trim_messages": litellm,
    "llama-index ChatMemoryBuffer": llama_index,
    "ctx-compact compact": ctx_compact,
    "convopack Packer": convopack,
    "agentfit fit": agentfit,
    "contextpaw compact_messages": contextpaw,
}
"""By name; each takes a task and `best`. langchain is in the extra `bench`, the others are installed by name."""
