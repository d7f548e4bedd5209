"""One bundle against its reference: every conversation planned whole, each answer compared and counted.

The window is far larger than any generated conversation, so nothing is cut and only encoding, framing and
refusals are under test. A bundle whose files state a small context is opened with that figure taken out.
"""

from __future__ import annotations

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
from tests.support.framing import Conceded, concede, normalise
from tests.support.judge import Judge, Rung
from tests.support.reference import CannotRender, ReferenceBundle

WINDOW_TOKENS = 4_000_000
Message = dict[str, Any]


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


class ListJudge(Judge):
    """A judge that concedes before it normalises: what a shape needs is asked of the shape that is rendered.

    gpt-oss raises on reasoning beside text and calls, and takes it beside calls alone; where the text is left
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


@dataclass
class Outcomes:
    """What happened, per shape, and every fault as one line without content."""

    bundle: str
    table: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    raw: int = 0
    normalised: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    conceded: int = 0

    def lines(self) -> list[str]:
        """Return the table accepted / refused / reference-cannot per shape, ready to print."""
        shapes = sorted({shape for shape, _ in self.table})
        found = [f"{self.bundle}: {self.compared} compared ({self.raw} raw), {self.conceded} with concessions"]
        for shape in shapes:
            parts = [f"{what} {count}" for (name, what), count in sorted(self.table.items()) if name == shape]
            found.append(f"  {shape:17} " + ", ".join(parts))
        return found


class Comparison:
    """Plans conversations of one bundle and holds each answer against the reference."""

    def __init__(self, bundle: Bundle, reference: ReferenceBundle, rewrites: Sequence[str] = ()) -> None:
        self.planner = Planner(Unbounded(bundle))
        self.reference = reference
        bare = ReferenceBundle.__new__(ReferenceBundle)
        bare.__dict__.update(reference.__dict__)
        bare._context_tokens = WINDOW_TOKENS
        self.judge = ListJudge(bare, window=WINDOW_TOKENS, reserve=16, rewrites=rewrites)
        self.helped = ListJudge(
            bare, window=WINDOW_TOKENS, reserve=16, rewrites=rewrites, concessions=CONCESSIONS
        )
        self.helped._verdicts = self.judge._verdicts
        self.out = Outcomes(reference.name)

    def plan(self, item: Conversation, *, helped: bool = False) -> Any:
        """Plan one conversation whole."""
        return self.planner.plan(
            messages=item.messages,
            tools=list(item.tools) or None,
            max_input_tokens=WINDOW_TOKENS,
            reserved_output_tokens=16,
            options=Options(concessions=CONCESSIONS if helped else ()),
        )

    def compare(self, item: Conversation) -> None:
        """Compare the answer without concessions, and with them where it was refused."""
        chat = chat_of(item)
        rung = self.judge.rung(chat, 0)
        answer = self.plan(item)
        if rung.ids is not None:
            self._compare_ids(item, answer, rung, "")
            self._count_raw(item, rung)
            return
        self._compare_refusal(item, chat, answer, rung, self.judge, "")
        again = self.helped.rung(chat, 0)
        answer = self.plan(item, helped=True)
        if again.ids is not None:
            self.out.conceded += 1
            self._compare_ids(item, answer, again, " with concessions")
        else:
            self._compare_refusal(item, chat, answer, again, self.helped, " with concessions")

    def _fault(self, item: Conversation, what: str) -> None:
        self.out.faults.append(f"{self.out.bundle} {item.id}: {what}")

    def _compare_ids(self, item: Conversation, answer: Any, rung: Rung, note: str) -> None:
        if not answer.accepted:
            self.out.table[item.shape, "WRONGLY REFUSED" + note] += 1
            self._fault(item, f"refused{note} with {answer.reason} ({answer.detail}); the reference renders all")
            return
        self.out.table[item.shape, "accepted" + note] += 1
        self.out.compared += 1
        if tuple(answer.ids) != rung.ids:
            self._fault(item, f"ids differ{note}: {len(answer.ids)} planned, {len(rung.ids or ())} in the reference")
        if answer.account.input_tokens != len(answer.ids):
            self._fault(item, f"the account does not sum to the ids{note}")
        if sum(count for _, count in answer.spans) not in (0, len(answer.ids)):
            self._fault(item, f"the spans do not sum to the ids{note}")

    def _compare_refusal(
        self, item: Conversation, chat: Chat, answer: Any, rung: Rung, judge: Judge, note: str
    ) -> None:
        code, turn, concession = self._blame(judge, chat, rung)
        if answer.accepted:
            self.out.table[item.shape, "WRONGLY ACCEPTED" + note] += 1
            self._fault(item, f"accepted{note}; {code} is right (turn {turn})")
            return
        self.out.table[item.shape, f"refused{note} {answer.reason}"] += 1
        got: Blame = (answer.reason, _turn_named(answer.detail), answer.advice.concession)
        if got != (code, turn, concession):
            self._fault(item, f"refused{note} as {got}, right is {(code, turn, concession)}")

    def _blame(self, judge: Judge, chat: Chat, rung: Rung) -> Blame:
        code, turn, concession = blame(judge, chat, rung)
        return _as_planner_names(code, rung), turn, concession

    def _count_raw(self, item: Conversation, rung: Rung) -> None:
        """Render the list exactly as it was given: equal text means that nothing was normalised."""
        try:
            ids = tuple(self.reference.ids(item.messages, item.tools or None))
        except CannotRender:
            self.out.normalised["the reference raises on the list as given"] += 1
            return
        if ids == rung.ids:
            self.out.raw += 1
        else:
            self.out.normalised["the list as given renders otherwise"] += 1


def _as_planner_names(code: str, rung: Rung) -> str:
    return code


def _turn_named(detail: str) -> int | None:
    """Return the position of the turn a refusal names (`turn t3: ..`), None where it names none."""
    words = detail.replace(":", " ").split()
    if len(words) > 1 and words[0] == "turn" and words[1].startswith("t"):
        return int(words[1][1:]) - 1
    return None
