"""What a bundle's window means in practice: tokens per character by language, typical turns per tier.

The sample texts are our own (`typical.json`): the same small talk of a help desk in every language. Figures are
counted and planned, never estimated; they hold for these texts and say what to expect of others like them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from planner.values.bundle import Engine, Manifest
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, Tool
from planner.values.turn import Message, ToolCall, ToolResult, Turn

Planning = Callable[[PlanRequest], Plan | Refusal]
USUAL_TIERS = (4_096, 8_192, 32_768)
KINDS = ("short", "long", "tool")
_START = 64


@dataclass(frozen=True, slots=True)
class LanguageCost:
    """Tokens of one sample text; `script` is the Unicode script most of it is written in."""

    language: str
    script: str
    characters: int
    tokens: int

    @property
    def tokens_per_character(self) -> float:
        """Tokens divided by characters, both of the whole sample."""
        return self.tokens / self.characters


@dataclass(frozen=True, slots=True)
class TurnsInTier:
    """How many completed turns of one kind fit beside the next question, None where none can be carried.

    `input_limit` in tokens, reserve and margin of the bundle included; `reason` is the code of the refusal.
    """

    kind: str
    input_limit: int
    turns: int | None
    reason: str | None = None


@cache
def samples() -> dict[str, Any]:
    """Return the shipped sample texts."""
    read: dict[str, Any] = json.loads((Path(__file__).parent / "typical.json").read_text(encoding="utf-8"))
    return read


def language_costs(engine: Engine) -> tuple[LanguageCost, ...]:
    """Count every sample text by itself, without framing. Raises what the engine raises."""
    return tuple(
        LanguageCost(row["language"], row["script"], len(row["text"]), len(engine.encode(row["text"]).ids))
        for row in samples()["languages"]
    )


def tiers_of(manifest: Manifest) -> tuple[int, ...]:
    """Return the token limits to ask for: the manifest's tiers, else the usual ones below its context."""
    if manifest.tiers:
        return tuple(sorted({tier.max_input_tokens for tier in manifest.tiers}))
    most = manifest.context_tokens
    return tuple(size for size in USUAL_TIERS if most is None or size <= most) or ((most,) if most else ())


def turns_in_tiers(planning: Planning, bundle_id: str, limits: Sequence[int]) -> tuple[TurnsInTier, ...]:
    """Plan ever longer chats of one kind of turn until the oldest turn leaves; what is kept then fits.

    Raises what planning raises: PlannerFault for a bundle that cannot be used.
    """
    return tuple(_fitting(planning, bundle_id, kind, limit) for kind in KINDS for limit in sorted(limits))


def _fitting(planning: Planning, bundle_id: str, kind: str, limit: int) -> TurnsInTier:
    # Every turn costs tokens, so this ends.
    asked = _START
    while True:
        answer = planning(_request(bundle_id, kind, limit, asked))
        if isinstance(answer, Refusal):
            return TurnsInTier(kind, limit, None, answer.reason)
        own = {f"turn/t{number}" for number in range(asked)}
        kept = len(own.intersection(answer.kept))
        if kept < asked:
            return TurnsInTier(kind, limit, kept)
        asked *= 4


def _request(bundle_id: str, kind: str, limit: int, turns: int) -> PlanRequest:
    talk = samples()["talk"]
    tools = tuple(Tool(one["function"]["name"], one) for one in samples()["tools"]) if kind == "tool" else ()
    sequences = count(1)
    return PlanRequest(
        bundle_id,
        request=CurrentRequest(id="next", text=talk["short"]["question"]),
        max_input_tokens=limit,
        tools=tools,
        turns=tuple(_turn(number, kind, next(sequences) * 10) for number in range(turns)),
    )


def _turn(number: int, kind: str, sequence: int) -> Turn:
    said = samples()["talk"][kind]
    messages = [Message("user", f"u{number}", said["question"])]
    if "arguments" in said:
        call = ToolCall(f"call{number:05d}", said["tool"], said["arguments"])
        messages += [
            Message("assistant", f"c{number}", tool_calls=(call,)),
            Message("tool", f"r{number}", tool_result=ToolResult(call.id, said["result"])),
        ]
    messages.append(Message("assistant", f"a{number}", said["answer"]))
    return Turn(f"t{number}", sequence, "completed", tuple(messages))
