"""The 66 benchmark dialogues of peers.md §5: 36 generated, 30 chained airline sessions.

The texts come from the data beside the checkout (`../shared/corpora`); the two scripts there define how
they are made, so this module loads them and adds nothing but shapes.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.twin import turn_starts

Message = dict[str, Any]
GENERATED, SESSIONS = 36, 30


@dataclass(frozen=True)
class Dialogue:
    """One dialogue: `messages` begin with the system message; `point` is "user" or "tool"."""

    id: str
    point: str
    messages: tuple[Message, ...]
    tools: tuple[Any, ...]

    @property
    def policy(self) -> list[Message]:
        """The leading system message."""
        return [dict(self.messages[0])]

    @property
    def turns(self) -> list[list[Message]]:
        """Messages per turn, oldest first; the last one is the open turn."""
        starts = [*turn_starts(self.messages), len(self.messages)]
        return [list(self.messages[a:b]) for a, b in pairwise(starts)]

    def suffix(self, first: int) -> list[Message]:
        """Policy and the turns from `first` on."""
        return self.policy + [message for turn in self.turns[first:] for message in turn]


def sessions(head: dict[str, Any], rows: Sequence[dict[str, Any]], total: int = SESSIONS) -> list[Dialogue]:
    """Chain single-task trajectories into long sessions, as measure_trimmers.py does.

    Call ids become unique within a session; the closing word of a chained trajectory has no answer and is
    left out; the last trajectory is cut at 70 % of its user (every fourth session: tool) messages.
    """
    made = []
    for number in range(total):
        length = (1, 2, 3, 4, 6, 8)[number % 6]
        messages: list[Message] = []
        for step in range(length):
            part = _renamed(rows[(number * 3 + step * 7) % len(rows)]["messages"], step)
            if step < length - 1:
                if part[-1]["role"] == "user":
                    part.pop()
            else:
                wanted = "tool" if number % 4 == 3 else "user"
                places = [at for at, item in enumerate(part) if item["role"] == wanted]
                places = places or [at for at, item in enumerate(part) if item["role"] == "user"]
                part = part[: places[int(len(places) * 0.7)] + 1]
            messages += part
        system = {"role": "system", "content": head["system"]}
        made.append(Dialogue(
            f"tau-{number:03d}", messages[-1]["role"], (system, *messages), tuple(head["tools"])
        ))  # fmt: skip
    return made


def _renamed(messages: Sequence[Message], step: int) -> list[Message]:
    """Copy a trajectory with call ids of its own: s<step>c<number>."""
    names: dict[str, str] = {}
    total, part = 0, []
    for message in deepcopy(list(messages)):
        for item in message.get("tool_calls") or ():
            total += 1
            names[item["id"]] = f"s{step}c{total}"
            item["id"] = names[item["id"]]
        if message["role"] == "tool":
            message["tool_call_id"] = names.get(message["tool_call_id"], message["tool_call_id"])
        part.append(message)
    return part


def load(shared: Path) -> list[Dialogue]:
    """Return the 66 dialogues, the generated ones first."""
    corpora = shared / "corpora"
    maker = runpy.run_path(str(corpora / "make_dialogues.py"))
    made = []
    for number in range(GENERATED):
        raw = maker["dialogue"](number)
        system = {"role": "system", "content": raw["system"]}
        made.append(Dialogue(raw["id"], raw["point"], (system, *raw["messages"]), tuple(raw["tools"])))
    head = json.loads((corpora / "tau_airline_head.json").read_text(encoding="utf-8"))
    lines = (corpora / "tau_airline.jsonl").read_text(encoding="utf-8").splitlines()
    return made + sessions(head, [json.loads(line) for line in lines])


def without_tools(dialogue: Dialogue) -> Dialogue:
    """Take tools out: per turn the user text and the final answer, neighbouring user texts joined."""
    messages: list[Message] = dialogue.policy
    for turn in dialogue.turns:
        text = turn[0]["content"]
        if messages[-1]["role"] == "user":
            messages[-1] = {"role": "user", "content": messages[-1]["content"] + "\n\n" + text}
        else:
            messages.append({"role": "user", "content": text})
        last = turn[-1]
        if last["role"] == "assistant" and not last.get("tool_calls") and last.get("content"):
            messages.append({"role": "assistant", "content": last["content"]})
    return replace(dialogue, point="user", messages=tuple(messages), tools=())
