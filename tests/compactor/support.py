"""A ledger with a conversation worth compacting, a toy bundle, and a model that is a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from planner.compaction.call import PromptedRun, Summariser
from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.switches import Switches
from planner.values.turn import Message, MustPreserve
from tests.support.extractive import summarise
from tests.support.toy import ToyBundle

POLICY = "v1"
CHAT = "c1"


@cache
def toy() -> Planner:
    """Return a planner of a bundle without model files, one a process."""
    return Planner(ToyBundle(context_tokens=200_000))


def question(number: int) -> list[Message]:
    """Return a question with a literal of its own, and its answer with small talk."""
    return [
        Message("user", f"u{number}", f"Please use paint {number} for frame {number}."),
        Message("assistant", f"a{number}", "Fine. " + "We also talked about bells and baskets. " * 12),
    ]


def fill(ledger: Ledger, turns: int, start: int = 0, conversation: str = CHAT) -> None:
    """Append completed turns; turn t1 carries a constraint with its text."""
    for number in range(start, start + turns):
        marks = [MustPreserve("C1", "do not touch the serial plate")] if number == 1 else []
        ledger.append(conversation, f"t{number}", question(number), state="completed", must_preserve=marks)


def request(window: int = 60_000, **fields: Any) -> PlanRequest:
    """Return a request without turns; wide enough for raw turns unless `window` says otherwise."""
    return PlanRequest(
        model_bundle_id=toy().bundle_id, request=CurrentRequest(id="q", text="What is the work order?"),
        policy=(TextItem("p1", "Answer in euro."),), policy_version=POLICY, max_input_tokens=window,
        reserved_output_tokens=64, **fields,
    )  # fmt: skip


def compactor(
    ledger: Ledger, *, switches: Switches | None = None, window: int | None = None, **choices: Any
) -> Compactor:
    """Return a compactor whose summariser is the toy bundle where `window` names its tokens."""
    chosen = Choices(**{"policy_version": POLICY, "risk": "low", **choices})
    summariser = None if window is None else Summariser(toy().bundle_id, window, 256)
    planning = None if window is None else toy().plan
    return Compactor(ledger, CHAT, chosen, summariser=summariser, planning=planning, switches=switches)


@dataclass
class Answer:
    """What a model gave back."""

    text: str
    finish: str = "stop"


@dataclass
class Script:
    """A model that reads its prompt and copies sentences; `before` runs while it is busy."""

    before: Callable[[], object] = lambda: None
    finish: str = "stop"
    spoil: Callable[[str], str] = lambda text: text
    asked: list[PromptedRun] = field(default_factory=list)

    def __call__(self, prompt: PromptedRun) -> Answer:
        """Answer one call."""
        self.asked.append(prompt)
        self.before()
        written = summarise(prompt.messages[0]["content"], prompt.messages[1]["content"])
        return Answer(self.spoil(written), self.finish)


def plan(ledger: Ledger, wanted: PlanRequest | None = None, **how: Any) -> Plan | Refusal:
    """Plan from the ledger with nothing remembered."""
    return toy().ledger_conversation(ledger, CHAT).plan(wanted or request(), **how)


def kept_turns(answer: Plan | Refusal) -> list[str]:
    """Return the turns of a plan in order."""
    assert isinstance(answer, Plan), answer
    return [key[5:] for key in answer.kept if key.startswith("turn/t")]


def kept_summaries(answer: Plan | Refusal) -> list[str]:
    """Return the summaries of a plan in order."""
    assert isinstance(answer, Plan), answer
    return [key[8:] for key in answer.kept if key.startswith("summary/")]
