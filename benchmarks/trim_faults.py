"""What is wrong with the messages a trimmer gives back, judged by render and tokenizer alone (peers.md §5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.trimmers import Message, Task
from tests.support.judge import Finding
from tests.support.reference import CannotRender

FAULTS = (
    "over limit", "template refuses", "text lost", "unpaired", "not user first", "partial turn", "request lost",
    "open turn cut", "system lost", "body rewritten", "cut though fits", "a turn that fits was cut",
    "answered what cannot be", "refused without need",
)  # fmt: skip


def faults(task: Task, right: Finding, out: Sequence[Message] | None) -> tuple[set[str], int]:
    """Return the faults of an answer and its tokens; a refusal is right where nothing can be answered."""
    if out is None:
        return (set() if right.outcome != "clean" else {"refused without need"}), 0
    found = set() if right.outcome == "clean" else {"answered what cannot be"}
    tokens = 0
    try:
        framed = task.framed([dict(one) for one in out])
        tokens = len(task.judge.ids(framed, task.dialogue.tools))
        if not task.judge.verdict(framed, task.dialogue.tools).carried:
            found.add("text lost")
    except (CannotRender, KeyError, TypeError, AttributeError):
        found.add("template refuses")
    found |= {"over limit"} if tokens > task.room else set()
    kept = [_key(one) for one in out]
    return found | _shape(out) | _against(task, kept, right), tokens


def _key(message: Message) -> tuple[str, str, str]:
    calls = [
        (call["function"]["name"], _object(call["function"]["arguments"])) for call in message.get("tool_calls") or ()
    ]
    return message["role"], message.get("content") or "", json.dumps(calls, ensure_ascii=False, sort_keys=True)


def _object(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _shape(out: Sequence[Message]) -> set[str]:
    found: set[str] = set()
    body = [one for one in out if one["role"] != "system"]
    if not body or body[0]["role"] != "user":
        found.add("not user first")
    waiting: set[str] = set()
    for one in body:
        if one["role"] == "tool":
            if one.get("tool_call_id") not in waiting:
                found.add("unpaired")
            waiting.discard(str(one.get("tool_call_id")))
            continue
        if waiting:
            found.add("unpaired")
        waiting = {call["id"] for call in one.get("tool_calls") or ()}
    # Results of the last calls may still be on their way only where nothing is asked of the model yet.
    return found | ({"unpaired"} if waiting else set())


def _against(task: Task, kept: list[tuple[str, str, str]], right: Finding) -> set[str]:
    """Compare with the dialogue; equal messages are taken to be the newest of their kind, in order."""
    source = [_key(one) for one in task.dialogue.messages]
    found: set[str] = set()
    policy = len(task.dialogue.policy)
    places: set[int] = set()
    at = len(source) - 1
    for key in reversed(kept):
        here = at
        while here >= 0 and source[here] != key:
            here -= 1
        if here >= 0:
            places.add(here)
            at = here - 1
        elif key not in source:
            found.add("body rewritten")
    if not set(range(policy)) <= places:
        found.add("system lost")
    begin, first = policy, None
    for number, turn in enumerate(task.dialogue.turns):
        have = sum(place in places for place in range(begin, begin + len(turn)))
        if 0 < have < len(turn):
            found.add("partial turn")
        if have and first is None:
            first = number
        last, begin = begin, begin + len(turn)
    if last not in places:
        found.add("request lost")
    if any(place not in places for place in range(last, len(source))):
        found.add("open turn cut")
    if right.whole and kept != source:
        found.add("cut though fits")
    elif right.first is not None and (first is None or first > right.first):
        found.add("a turn that fits was cut")
    return found
