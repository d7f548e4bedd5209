"""Random chats that mistral-common accepts, with control strings in every text channel."""

from __future__ import annotations

import json
import random
from typing import Any

Chat = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]
CONTROL = (
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
)

WORDS = (
    "pump",
    "valve 3",
    "你好，请检查温度",
    "مرحبا",
    "สวัสดี",
    "नमस्ते",
    "👩‍🔧 done",
    "it's <b>&</b>",
    '"quoted"',
    "a\tb",
    "1,204.50",
    "\r\nline",
    "```python\nprint('x')\n```",
    "é",
    "back\\slash",
    "  two",
    "\n\n",
    *CONTROL,
    "<SPECIAL_20>",
)
RESULTS = (
    "22",
    "-0.5",
    "true",
    "null",
    "",
    '"text"',
    "[1, 2, 3]",
    '{"b": 1, "a": [null, "é"]}',
    "plain",
    "{broken",
    "1e3",
    " 7 ",
    "NaN",
)
ARGUMENTS = ('{"q": "你好", "n": 1}', '{ "a" : 1.50 }', "", "not json", '{"b":1,"a":2}', "[1]", '"s"')


class Writer:
    """Writes one random chat that mistral-common accepts."""

    def __init__(self, seed: int, plain_json: bool = False) -> None:
        self.random = random.Random(seed)
        self.plain_json = plain_json
        self.messages: list[dict[str, Any]] = []

    def text(self, ends: str = "") -> str:
        words = [self.random.choice(WORDS) for _ in range(self.random.randint(1, 6))]
        return " ".join(words) + f" m{self.random.randrange(10**6)}" + ends

    def call_id(self) -> str:
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        return "".join(self.random.choice(alphabet) for _ in range(9))

    def arguments(self) -> object:
        if self.plain_json or self.random.random() < 0.4:
            return json.dumps({"query": self.text(), "limit": 3}, ensure_ascii=False)
        return self.random.choice(ARGUMENTS)

    def result(self) -> str:
        if self.plain_json or self.random.random() < 0.3:
            return self.text()
        return self.random.choice(RESULTS)

    def tools(self) -> list[dict[str, Any]] | None:
        count = self.random.randint(0, 3)
        tools: list[dict[str, Any]] = []
        for number in range(count):
            function: dict[str, Any] = {
                "name": f"tool_{number}",
                "description": self.text(),
                "parameters": {
                    "type": "object",
                    "properties": {"q<é": {"type": "string", "description": self.text()}},
                },
            }
            if not self.plain_json and self.random.random() < 0.3:
                del function["description"]
            if not self.plain_json and self.random.random() < 0.3:
                function["strict"] = True
            tools.append({"type": "function", "function": function})
        return tools or None

    def tool_round(self, answered: bool = True) -> None:
        ids = [self.call_id() for _ in range(self.random.randint(1, 2))]
        calls = [
            {"id": name, "type": "function", "function": {"name": "tool_0", "arguments": self.arguments()}}
            for name in ids
        ]
        self.messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        self.random.shuffle(ids)
        for name in ids if answered else ids[:1]:
            self.messages.append({"role": "tool", "tool_call_id": name, "content": self.result()})

    def chat(self) -> Chat:
        for _ in range(self.random.randint(0, 3)):
            empty = not self.plain_json and self.random.random() < 0.1
            self.messages.append({"role": "system", "content": "" if empty else self.text()})
        turns = self.random.randint(0, 4)
        for turn in range(turns + 1):
            for _ in range(2 if self.random.random() < 0.15 else 1):
                self.messages.append({"role": "user", "content": self.text(self.random.choice(("", "  ", "\n")))})
            last = turn == turns
            rounds = self.random.randint(0, 2)
            for number in range(rounds):
                self.tool_round(answered=not (last and number == rounds - 1 and self.random.random() < 0.3))
            if not last:
                ends = self.random.choice(("", " ", "   ", "\n", " \n "))
                self.messages.append({"role": "assistant", "content": self.text(ends)})
        return self.messages, self.tools()
