"""Peers that work on the very window a plan chose, or choose one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.growth import RESERVE_TOKENS, Growth, Planned
from planner.values.bundle import Bundle

Messages = list[dict[str, Any]]


class Plain:
    """Transformers' compiled template and one encode of the whole text, with everything warm."""

    def __init__(self, bundle: Bundle, growth: Growth) -> None:
        """Compile once; the conversation's messages and tools are read from `growth`."""
        from transformers.utils.chat_template_utils import _compile_jinja_template

        self.bundle = bundle
        self.growth = growth
        self.template = _compile_jinja_template(bundle.template_source)

    def ids(self, messages: Messages) -> list[int]:
        """Render a list and encode it as the tokenizer file does."""
        text = self.template.render(
            messages=messages, tools=self.growth.chat.tools, add_generation_prompt=True,
            **self.bundle.manifest.variables,
        )  # fmt: skip
        return list(self.bundle.engine.encode_parsed(text))

    def window(self, planned: Planned) -> list[int]:
        """Do again what a plan came to: the same turns and question."""
        messages: Messages = [{"role": "system", "content": self.growth.chat.policy}]
        for turn_id in planned.kept:
            messages += self.growth.messages[turn_id]
        messages.append({"role": "user", "content": planned.question})
        return self.ids(messages)


class LangChain:
    """`trim_messages` with an exact counter: the whole list with its tools, rendered and encoded.

    Messages are converted once and looked up, so that only trimming and counting are timed.
    """

    def __init__(self, plain: Plain, window: int) -> None:
        """Take the room a plan has; raises ImportError where langchain-core is not installed."""
        from langchain_core.messages import trim_messages

        self.plain = plain
        self.room = window - RESERVE_TOKENS - 1
        self._trim = trim_messages
        self._plain_of: dict[str, tuple[int, dict[str, Any]]] = {}
        self._turns: dict[str, list[Any]] = {}

    def history(self, turn_ids: Sequence[str]) -> list[Any]:
        """Return LangChain messages of these turns, in order."""
        return [message for turn_id in turn_ids for message in self._turns.get(turn_id) or self._turn(turn_id)]

    def _turn(self, turn_id: str) -> list[Any]:
        self._turns[turn_id] = [self._message(entry) for entry in self.plain.growth.messages[turn_id]]
        return self._turns[turn_id]

    def _message(self, entry: dict[str, Any]) -> Any:
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

        number = len(self._plain_of)
        self._plain_of[str(number)] = (number, entry)
        if entry["role"] == "assistant":
            calls = [
                {"name": call["function"]["name"], "args": call["function"]["arguments"], "id": call["id"]}
                for call in entry.get("tool_calls", ())
            ]
            return AIMessage(entry["content"], tool_calls=calls, id=str(number))
        if entry["role"] == "tool":
            return ToolMessage(entry["content"], tool_call_id=entry["tool_call_id"], id=str(number))
        kind = SystemMessage if entry["role"] == "system" else HumanMessage
        return kind(entry["content"], id=str(number))

    def trim(self, planned: Planned, before: Sequence[str]) -> list[Any]:
        """Trim policy, all earlier turns and the question to the room."""
        growth = self.plain.growth
        policy = self._message({"role": "system", "content": growth.chat.policy})
        whole = [policy, *self.history(before), self._message({"role": "user", "content": planned.question})]
        return list(
            self._trim(
                whole,
                max_tokens=self.room,
                token_counter=self._count,
                strategy="last",
                include_system=True,
                start_on="human",
            )
        )

    def _count(self, messages: Sequence[Any]) -> int:
        # Trimming from the end asks about reversed lists; a template wants them in order.
        ordered = [entry for _, entry in sorted((self._plain_of[message.id] for message in messages), key=_number)]
        return len(self.plain.ids(ordered))


def _number(pair: tuple[int, dict[str, Any]]) -> int:
    return pair[0]
