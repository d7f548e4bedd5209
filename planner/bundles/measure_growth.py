"""Measure how the output changes as a conversation grows: generation prompt, prefix, splice depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from planner.bundles.canaries import TOOLS, Canary, Message, Pen
from planner.bundles.subject import Subject
from planner.values.profile import TemplateProfile

Kind = str
DEEPEST = 3
_TURNS = 7


def grows(subject: Subject, profile: TemplateProfile) -> dict[str, Any]:
    """Return generation_prompt, append_stable and splice_depth."""
    chats = [_write(subject, kinds) for kinds in _plans(profile)]
    found = {
        "generation_prompt": _generation_prompt(subject, chats),
        "append_stable": _append_stable(subject, chats),
    }
    if subject.opening:
        # A chat need not have a policy; its head is then another one.
        chats.append(_write(replace(subject, opening=()), _plans(profile)[0]))
    return {**found, "splice_depth": _splice_depth(subject, chats)}


@dataclass(frozen=True, slots=True)
class Grown:
    """A chat as turns: `head` before them, `turns` whole, `asked` each turn as it is while it is still open.

    `starts` are the marks of the turns' own first words.
    """

    head: tuple[Message, ...]
    turns: tuple[tuple[Message, ...], ...]
    asked: tuple[tuple[Message, ...], ...]
    starts: tuple[str, ...]
    tools: tuple[Message, ...]

    def window(self, first: int, last: int) -> Canary:
        """Return turns first to last - 1 whole, then turn `last` as an open one."""
        messages = [*self.head, *(m for turn in self.turns[first:last] for m in turn), *self.asked[last]]
        return Canary(tuple(messages), {}, (), self.tools)


def _plans(profile: TemplateProfile) -> list[list[Kind]]:
    """List what the turns of each chat hold, mixing every shape the template carries.

    A kind is read letter by letter: a answer, c call, p two calls, t text beside, r reasoning; a capital is
    what the turn already holds while it is open.
    """
    plain = ["a", "ra", "a", "a", "ra", "a", "a"]
    plans = [plain, ["ra"] * _TURNS]
    if profile.neighbouring_users == "kept":
        plans.append(["a", "", "a", "ra", "", "a", "a"])
    if profile.tool_call == "kept" and profile.tool_result == "kept":
        many = "p" if profile.parallel_calls == "kept" else "c"
        beside = "tc" if profile.text_beside_call == "kept" else "c"
        plans += [
            ["a", "ca", "ra", f"{many}ca", "a", "rca", "a"],
            ["Ca", "a", f"R{many.upper()}a", "Ca", f"{beside}ra", "a", "RCca"],
            ["rca", "RCrCra", "a", f"{beside.upper()}a", "a", "a", "Ca"],
        ]
    return plans


def _write(subject: Subject, kinds: Sequence[Kind]) -> Grown:
    tools = any("c" in kind.lower() or "p" in kind.lower() for kind in kinds)
    pen = subject.pen(tools=tools)
    head = tuple(pen.messages)
    turns, asked, starts = [], [], []
    for kind in kinds:
        before = len(pen.messages)
        starts.append(f"qzv{pen.used + 1:03d}word")
        pen.say("user")
        waiting = len(pen.messages)
        _play(pen, kind)
        opened = "".join(letter for letter in kind if letter.isupper())
        if opened:
            waiting = before + 1 + _length(pen.messages[before + 1 :], len(opened.replace("R", "").replace("T", "")))
        turns.append(tuple(pen.messages[before:]))
        asked.append(tuple(pen.messages[before:waiting]))
    return Grown(head, tuple(turns), tuple(asked), tuple(starts), TOOLS if tools else ())


def _play(pen: Pen, kind: Kind) -> None:
    reasoning = text = False
    for letter in kind.lower():
        if letter == "r":
            reasoning = True
        elif letter == "t":
            text = True
        else:
            if letter == "a":
                pen.answer(reasoning=reasoning)
            else:
                pen.loop(calls=2 if letter == "p" else 1, text=text, reasoning=reasoning)
            reasoning = text = False


def _length(messages: Sequence[Message], loops: int) -> int:
    """Count the messages of the first so many answered calls."""
    seen = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            seen += 1
            if seen > loops:
                return index
    return len(messages)


def _generation_prompt(subject: Subject, chats: Sequence[Grown]) -> Literal["appended", "ignored", "rewrites"]:
    """Compare renders with and without add_generation_prompt, after a question and inside an open loop."""
    appended = False
    for chat in chats:
        for last in (0, 1, 2):
            canary = chat.window(0, last)
            asked, closed = subject.show(canary), subject.show(canary, generation=False)
            if asked is None or closed is None or asked == closed:
                continue
            if not asked.startswith(closed):
                return "rewrites"
            appended = True
    return "appended" if appended else "ignored"


def _append_stable(subject: Subject, chats: Sequence[Grown]) -> bool:
    """Tell whether every answered prompt, generation prompt and all, is a prefix of the next of its chat."""
    seen = False
    for chat in chats:
        before: str | None = None
        for last in range(len(chat.turns)):
            text = subject.show(chat.window(0, last))
            answered = last and chat.turns[last - 1][-1]["role"] == "assistant"
            if answered and before is not None and text is not None:
                seen = True
                if not text.startswith(before):
                    return False
            before = text
    return seen


def _splice_depth(subject: Subject, chats: Sequence[Grown]) -> int | None:
    """Return the smallest number of following turns that is enough, by replaying the splicing itself.

    For each depth the chats are planned turn after turn as the spliced speed does it: only the last turns are
    rendered, older slices are reused. The result must equal the whole render, for two starts of the window.
    """
    wholes: dict[tuple[int, int, int], str | None] = {}
    for depth in range(1, DEEPEST + 1):
        if all(_spliced(subject, index, chat, depth, wholes) for index, chat in enumerate(chats)):
            return depth if any(text is not None for (_, _, last), text in wholes.items() if last > 1) else None
    return None


def _spliced(
    subject: Subject, index: int, chat: Grown, depth: int, wholes: dict[tuple[int, int, int], str | None]
) -> bool:
    frozen: dict[int, str] = {}
    for last in range(len(chat.turns)):
        tail = max(0, last - depth)
        text = subject.show(chat.window(tail, last))
        slices = None if text is None else _slices(text, chat.starts[tail : last + 1])
        starts = sorted({0, last // 2, last})
        for first in starts:
            key = (index, first, last)
            if key not in wholes:
                wholes[key] = subject.show(chat.window(first, last))
        if slices is None:
            if all(wholes[index, first, last] is None for first in starts):
                continue
            return False
        head, *owned, end = slices
        frozen.update(zip(range(tail, last), owned, strict=True))
        for first in starts:
            older = [frozen.get(turn, "") for turn in range(first, last)]
            if "".join((head, *older, end)) != wholes[index, first, last]:
                return False
    return True


def _slices(text: str, starts: Sequence[str]) -> list[str] | None:
    """Cut a text before the first occurrence of each mark, None where they do not stand in this order."""
    cuts = [text.find(mark) for mark in starts]
    if -1 in cuts or cuts != sorted(cuts):
        return None
    edges = [0, *cuts, len(text)]
    return [text[left:right] for left, right in pairwise(edges)]
