"""Planning a dirty chat beside its inert twin, and what must hold of the two (threats.md §2.7).

A control id arises only where the template itself wrote the control string. So the control ids of a chat
that holds one anywhere in its content are those of the same chat with harmless letters in its place.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from planner.planner import Planner
from planner.values.bundle import Bundle
from tests.support.dirty import Planted, channels, dirty

WINDOW_TOKENS = 100_000
ROLES = {
    "policy": "system", "user": "user", "request": "user", "assistant": "assistant",
    "old_reasoning": "reasoning", "open_reasoning": "reasoning", "result": "tool", "open_result": "tool",
}  # fmt: skip


def harmless(text: str) -> str:
    """Return letters of the same length that stand nowhere else in the chat; its halves are unlike, too.

    >>> harmless("<|x|>")
    'qzkvj'
    """
    middle = len(text) // 2
    return ("qzx" * (middle + 1))[:middle] + ("kvj" * (middle + 1))[: len(text) - middle]


class Twins:
    """Plans dirty chats of one bundle; a twin is planned once and remembered."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.planner = bundle, Planner(bundle)
        self.guards = {token.id for token in bundle.manifest.control_tokens}
        profile = bundle.profile
        self.tools = (profile.tools, profile.tool_call, profile.tool_result) == ("kept",) * 3
        self.reasoning = profile.reasoning == "passed"
        self.beside = profile.text_beside_call == "kept"
        self.parsed = {(entry.role, entry.opener) for entry in profile.parsed_strings if not entry.closer}
        self._known: dict[str, Any] = {}
        self.open_loop = True
        if self.tools:
            plain = dirty("zz", "user", **self.shape)
            self.open_loop = self.plan(plain.inert_messages, plain.inert_tools).accepted
        self.planned = self.without_twin = 0

    @property
    def shape(self) -> dict[str, bool]:
        """Keyword arguments of `dirty`: what chat this template carries."""
        return {"tools": self.tools, "reasoning": self.reasoning, "open_loop": self.open_loop}

    def channels(self) -> tuple[str, ...]:
        """Text channels of that chat."""
        return channels(**self.shape)

    def plan(self, messages: Sequence[Any], tools: Sequence[Any]) -> Any:
        """Plan one chat in ids mode."""
        return self.planner.plan(
            messages=messages, tools=list(tools) or None, max_input_tokens=WINDOW_TOKENS,
            reserved_output_tokens=16,
        )  # fmt: skip

    def twin(self, made: Planted) -> Any:
        """Plan the inert twin."""
        key = json.dumps([made.inert_messages, made.inert_tools])
        if key not in self._known:
            self._known[key] = self.plan(made.inert_messages, made.inert_tools)
        return self._known[key]

    def control_ids(self, answer: Any) -> Counter[int]:
        """Count the control ids of a plan."""
        return Counter(token for token in answer.ids if token in self.guards)

    def content(self, answer: Any) -> str:
        """Decode everything between control ids; the text of control ids themselves is left out."""
        out: list[str] = []
        stretch: list[int] = []
        for token in [*answer.ids, next(iter(self.guards))]:
            if token in self.guards:
                out.append(self.bundle.engine.decode(stretch) if stretch else "")
                stretch = []
            else:
                stretch.append(token)
        return "\0".join(out)

    def faults(self, control: str, channel: str, placement: str) -> list[str]:
        """Plan one dirty chat and return what is wrong with it, in words without content."""
        same = (ROLES.get(channel, ""), control) in self.parsed and placement == "whole"
        made = dirty(
            control, channel, placement, text_beside_call=self.beside,
            inert=(lambda text: text) if same else harmless, **self.shape,
        )  # fmt: skip
        twin = self.twin(made)
        answer = self.plan(made.messages, made.tools)
        where = f"{self.bundle.manifest.id} {control!a} {channel} {placement}"
        if not twin.accepted:
            self.without_twin += 1
            return [] if answer.reason == twin.reason else [f"{where}: {answer.reason}, twin {twin.reason}"]
        self.planned += 1
        if not answer.accepted:
            return [f"{where}: refused with {answer.reason}, the twin is accepted"]
        found = []
        if self.control_ids(answer) != self.control_ids(twin):
            found.append(f"{where}: control ids differ from the twin's")
        if answer.account.input_tokens != len(answer.ids):
            found.append(f"{where}: the account does not sum to the ids")
        if not same and not self._decodes(made, answer, twin):
            found.append(f"{where}: the text does not come back")
        return found

    def _decodes(self, made: Planted, answer: Any, twin: Any) -> bool:
        """Tell if every planted text stands in the prompt wherever the twin's letters stand in its own."""
        shown, calm = self.content(answer), self.content(twin)
        letters = harmless(made.literal)
        middle = len(letters) // 2
        pairs = zip(made.halves, (letters[:middle], letters[middle:]), strict=True) if made.halves else [
            (made.literal, letters)
        ]  # fmt: skip
        return all(
            any(form in shown for form in _forms(text))
            for text, twin_text in pairs
            if len(twin_text) > 1 and twin_text in calm
        )


def _forms(text: str) -> tuple[str, ...]:
    """A text may be printed as a JSON string, and a tokenizer may normalise it (NFC, NFKC)."""
    dumped = json.dumps(text, ensure_ascii=False)[1:-1]
    return (text, dumped, unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text))
