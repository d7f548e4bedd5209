"""One bundle against its reference: every conversation planned whole, each answer compared and counted.

The window is far larger than any generated conversation, so nothing is cut and only encoding, framing and
refusals are under test. A bundle whose files state a small context is planned with that figure taken out.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.planner import Planner
from planner.values.bundle import Bundle, Engine, Manifest
from planner.values.profile import TemplateProfile
from planner.values.request import CONCESSIONS, Options
from tests.support.blame import Blame, blame
from tests.support.conversations import Conversation
from tests.support.dialogues import Dialogue
from tests.support.framing import Conceded, Traits, concede, has_text_beside_call, normalise
from tests.support.judge import Judge, Rung
from tests.support.reference import CannotRender, ReferenceBundle

WINDOW_TOKENS = 4_000_000
RESERVE_TOKENS = 16
Message = dict[str, Any]
TABLES: dict[str, list[str]] = {}
"""Lines of each bundle's outcome table, printed at the end of the run (see conftest.py)."""


class Unbounded:
    """A bundle as it is, but for its context length."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.manifest: Manifest = replace(bundle.manifest, context_tokens=WINDOW_TOKENS, tiers=())

    @property
    def engine(self) -> Engine:
        return self._bundle.engine

    @property
    def template_source(self) -> str:
        return self._bundle.template_source

    @property
    def profile(self) -> TemplateProfile:
        return self._bundle.profile


class Chat(Dialogue):
    """A generated conversation as the judge reads one; it need not begin with a system message."""

    @property
    def policy(self) -> list[Message]:
        """The leading system message, or nothing."""
        return [dict(self.messages[0])] if self.messages[0]["role"] == "system" else []

    @property
    def turns(self) -> list[list[Message]]:
        """Messages per turn; an assistant's greeting before the first question is a turn of its own."""
        greeting = list(itertools.takewhile(lambda message: message["role"] != "user", self.messages))
        return [part for part in (greeting[len(self.policy) :], *super().turns) if part]


class ListJudge(Judge):
    """A judge that concedes before it normalises: what a shape needs is asked of the shape that is rendered.

    gpt-oss raises on reasoning beside text and calls and takes it beside calls alone; where the text is left
    out by concession, the reasoning stays.
    """

    def framed(self, dialogue: Dialogue, first: int, names: Sequence[str] | None = None) -> Conceded:
        """Frame the list from turn `first` on."""
        granted = (self.allowed if names is None else frozenset(names)) & self.traits.needs
        made = concede(dialogue.suffix(first), granted)
        return Conceded(normalise(made.messages, self.traits, self.alias), made.omitted, made.source)


def chat_of(item: Conversation) -> Chat:
    """Wrap a generated conversation for the judge."""
    return Chat(item.id, item.messages[-1]["role"], item.messages, item.tools)


def changes_made(messages: Sequence[Message], traits: Traits, rewrites: Sequence[str]) -> set[str]:
    """Name what had to be changed in a list before this template renders it as a chat.

    Names are those of the profile's `normalisations`; certified rewrites have names of their own.
    """
    found = set(rewrites)
    for message in messages:
        calls = message.get("tool_calls") or ()
        if message.get("content") is None and not (calls and traits.keeps_null):
            found.add("null_content")
        if (
            calls
            and traits.arguments == "object"
            and any(isinstance(item["function"]["arguments"], str) for item in calls)
        ):
            found.add("arguments")
        if traits.alias_ids and any(len(item["id"]) != 9 for item in calls):
            found.add("call_ids")
        shape = "plain" if not calls else "text_beside_call" if has_text_beside_call(message) else "call"
        if message.get("reasoning_content") and shape in traits.omit_reasoning:
            found.add("reasoning")
    return found


@dataclass
class Outcomes:
    """What happened, per shape, and every fault as one line without content."""

    bundle: str
    table: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    compared: int = 0
    raw: int = 0
    conceded: int = 0
    changes: set[str] = field(default_factory=set)

    def lines(self) -> list[str]:
        """Return the table accepted / refused / reference-cannot per shape, ready to print."""
        title = (
            f"{self.bundle}: {self.compared} compared, {self.raw} of them with the list as it was given, "
            f"{self.conceded} with concessions; changed before rendering: {sorted(self.changes) or 'nothing'}"
        )
        found = [title]
        for shape in sorted({shape for shape, _ in self.table}):
            parts = [f"{what} {count}" for (name, what), count in sorted(self.table.items()) if name == shape]
            found.append(f"  {shape:17} " + ", ".join(parts))
        return found


class Comparison:
    """Plans conversations of one bundle and holds each answer against the reference."""

    def __init__(self, bundle: Bundle, reference: ReferenceBundle) -> None:
        rewrites = bundle.manifest.rewrites
        self.planner = Planner(Unbounded(bundle))
        self.reference, self.rewrites = reference, rewrites
        wide = copy.copy(reference)
        wide._context_tokens = WINDOW_TOKENS
        sizes = {"window": WINDOW_TOKENS, "reserve": RESERVE_TOKENS}
        self.judge = ListJudge(wide, rewrites=rewrites, **sizes)
        self.helped = ListJudge(wide, rewrites=rewrites, concessions=CONCESSIONS, **sizes)
        self.helped.__dict__["traits"], self.helped._verdicts = self.judge.traits, self.judge._verdicts
        self.out = Outcomes(reference.name)

    @property
    def carries_tools(self) -> bool:
        """True if the template renders tools, a call and a result."""
        profile = self.planner.encoder().bundle.profile
        return (profile.tools, profile.tool_call, profile.tool_result) == ("kept",) * 3

    def plan(self, item: Conversation, *, helped: bool = False) -> Any:
        """Plan one conversation whole."""
        return self.planner.plan(
            messages=item.messages,
            tools=list(item.tools) or None,
            max_input_tokens=WINDOW_TOKENS,
            reserved_output_tokens=RESERVE_TOKENS,
            options=Options(concessions=CONCESSIONS if helped else ()),
        )

    def compare(self, item: Conversation) -> None:
        """Compare the answer without concessions, and with them where the reference loses something."""
        chat = chat_of(item)
        rung = self.judge.rung(chat, 0)
        answer = self.plan(item)
        if rung.ids is not None:
            self._compare_ids(item, answer, rung, "")
            self._count_raw(item, rung)
            return
        self._compare_refusal(item, chat, answer, rung, self.judge)
        again = self.helped.rung(chat, 0)
        answer = self.plan(item, helped=True)
        if again.ids is not None:
            self.out.conceded += 1
            self._compare_ids(item, answer, again, " with concessions")
        else:
            self._compare_refusal(item, chat, answer, again, self.helped)

    def _fault(self, item: Conversation, what: str) -> None:
        self.out.faults.append(f"{self.out.bundle} {item.id}: {what}")

    def _compare_ids(self, item: Conversation, answer: Any, rung: Rung, note: str) -> None:
        if not answer.accepted:
            self.out.table[item.shape, "WRONGLY REFUSED" + note] += 1
            self._fault(item, f"refused{note}: {answer.line()}; the reference renders every piece")
            return
        self.out.table[item.shape, "accepted" + note] += 1
        self.out.compared += 1
        if tuple(answer.ids) != rung.ids:
            sizes = f"{len(answer.ids)} planned, {len(rung.ids or ())} in the reference"
            self._fault(item, f"ids differ{note}: {sizes}")
        if answer.account.input_tokens != len(answer.ids):
            self._fault(item, f"the account does not sum to the ids{note}")
        used = set(answer.receipt.concessions)
        if note and not used:
            self._fault(item, "a concession was used and the receipt names none")
        if not note and used:
            self._fault(item, "a concession was used that nobody allowed")

    def _compare_refusal(self, item: Conversation, chat: Chat, answer: Any, rung: Rung, judge: Judge) -> None:
        note = " with concessions" if judge is self.helped else ""
        right = blame(judge, chat, rung)
        if answer.accepted:
            self.out.table[item.shape, "WRONGLY ACCEPTED" + note] += 1
            self._fault(item, f"accepted{note}; {right} is right")
            return
        self.out.table[item.shape, f"reference cannot{note}, refused: {answer.reason}"] += 1
        got: Blame = (answer.reason, _turn_named(answer.detail), answer.advice.concession)
        # Where removing no older turn helps, the judge names none; the turn that holds the shape is as right.
        if got != right and not (got[0] == right[0] == "template_refuses_shape" and right[1] is None):
            self._fault(item, f"refused{note} as {got}, right is {right}")

    def _count_raw(self, item: Conversation, rung: Rung) -> None:
        """Render the list exactly as it was given: equal ids mean that nothing was normalised.

        Where ids differ, something of the list is on record as changed; where nothing is, that is a fault.
        """
        needed = changes_made(item.messages, self.judge.traits, self.rewrites)
        try:
            if tuple(self.reference.ids(item.messages, item.tools or None)) == rung.ids:
                self.out.raw += 1
                return
        except CannotRender:
            pass
        self.out.changes |= needed
        if not needed:
            self._fault(item, "the list as given renders otherwise, and no normalisation is on record")


def _turn_named(detail: str) -> int | None:
    """Return the position of the turn a refusal names (`turn t3: ..`), None where it names none."""
    words = detail.replace(":", " ").split()
    if len(words) > 1 and words[0] == "turn" and words[1].startswith("t"):
        return int(words[1][1:]) - 1
    return None
