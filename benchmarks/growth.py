"""A conversation that grows over the benchmark's chat: our plans, timed, and what each of them kept."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chat import Chat
from planner.conversation import Conversation
from planner.planner import Planner
from planner.values.bundle import Bundle
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Message, ToolCall, ToolResult, Turn

RESERVE_TOKENS = 512


def as_turn(index: int, question: str, answers: list[dict[str, Any]]) -> Turn:
    """Return a completed turn of OpenAI messages."""
    messages = [Message(role="user", id=f"m{index}.0", text=question)]
    for place, entry in enumerate(answers, 1):
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in entry.get("tool_calls", ())
        )
        result = ToolResult(entry["tool_call_id"], entry["content"]) if entry["role"] == "tool" else None
        text = None if result else entry["content"]
        messages.append(
            Message(role=entry["role"], id=f"m{index}.{place}", text=text, tool_calls=calls, tool_result=result)
        )
    return Turn(id=f"t{index}", sequence=10 * index + 1, state="completed", messages=tuple(messages))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what the work gives and the CPU milliseconds of this thread."""
    start = time.thread_time()
    out = work()
    return out, (time.thread_time() - start) * 1e3


@dataclass(frozen=True)
class Planned:
    """One plan: its time, its ids, the turns it kept and the question it asked."""

    cpu_ms: float
    ids: array[int] = field(repr=False)
    kept: tuple[str, ...] = field(repr=False)
    question: str = field(repr=False)
    messages_before: int
    cut_moved: bool
    diagnostics: dict[str, Any]


class Growth:
    """One planner's conversation at one window and speed; `messages` holds every turn in the OpenAI shape."""

    def __init__(self, bundle: Bundle, window: int, speed: str, cache_bytes: int | None = None) -> None:
        """Start with no turn; `speed` is certified or spliced."""
        self.planner = Planner(bundle, cache_bytes=cache_bytes)
        self.planner.encoder().splicing = speed == "spliced"
        self.conversation: Conversation = self.planner.conversation()
        self.window = window
        self.chat = Chat()
        self.tools = tuple(Tool(tool["function"]["name"], tool) for tool in self.chat.tools)
        self.policy = (TextItem("rules", self.chat.policy),)
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.question = self.chat.question()
        self.characters = 0
        self.count = 0
        self._first: str | None = None

    def append(self) -> None:
        """Answer the question and ask the next."""
        index = len(self.messages)
        answers = self.chat.answers(index)
        turn = as_turn(index, self.question, answers)
        self.messages[turn.id] = [{"role": "user", "content": self.question}, *answers]
        self.conversation.append(turn)
        self.count += len(turn.messages)
        self.characters += sum(len(message.words()) for message in turn.messages)
        self.question = self.chat.question()

    def plan(self) -> Planned:
        """Plan the question that waits, timed."""
        request = PlanRequest(
            model_bundle_id=self.planner.bundle_id, max_input_tokens=self.window,
            reserved_output_tokens=RESERVE_TOKENS, policy=self.policy, tools=self.tools,
            request=CurrentRequest(id="q", text=self.question),
        )  # fmt: skip
        answer, cpu_ms = timed(lambda: self.conversation.plan(request))
        if not isinstance(answer, Plan):
            raise SystemExit(answer.line())
        kept = tuple(key[5:] for key in answer.kept if key[5:] in self.messages)
        first = kept[0] if kept else None
        moved, self._first = first != self._first, first
        return Planned(cpu_ms, answer.ids, kept, self.question, self.count, moved, dict(answer.diagnostics))

    def go(self, turns: int) -> Iterator[Planned]:
        """Plan, then append, so many times."""
        for _ in range(turns):
            yield self.plan()
            self.append()
