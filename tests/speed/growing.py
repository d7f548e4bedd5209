"""A random chat that grows, driven through two conversations at once: certified and spliced (design.md §4.8).

Every plan's ids are compared with those of the whole speed: the framed inputs of the kept rung, rendered plainly
and encoded in one call, without tracked strings, runs or caches.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from planner.conversation import Conversation
from planner.encoding.tracked import own
from planner.encoding.whole import encode_whole
from planner.planner import Planner
from planner.steps.frame import Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.framing import Framing
from planner.steps.layer import layer
from planner.values.bundle import Bundle
from planner.values.plan import Plan, Refusal
from planner.values.profile import TemplateProfile
from planner.values.prompt import TemplateInputs
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.rung import History, Selection
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.support.conversations import Writer

RESERVE_TOKENS = 16
WINDOWS = (700, 1_500, 3_000, 20_000)


class Pen:
    """Writes turns in every shape a template carries, each string with a word of its own."""

    def __init__(self, random_: random.Random, profile: TemplateProfile, *, tools: bool) -> None:
        self.random = random_
        self.writer = Writer(random_, str(random_.randrange(10**6)))
        self.made = 0
        carried = profile.tools == profile.tool_call == profile.tool_result == "kept"
        self.profile = profile
        self.tools: list[Any] = [self.writer.tool() for _ in range(3)] if carried and tools else []

    def _message(self, role: str, **fields: Any) -> Message:
        self.made += 1
        return Message(role=role, id=f"m{self.made}", **fields)  # type: ignore[arg-type]

    def question(self) -> Message:
        """Return a user message."""
        return self._message("user", text=self.writer.text(self.random.choice((6, 12, 40)), edges=self._rarely()))

    def answer(self) -> Message:
        """Return a final answer, sometimes with reasoning."""
        reasoning = self.writer.text(8) if self._rarely() and self.profile.reasoning == "passed" else None
        return self._message("assistant", text=self.writer.text(30, edges=self._rarely()), reasoning=reasoning)

    def loop(self) -> list[Message]:
        """Return one message with calls and a result for each, nothing where the template carries no calls."""
        if not self.tools:
            return []
        most = 3 if self.profile.parallel_calls == "kept" else 1
        raw = [self.writer.call(self.tools) for _ in range(self.random.randint(1, most))]
        calls = tuple(
            ToolCall(f"c{self.made}x{at}", one["function"]["name"], one["function"]["arguments"])
            for at, one in enumerate(raw)
        )
        beside = self.profile.text_beside_call == "kept" and self.random.random() < 0.5
        asked = self._message("assistant", text=self.writer.text(5) if beside else "", tool_calls=calls)
        results = [
            self._message("tool", tool_result=ToolResult(call.id, self.writer.text(self.random.choice((4, 60)))))
            for call in calls
        ]
        return [asked, *results]

    def _rarely(self) -> bool:
        return self.random.random() < 0.2


class Growing:
    """One chat in two conversations; `plan` compares the three speeds."""

    def __init__(
        self, bundle: Bundle, seed: str, *, policy: bool = True, tools: bool = True, cache_bytes: int | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.bundle = bundle
        self.pen = Pen(self.random, bundle.profile, tools=tools)
        self.planners = {name: Planner(bundle, cache_bytes=cache_bytes) for name in ("certified", "spliced")}
        self.planners["certified"].encoder().splicing = False
        self.conversations: dict[str, Conversation] = {
            name: planner.conversation() for name, planner in self.planners.items()
        }
        self.turns: dict[str, Turn] = {}
        self.speeds: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.different: list[str] = []
        self.policy = (TextItem("rules", self.pen.writer.text(20)),) if policy else ()
        self.tools = tuple(Tool(f"tool{at}", tool) for at, tool in enumerate(self.pen.tools))
        self.windows: tuple[int, ...] = WINDOWS
        self._first: str | None = None

    def put(self, turn: Turn) -> None:
        """Append a turn to both conversations, or replace it there."""
        for conversation in self.conversations.values():
            conversation.replace(turn) if turn.id in self.turns else conversation.append(turn)
        self.turns[turn.id] = turn

    def _next(self, *messages: Message, state: Any = "completed") -> Turn:
        number = len(self.turns) + 1
        return Turn(f"t{number}", 10 * number, state, messages)

    def step(self) -> None:
        """Go on by one turn: a plain exchange, an agent's loop planned at every call, or a withdrawn turn."""
        if self.random.random() < 0.4 and self.pen.tools:
            turn = self._next(self.pen.question(), state="open")
            self.put(turn)
            self.plan(None)
            for _ in range(self.random.randint(1, 2)):
                turn = replace(turn, messages=(*turn.messages, *self.pen.loop()))
                self.put(turn)
                self.seen["open turns"] += 1
                self.plan(None)
            self.put(replace(turn, state="completed", messages=(*turn.messages, self.pen.answer())))
        else:
            question = self.pen.question()
            self.plan(question.text)
            loop = self.pen.loop() if self.random.random() < 0.5 else []
            self.put(self._next(question, *loop, self.pen.answer()))
        closed = [turn for turn in self.turns.values() if turn.state == "completed"]
        if self.random.random() < 0.1 and len(closed) > 3:
            self.put(replace(self.random.choice(closed[-4:]), state="superseded"))
            self.seen["replaced turns"] += 1

    def request(self, question: str | None) -> PlanRequest:
        """Return a request of a random window."""
        return PlanRequest(
            self.bundle.manifest.id, CurrentRequest(id="q", text=question), policy=self.policy, tools=self.tools,
            max_input_tokens=self.random.choice(self.windows), reserved_output_tokens=RESERVE_TOKENS,
            safety_margin_tokens=0,
        )  # fmt: skip

    def plan(self, question: str | None) -> dict[str, Plan | Refusal]:
        """Plan once in each conversation; note which speeds were taken and where ids differ."""
        request = self.request(question)
        answers = {name: conversation.plan(request) for name, conversation in self.conversations.items()}
        certified, spliced = answers["certified"], answers["spliced"]
        if not (isinstance(certified, Plan) and isinstance(spliced, Plan)):
            assert certified.accepted == spliced.accepted
            self.seen["refusals"] += 1
            return answers
        whole = encode_whole(self.bundle, self.framed(request, certified))
        assert certified.diagnostics["speed"] == "certified"
        self.speeds["certified"] += 1
        self.speeds["spliced"] += spliced.diagnostics["speed"] == "spliced"
        first = next((key for key in certified.kept if key.startswith("turn/")), None)
        self.seen["cuts"] += certified.receipt.history_reduced is not None
        self.seen["moved cuts"] += first != self._first
        self._first = first
        if whole != certified.ids:
            self.different.append("certified")
        if whole != spliced.ids:
            self.different.append(str(spliced.diagnostics["speed"]))
        return answers

    def framed(self, request: PlanRequest, plan: Plan) -> TemplateInputs:
        """Return what the template gets for the turns a plan kept, framed anew."""
        kept = {key.partition("/")[2] for key in plan.kept if key.startswith("turn/")}
        own_id = plan.kept[-2].partition("/")[2]
        shown = [turn for turn in self.turns.values() if turn.id in kept and turn.state == "completed"]
        if request.request.text is None:
            asked = self.turns[own_id]
        else:
            asked = Turn(own_id, 10**6, "open", (Message("user", id="q", text=request.request.text),))
        layered = layer(request, History([turn for turn in shown if turn.id != own_id], (), asked))
        framing = Framing(self.bundle.profile, frozenset(self.bundle.manifest.concessions), own)
        return (
            Framer(layered, framing, {}, None, {}, FixedParts()).frame(Selection(tuple(layered.history.turns))).inputs
        )
