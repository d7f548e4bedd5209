"""A growing tool-using chat in English and Chinese for the benchmarks, generated from a seed."""

from __future__ import annotations

import random
from typing import Any

_WORDS = (
    "the pump was closed again after a short test and pressure fell to 3.2 bar before we could read it "
    "请 检查 阀门 温度 报告 关闭 已经 完成 明天 上午 继续 维修 压力 正常 "
    "def read(path): return open(path).read() value = 17 if ok else None log/unit4.txt 2026-11-30T08:15 "
    "please note that room B12 stays locked until the caretaker signs the sheet"
).split()


class Chat:
    """Turns of one conversation; each turn's question is the request of the plan before it."""

    def __init__(self, seed: int = 5) -> None:
        """Start a chat whose every text follows from the seed."""
        self._random = random.Random(seed)
        self.tools = [self._tool(index) for index in range(4)]
        self.policy = self.text(120)

    def text(self, words: int) -> str:
        """Return a line of so many words."""
        return " ".join(self._random.choice(_WORDS) for _ in range(words))

    def _tool(self, index: int) -> dict[str, Any]:
        properties = {f"field_{place}": {"type": "string", "description": self.text(6)} for place in range(3)}
        return {
            "type": "function",
            "function": {
                "name": f"tool_{index}",
                "description": self.text(12),
                "parameters": {"type": "object", "properties": properties, "required": ["field_0"]},
            },
        }

    def question(self) -> str:
        """Return the next user text."""
        return self.text(self._random.randrange(15, 45))

    def answers(self, turn: int) -> list[dict[str, Any]]:
        """Return what follows the question of a turn: calls, results and the answer, as OpenAI messages."""
        out: list[dict[str, Any]] = []
        for step in range(self._random.choice((0, 0, 1, 1, 2))):
            call_id = f"call_{turn}_{step}"
            arguments = {"field_0": self.text(4), "field_1": str(self._random.randrange(999))}
            call = {
                "id": call_id,
                "type": "function",
                "function": {"name": f"tool_{step}", "arguments": arguments},
            }
            out.append({"role": "assistant", "content": self.text(6), "tool_calls": [call]})
            out.append({"role": "tool", "tool_call_id": call_id, "content": self.text(90)})
        out.append({"role": "assistant", "content": self.text(self._random.randrange(40, 120))})
        return out
