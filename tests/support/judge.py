"""The judge of the 66 dialogues: which whole-turn suffix is right, or which refusal, without the planner.

    python -m tests.support.judge --bundle DIR --shared DIR [--concessions] [--no-tools] [--whole]

Rungs are walked as issue A and design.md §2 say: rung k is policy, tools and the turns from k on. A rung
the template carries costs its exact ids; any other costs its carried form. The first rung within the room
decides: clean, or one refusal code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.support.blame import blame
from tests.support.dialogues import Dialogue
from tests.support.expected import rewritten
from tests.support.framing import (
    CONCESSIONS,
    Conceded,
    concede,
    measure_traits,
    nine_alphanumerics,
    normalise,
)
from tests.support.reference import CannotRender, ReferenceBundle
from tests.support.twin import Verdict, structure_key

Message = dict[str, Any]
SLACK_TOKENS = 64


@dataclass(frozen=True)
class Finding:
    """What is right for one dialogue.

    outcome     "clean", or the refusal code
    first       position of the first kept turn of the deciding rung; None for an overflow
    tokens      exact ids of that rung, or its carried form; for an overflow those of the last rung
    missing     tokens over the room (overflow only)
    turn        turn a refusal names, where one is to blame
    concession  the concession that would let the plan pass, if there is one
    whole       True if nothing had to leave
    """

    outcome: str
    first: int | None
    tokens: int
    missing: int = 0
    turn: int | None = None
    concession: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class Rung:
    """One measured rung; `ids` are there only if the template carries it."""

    first: int
    tokens: int
    verdict: Verdict
    ids: tuple[int, ...] | None


class Judge:
    """Judges plans of one bundle.

    window, reserve, margin  tokens; the room is what is left of the window
    concessions              those the request allows by name
    alias                    call id -> nine alphanumerics, for templates that restrict ids
    rewrites                 those the manifest of a certified template names
    """

    def __init__(
        self, bundle: ReferenceBundle, *, window: int = 8192, reserve: int = 512, margin: int = 1,
        concessions: Sequence[str] = (), alias: Callable[[str], str] = nine_alphanumerics,
        rewrites: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.bundle = bundle
        self.window = min(window, bundle.context_tokens or window)
        self.room = self.window - reserve - margin
        self.alias, self.rewrites = alias, tuple(rewrites)
        self.allowed = frozenset(concessions)
        self._verdicts: dict[str, Verdict] = {}

    @cached_property
    def traits(self) -> Any:
        """Measured needs of the template."""
        return measure_traits(self.bundle)

    def framed(self, dialogue: Dialogue, first: int, names: Sequence[str] | None = None) -> Conceded:
        """Frame rung `first`: normalised, with the allowed concessions where the template needs them."""
        granted = (self.allowed if names is None else frozenset(names)) & self.traits.needs
        return concede(normalise(dialogue.suffix(first), self.traits, self.alias), granted)

    def verdict(self, messages: Sequence[Message], tools: Sequence[Any]) -> Verdict:
        """Tell what the template loses of a list; remembered by structure, which is all it depends on."""
        key = structure_key(messages, tools)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self.bundle.carries(messages, tools or None)
        return known

    def ids(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        """Return the reference's ids of a framed list. Raises CannotRender."""
        return self.bundle.ids(rewritten(messages, self.rewrites), tools)

    def rung(self, dialogue: Dialogue, first: int) -> Rung:
        """Measure one rung: exact ids where it is carried, else its carried form."""
        framed = self.framed(dialogue, first)
        verdict = self.verdict(framed.messages, dialogue.tools)
        if verdict.carried:
            try:
                ids = tuple(self.ids(framed.messages, dialogue.tools))
                return Rung(first, len(ids), verdict, ids)
            except CannotRender as failure:
                verdict = Verdict(raised=failure.kind)
        return Rung(first, self.carried_form(dialogue, first), verdict, None)

    def carried_form(self, dialogue: Dialogue, first: int) -> int:
        """Count a rung the template cannot carry: with all concessions, else the sum of its texts."""
        framed = self.framed(dialogue, first, CONCESSIONS)
        try:
            framing = len(self.ids(framed.messages, dialogue.tools))
        except CannotRender:
            return self.sum_of_texts(dialogue, first)
        return framing + sum(self._count(text) for text in framed.omitted)

    def sum_of_texts(self, dialogue: Dialogue, first: int) -> int:
        """Count policy texts, JSON dumps of tools and calls, and message texts, each encoded alone."""
        texts = [json.dumps(tool, ensure_ascii=False) for tool in dialogue.tools]
        for message in dialogue.suffix(first):
            texts.append(message.get("content") or "")
            texts += [
                json.dumps(
                    {"name": item["function"]["name"], "arguments": _object(item["function"]["arguments"])},
                    ensure_ascii=False,
                )
                for item in message.get("tool_calls") or ()
            ]
        return sum(self._count(text) for text in texts if text)

    def _count(self, text: str) -> int:
        return len(self.bundle.encode_text(text))

    def walk(self, dialogue: Dialogue, *, exhaustive: bool = False) -> list[Rung]:
        """Measure rungs from the newest to older ones, until no older one can fit.

        Stops where the rung and the sum of its texts are both above the room: older rungs hold more text
        and more messages. exhaustive=True measures every rung (slow; tests compare the two).
        """
        rungs = []
        for first in reversed(range(len(dialogue.turns))):
            rungs.append(self.rung(dialogue, first))
            bound = self.room + SLACK_TOKENS
            if not exhaustive and rungs[-1].tokens > bound and self.sum_of_texts(dialogue, first) > bound:
                break
        return rungs

    def find(self, dialogue: Dialogue, *, exhaustive: bool = False) -> Finding:
        """Return what is right for a dialogue."""
        rungs = self.walk(dialogue, exhaustive=exhaustive)
        fitting = [rung for rung in rungs if rung.tokens <= self.room]
        if not fitting:
            return self._overflow(dialogue, rungs[0])
        best = min(fitting, key=lambda rung: rung.first)
        whole = best.first == 0
        if best.verdict.carried:
            return Finding("clean", best.first, best.tokens, whole=whole)
        code, turn, concession = blame(self, dialogue, best)
        return Finding(code, best.first, best.tokens, turn=turn, concession=concession, whole=whole)

    def _overflow(self, dialogue: Dialogue, last: Rung) -> Finding:
        """Policy, tools and request alone over the room, or only with the open turn's calls and results."""
        request = Dialogue(dialogue.id, "user", (*dialogue.policy, dialogue.turns[-1][0]), dialogue.tools)
        fixed = self.rung(request, 0).tokens
        code = "context_policy_overflow" if fixed > self.room else "open_turn_overflow"
        return Finding(code, None, last.tokens, missing=last.tokens - self.room)

    # ---- answers -------------------------------------------------------------------------------------

    def check_answer(
        self, dialogue: Dialogue, kept: Sequence[int], ids: Sequence[int],
        finding: Finding | None = None, conceded: Mapping[str, Sequence[int]] | None = None,
    ) -> list[str]:  # fmt: skip
        """Return the faults of an answer, none if it is clean.

        kept      positions of the kept turns, oldest first
        ids       the plan's ids
        conceded  what the receipt says was conceded: name -> positions in the list (reported as needless
                  if the template needs no such concession)
        """
        right = finding or self.find(dialogue)
        faults = []
        total = len(dialogue.turns)
        if right.outcome != "clean":
            faults.append(f"answered where {right.outcome} is right")
        if list(kept) != list(range(kept[0], total)) or kept[-1] != total - 1:
            faults.append("kept turns are not a suffix with the open turn")
        elif right.first is not None and kept[0] != right.first:
            faults.append(f"kept from turn {kept[0]}, the optimum is from turn {right.first}")
        if len(ids) > self.room:
            faults.append(f"over the room by {len(ids) - self.room}")
        wrong = set(conceded or ()) - (self.allowed & self.traits.needs)
        faults += [f"concession {name} was not allowed or not needed" for name in sorted(wrong)]
        answer = self.rung(dialogue, kept[0])
        if answer.ids is None:
            faults.append("the template does not carry this answer")
        elif tuple(ids) != answer.ids:
            faults.append("ids differ from the reference")
        return faults

    def utilisation(self, dialogue: Dialogue, tokens: int, finding: Finding | None = None) -> float | None:
        """Tokens of an answer over tokens of the optimum; None where everything fits or nothing is right."""
        right = finding or self.find(dialogue)
        if right.outcome != "clean" or right.whole:
            return None
        return tokens / right.tokens


def _object(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


if __name__ == "__main__":
    from tests.support.judge_table import main

    main()
