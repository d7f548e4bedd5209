"""Deterministic conversations in the OpenAI shape: many scripts, tools, parallel calls, odd whitespace.

Every generated string (text, tool name, description, property name, argument value) carries a marker word
of its own, so a judge never takes one piece for another. Content is clean: no control string of any
known family. The generator asserts its own coverage.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
_WORDS_BY_LINE = {
    "english": "ledger window garden signal recipe margin station battery review draft torque kettle",
    "chinese": "预算 窗口 花园 信号 菜谱 余量 车站 电池 评审 草稿 扭矩 水壶 不要删除 今天下午",
    "arabic": "الميزانية النافذة الحديقة إشارة وصفة هامش محطة بطارية مراجعة مسودة",
    "thai": "งบประมาณ หน้าต่าง สวน สัญญาณ สูตรอาหาร ระยะขอบ สถานี แบตเตอรี่ ทบทวน",
    "hindi": "बजट खिड़की बगीचा संकेत विधि हाशिया स्टेशन बैटरी समीक्षा मसौदा",
    "emoji": "👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇨🇳 ❤️‍🔥 🧑🏿‍🚀 1️⃣ 🙂 ⚠️",
    "combining": "cafe\u0301 n\u0303o A\u030aland Vie\u0323\u0302t",
}
WORDS: dict[str, list[str]] = {
    **{name: line.split(" ") for name, line in _WORDS_BY_LINE.items()},
    "code": ["def f(x):\n    return x * 2", "if (a < b && c >= d) { i++; }", "SELECT * FROM t WHERE k = 'v';",
             "```py\nprint(f\"{x!r}\")\n```", "\tfor i in range(3):\n\t\tpass", "#include <stdio.h>",
             "a\\b\\n", "{\"k\": [1, 2.5, null]}", "<div class=\"x\">&amp;</div>"],
    "crlf": ["one line\r\nanother line", "tail\r\n\r\nhead", "a\r\n\tb"],
    "tabs": ["col\tcol\t\tcol", "\tindented\t", "x\t \ty"],
}  # fmt: skip
SCRIPTS = tuple(WORDS)
EDGES = ("  ", "\n", "\n\n", " \t", "\t\t", "\r\n", "   \n", "\n    ", " ", "\n\n\n ")
CONTROL_SHAPES = (
    "<|", "|>", "<｜", "｜>", "[INST", "[/INST", "[TOOL", "[/TOOL", "[AVAIL", "<s>", "</s>", "<bos>", "<eos>",
    "<unk>", "<pad>", "<start_of", "<end_of", "<think", "</think", "<tool", "</tool", "<<SYS", "<</SYS",
)  # fmt: skip
SHAPES = (
    "plain", "whitespace", "unanswered", "reasoning", "tools", "parallel", "text_beside_call", "empty_result",
    "open_loop", "open_parallel", "null_content", "mixed",
)  # fmt: skip
PLAIN_SHAPES = ("plain", "whitespace", "unanswered", "reasoning")
MINIMUM = 5


@dataclass(frozen=True)
class Conversation:
    """One generated conversation; `features` are what it was counted for in the coverage."""

    id: str
    shape: str
    messages: tuple[Message, ...]
    tools: tuple[Any, ...]
    features: frozenset[str]

    @property
    def open_loop(self) -> bool:
        """True if the list ends inside a tool loop."""
        return bool(self.messages[-1]["role"] == "tool")


class Writer:
    """Writes texts, each with its own marker word; remembers which features were used."""

    def __init__(self, random_: random.Random, label: str) -> None:
        self.random, self._label, self._next = random_, label, 0
        self.features: set[str] = set()

    def mark(self) -> str:
        """Return a marker word that no other string of this run carries."""
        self._next += 1
        return f"mk{self._label}x{self._next:04d}q"

    def text(self, length: int = 12, *, edges: bool = False, script: str | None = None) -> str:
        """Return about `length` words in one or two scripts, with a marker word inside."""
        random_ = self.random
        chosen = [script or random_.choice(SCRIPTS), random_.choice(SCRIPTS)]
        parts = []
        for _ in range(random_.randint(max(2, length // 3), length)):
            name = random_.choice(chosen)
            self.features.add(name)
            parts.append(random_.choice(WORDS[name]))
        parts.insert(random_.randint(0, len(parts)), self.mark())
        text = ""
        for part in parts:
            text += part + random_.choice([" ", " ", " ", "  ", ", ", "。", "\n", ". "])
        text = text.strip()
        if edges:
            text = random_.choice(EDGES) + text + random_.choice(EDGES)
            self.features.add("whitespace_both_ends")
        return text

    def name(self) -> str:
        """Return a tool or property name."""
        return f"{self.random.choice(['find', 'read', 'set', 'list'])}_{self.mark()}"

    def tool(self) -> dict[str, Any]:
        """Return a function tool with one to four described parameters, one sometimes an enumeration."""
        properties: dict[str, Any] = {}
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(["string", "string", "integer", "boolean", "array", "enum"])
            described = {"description": self.text(5)}
            if kind == "enum":
                properties[self.name()] = {"type": "string", "enum": [self.mark(), self.mark()], **described}
            elif kind == "array":
                properties[self.name()] = {"type": "array", "items": {"type": "string"}, **described}
            else:
                properties[self.name()] = {"type": kind, **described}
        return {"type": "function", "function": {
            "name": self.name(), "description": self.text(8),
            "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]},
        }}  # fmt: skip

    def _value(self, schema: dict[str, Any]) -> Any:
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        values: dict[str, Callable[[], Any]] = {
            "string": lambda: self.text(4, edges=self.random.random() < 0.1),
            "integer": lambda: self.random.randint(-5, 10**6),
            "boolean": lambda: self.random.random() < 0.5,
            "array": lambda: [self.text(2) for _ in range(self.random.randint(0, 3))],
        }
        return values[schema["type"]]()

    def call(self, tools: Sequence[Any]) -> dict[str, Any]:
        """Return a call of one of the tools; arguments are text or an object, ids long or nine long."""
        function = self.random.choice(tools)["function"]
        arguments = {key: self._value(schema) for key, schema in function["parameters"]["properties"].items()}
        as_text = self.random.random() < 0.5
        self.features.add("arguments_text" if as_text else "arguments_object")
        dumped = json.dumps(arguments, ensure_ascii=self.random.random() < 0.2) if as_text else arguments
        number = f"{self.random.randrange(10**8):08d}"
        call_id = self.random.choice([f"c{number}", f"call_{self.mark()}"])
        return {"id": call_id, "type": "function",
                "function": {"name": function["name"], "arguments": dumped}}  # fmt: skip


def _loop(writer: Writer, tools: Sequence[Any], shape: str, parallel: int = 1) -> list[Message]:
    """One assistant message with `parallel` calls, and a result for each."""
    random_ = writer.random
    if shape == "mixed" and random_.random() < 0.5:
        parallel = random_.randint(2, 4)
    calls = [writer.call(tools) for _ in range(parallel)]
    if parallel > 1:
        writer.features.add(f"parallel_{len(calls)}")
    content: str | None = ""
    if shape == "text_beside_call" or (shape == "mixed" and random_.random() < 0.5):
        content = writer.text(8, edges=random_.random() < 0.2)
        writer.features.add("text_beside_call")
    elif shape == "null_content":
        content = None
        writer.features.add("null_content")
    message: Message = {"role": "assistant", "content": content, "tool_calls": calls}
    if shape == "open_loop" or (shape == "mixed" and random_.random() < 0.5):
        message["reasoning_content"] = writer.text(10)
        writer.features.add("reasoning_beside_call")
    messages = [message]
    for item in calls:
        empty = shape == "empty_result" or (shape == "mixed" and random_.random() < 0.2)
        if empty:
            writer.features.add("empty_result")
        as_json = random_.random() < 0.4
        text = json.dumps({writer.mark(): writer.text(6)}, ensure_ascii=False) if as_json else writer.text(14)
        messages.append({"role": "tool", "tool_call_id": item["id"], "name": item["function"]["name"],
                         "content": "" if empty else text})  # fmt: skip
    return messages


def _sizes(writer: Writer, shape: str) -> list[int]:
    """Calls per loop: two, three and four in some order where the shape is about parallel calls."""
    if shape in {"parallel", "open_parallel"}:
        return writer.random.sample([2, 3, 4], 3)
    return [1] * writer.random.choice([1, 1, 2])


def _turn(writer: Writer, tools: Sequence[Any], shape: str) -> list[Message]:
    """A completed turn in the given shape."""
    edges = shape == "whitespace" or (shape == "mixed" and writer.random.random() < 0.3)
    messages: list[Message] = [{"role": "user", "content": writer.text(edges=edges)}]
    if shape == "unanswered":
        writer.features.add("unanswered_question")
        return messages
    if tools and shape not in PLAIN_SHAPES and shape not in {"open_loop", "open_parallel"}:
        for parallel in _sizes(writer, shape):
            messages += _loop(writer, tools, shape, parallel)
    answer: Message = {"role": "assistant", "content": writer.text(16, edges=edges)}
    if shape in {"reasoning", "mixed"}:
        answer["reasoning_content"] = writer.text(10, edges=edges)
        writer.features.add("reasoning")
    return [*messages, answer]


def conversation(seed: int, number: int, shape: str) -> Conversation:
    """Return conversation `number` of a seed in one shape; always the same for the same arguments."""
    random_ = random.Random(f"{seed}/{number}/{shape}")
    writer = Writer(random_, str(number))
    script = SCRIPTS[number % len(SCRIPTS)]
    tools = [] if shape in PLAIN_SHAPES else [writer.tool() for _ in range(random_.randint(1, 3))]
    system = writer.text(20, edges=shape == "whitespace", script=script)
    messages: list[Message] = [{"role": "system", "content": system}] if random_.random() < 0.9 else []
    older = random_.randint(1, 4)
    with_shape = random_.randrange(older)
    for at in range(older):
        messages += _turn(writer, tools, shape if at == with_shape or random_.random() < 0.3 else "plain")
    messages.append({"role": "user", "content": writer.text(edges=shape == "whitespace", script=script)})
    if shape in {"open_loop", "open_parallel"} or (shape == "mixed" and random_.random() < 0.5):
        writer.features.add("open_loop")
        for parallel in _sizes(writer, shape):
            messages += _loop(writer, tools, shape, parallel)
    made = Conversation(
        f"{shape}-{number}", shape, tuple(messages), tuple(tools), frozenset(writer.features)
    )  # fmt: skip
    whole = json.dumps([messages, tools], ensure_ascii=False)
    found = [mark for mark in CONTROL_SHAPES if mark in whole]
    assert not found, f"a control string in clean content: {found}"
    return made


def generate(total: int = 60, seed: int = 20261130, *, tools: bool = True) -> list[Conversation]:
    """Return `total` conversations that go through the shapes in turn.

    tools=False gives only shapes without tools. Raises AssertionError if the coverage of a batch of sixty
    or more is too thin (see `required_features`).
    """
    shapes = SHAPES if tools else PLAIN_SHAPES
    made = [conversation(seed, number, shapes[number % len(shapes)]) for number in range(total)]
    if total >= 60:
        counts = coverage(made)
        thin = {name: counts[name] for name in required_features(tools=tools) if counts[name] < MINIMUM}
        assert not thin, f"coverage too thin: {thin}"
    return made


def required_features(*, tools: bool = True) -> tuple[str, ...]:
    """Name what at least five of sixty conversations must hold."""
    always = (*SCRIPTS, "whitespace_both_ends", "reasoning", "unanswered_question")
    if not tools:
        return always
    return (
        *always, "parallel_2", "parallel_3", "parallel_4", "empty_result", "open_loop", "text_beside_call",
        "null_content", "arguments_text", "arguments_object", "reasoning_beside_call",
    )  # fmt: skip


def coverage(made: Sequence[Conversation]) -> Counter[str]:
    """Count the conversations that hold each feature."""
    return Counter(feature for item in made for feature in item.features)
