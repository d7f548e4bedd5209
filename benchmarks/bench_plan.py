"""Time plans of a growing conversation against doing it plainly, in one process and run.

    python benchmarks/bench_plan.py [--bundle qwen3-0.6b] [--turns 200] [--windows 8192 32768] [--json OUT.json]

Figures are CPU time of the thread, as ratios to peers that work on the same window: a plain render by
transformers' compiled template with one encode of the whole text, and, where it is installed, LangChain's
`trim_messages` with an exact counter over the whole list. Every plan's ids are compared with the plain ones.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chat import Chat
from planner.bundles.open import open_bundle
from planner.conversation import Conversation
from planner.planner import Planner
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
    """Return what the work gives and its CPU milliseconds."""
    start = time.thread_time()
    out = work()
    return out, (time.thread_time() - start) * 1e3


class Run:
    """One growing conversation at one window, with its peers."""

    def __init__(self, bundle_id: str, window: int, speed: str) -> None:
        from transformers.utils.chat_template_utils import _compile_jinja_template

        self.bundle = open_bundle(bundle_id)
        self.planner = Planner(self.bundle)
        self.encoder = self.planner.encoder()
        self.encoder.splicing = speed == "spliced"
        self.conversation: Conversation = self.planner.conversation()
        self.template = _compile_jinja_template(self.bundle.template_source)
        self.window = window
        self.chat = Chat()
        self.tools = tuple(Tool(tool["function"]["name"], tool) for tool in self.chat.tools)
        self.policy = (TextItem("rules", self.chat.policy),)
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.bundle.engine.encode_parsed("warm")

    def request(self, question: str) -> PlanRequest:
        """Return the request for a question."""
        return PlanRequest(
            model_bundle_id=self.bundle.manifest.id, max_input_tokens=self.window,
            reserved_output_tokens=RESERVE_TOKENS, policy=self.policy, tools=self.tools,
            request=CurrentRequest(id="q", text=question),
        )  # fmt: skip

    def plain(self, kept: list[str], question: str) -> list[int]:
        """Render and encode the same window as anybody would."""
        messages = [{"role": "system", "content": self.chat.policy}]
        for turn_id in kept:
            messages += self.messages[turn_id]
        messages.append({"role": "user", "content": question})
        text = self.template.render(
            messages=messages, tools=self.chat.tools, add_generation_prompt=True, **self.bundle.manifest.variables
        )
        return list(self.bundle.engine.encode_parsed(text))

    def go(self, turns: int, warm: int) -> dict[str, Any]:
        """Plan every turn; figures are of the turns after `warm`."""
        rows: list[dict[str, Any]] = []
        question = self.chat.question()
        first_before: str | None = None
        for index in range(turns):
            request = self.request(question)
            plan, ours = timed(lambda request=request: self.conversation.plan(request))  # type: ignore[misc]
            if not plan.accepted:
                raise SystemExit(plan.line())
            kept = [key[5:] for key in plan.kept if key.startswith("turn/t") and key[5:] in self.messages]
            ids, peer = timed(lambda kept=kept, question=question: self.plain(kept, question))  # type: ignore[misc]
            first = kept[0] if kept else None
            rows.append(
                {
                    "ours_ms": ours, "peer_ms": peer, "equal": list(plan.ids) == ids, "ids": len(ids),
                    "cut_moved": first != first_before, **plan.diagnostics,
                }
            )  # fmt: skip
            first_before = first
            answers = self.chat.answers(index)
            self.messages[f"t{index}"] = [{"role": "user", "content": question}, *answers]
            self.conversation.append(as_turn(index, question, answers))
            question = self.chat.question()
        return summary(rows[warm:], rows)


def summary(rows: list[dict[str, Any]], everything: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians, tails, ratios and counters."""
    ours = sorted(row["ours_ms"] for row in rows)
    ratio = statistics.median(row["peer_ms"] for row in rows) / statistics.median(ours)
    groups = {
        name: [row["ours_ms"] for row in rows if row["cut_moved"] == moved]
        for name, moved in (("append", False), ("cut_moving", True))
    }
    return {
        "plans": len(rows),
        "different_ids": sum(not row["equal"] for row in everything),
        "ids": rows[-1]["ids"],
        "ours_ms_p50": statistics.median(ours),
        "ours_ms_p99": ours[min(len(ours) - 1, int(len(ours) * 0.99))],
        "peer_ms_p50": statistics.median(row["peer_ms"] for row in rows),
        "ratio": ratio,
        **{f"{name}_ms_p50": statistics.median(found) for name, found in groups.items() if found},
        "renders_mean": statistics.mean(row["renders"] for row in rows),
        "renders_max": max(row["renders"] for row in rows),
        "speeds": sorted({row["speed"] for row in rows}),
        "characters_rendered": statistics.median(row["characters_rendered"] for row in rows),
        "characters_encoded": statistics.median(row["characters_encoded"] for row in rows),
    }


def main() -> None:
    """Run every speed at every window and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bundle", default="qwen3-0.6b")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--windows", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    out: dict[str, Any] = {"bundle": chosen.bundle, "turns": chosen.turns}
    for window in chosen.windows:
        for speed in ("certified", "spliced"):
            gc.collect()
            out[f"{speed}_{window}"] = Run(chosen.bundle, window, speed).go(chosen.turns, chosen.turns // 2)
    text = json.dumps(out, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
