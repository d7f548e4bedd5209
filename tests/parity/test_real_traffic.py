"""The 66 dialogues of peers.md §5 on every bundle, with nothing set up but the bundle's name (issue A).

The judge finds what is right without the planner. By default qwen3 and reference see all dialogues and the
other bundles a sample of each kind; PLANNER_FULL=1 gives every dialogue to every bundle.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence

import pytest

from planner.planner import Planner
from planner.values.request import CONCESSIONS, Options
from tests.parity.conftest import SHIPPED, Opened
from tests.parity.outcomes import TABLES
from tests.parity.test_parity import FOLDERS
from tests.support.dialogues import Dialogue, without_tools
from tests.support.judge import Finding, Judge

FULL = os.environ.get("PLANNER_FULL") == "1"
WINDOW_TOKENS, RESERVE_TOKENS = 8192, 512
WHOLE_SET = ("@qwen3-0.6b", "@reference")
CONCEDED = ("@mistral-nemo", "gpt-oss", "llama-3.1", "llama-3.2", "mistral-v3-spm")
OVERFLOWS = ("context_policy_overflow", "open_turn_overflow")


def _sample(dialogues: Sequence[Dialogue], name: str) -> list[Dialogue]:
    """Take generated and chained ones, at a user and at a tool point, and an impossible one."""
    if FULL or name in WHOLE_SET:
        return list(dialogues)
    return [*dialogues[2:36:8], dialogues[11], *dialogues[36::8]]


class Traffic:
    """Plans dialogues of one bundle and holds every answer against the judge's finding."""

    def __init__(self, opened: Opened, concessions: Sequence[str] = ()) -> None:
        bundle, reference = opened
        self.name = reference.name
        self.planner = Planner(bundle)
        self.judge = Judge(
            reference, window=WINDOW_TOKENS, reserve=RESERVE_TOKENS, concessions=concessions,
            rewrites=bundle.manifest.rewrites,
        )  # fmt: skip
        self.options = Options(concessions=tuple(name for name in CONCESSIONS if name in concessions))
        self.outcomes: list[str] = []
        self.utilisations: list[float] = []
        self.faults: list[str] = []

    def run(self, dialogues: Sequence[Dialogue]) -> Traffic:
        """Plan and judge every dialogue."""
        for dialogue in dialogues:
            self.faults += [f"{self.name} {dialogue.id}: {fault}" for fault in self._faults(dialogue)]
        return self

    def _faults(self, dialogue: Dialogue) -> list[str]:
        right = self.judge.find(dialogue)
        answer = self.planner.plan(
            messages=dialogue.messages,
            tools=list(dialogue.tools) or None,
            max_input_tokens=WINDOW_TOKENS,
            reserved_output_tokens=RESERVE_TOKENS,
            options=self.options,
        )
        if not answer.accepted:
            self.outcomes.append(answer.reason)
            return self._wrong_refusal(answer, right)
        self.outcomes.append("clean")
        kept = [int(entry.removeprefix("turn/t")) - 1 for entry in answer.kept if entry.startswith("turn/t")]
        conceded = {use.name: use.message_ids for use in answer.receipt.concessions}
        faults = self.judge.check_answer(dialogue, kept, answer.ids, right, conceded)
        if answer.account.input_tokens != len(answer.ids):
            faults.append("the account does not sum to the ids")
        used = self.judge.utilisation(dialogue, len(answer.ids), right)
        if used is not None:
            self.utilisations.append(used)
        return faults

    @staticmethod
    def _wrong_refusal(answer: object, right: Finding) -> list[str]:
        got = (answer.reason, answer.tokens_missing, answer.advice.concession, _turn(answer.detail))  # type: ignore[attr-defined]
        wanted = (right.outcome, right.missing, right.concession, right.turn)
        return [] if got == wanted else [f"refused as {got}, right is {wanted}"]

    def count(self, *outcomes: str) -> int:
        """Count the answers with one of these outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes)

    def table(self, note: str) -> None:
        """Put one line into the summary of the run."""
        counts = ", ".join(f"{name} {self.outcomes.count(name)}" for name in sorted(set(self.outcomes)))
        used = f"; utilisation at least {min(self.utilisations):.3f}" if self.utilisations else ""
        TABLES.setdefault("dialogues", []).append(f"{self.name}{note}: {counts}{used}")


def _turn(detail: str) -> int | None:
    words = detail.replace(":", " ").split()
    named = len(words) > 1 and words[0] == "turn" and words[1].startswith("t")
    return int(words[1][1:]) - 1 if named else None


@pytest.mark.parametrize("name", WHOLE_SET)
def test_66_of_66_dialogues_are_clean_with_zero_configuration(
    opened: Callable[[str], Opened], dialogues: list[Dialogue], name: str
) -> None:
    """64 plans and the 2 impossible ones refused with their shortfall; no better whole-turn suffix exists."""
    traffic = Traffic(opened(name)).run(dialogues)
    traffic.table(" as shipped")
    assert traffic.faults == []
    assert len(traffic.outcomes) == 66
    assert traffic.count("clean") == 64
    assert traffic.count(*OVERFLOWS) == 2
    assert statistics.median(traffic.utilisations) == 1.0
    assert min(traffic.utilisations) == 1.0


@pytest.mark.parametrize("name", [*SHIPPED[2:], *FOLDERS])
def test_each_dialogue_is_clean_or_refused_as_the_judge_finds(
    opened: Callable[[str], Opened], dialogues: list[Dialogue], name: str
) -> None:
    """Same code, same turn, same concession, same shortfall, for the same window, on every template."""
    traffic = Traffic(opened(name)).run(_sample(dialogues, name))
    traffic.table("")
    assert traffic.faults == []


@pytest.mark.parametrize("name", CONCEDED)
def test_with_concessions_every_dialogue_is_carried(
    opened: Callable[[str], Opened], dialogues: list[Dialogue], name: str
) -> None:
    """All three concessions allowed: clean, or too large for the window; nothing is refused for its shape."""
    chosen = _sample(dialogues, name)
    traffic = Traffic(opened(name), CONCESSIONS).run(chosen)
    traffic.table(" with concessions")
    assert traffic.faults == []
    assert traffic.count("clean", *OVERFLOWS) == len(chosen)
    assert traffic.count("clean") > 0.8 * len(chosen)


@pytest.mark.parametrize("name", [*SHIPPED, *FOLDERS])
def test_without_tools_every_template_carries_every_dialogue(
    opened: Callable[[str], Opened], dialogues: list[Dialogue], name: str
) -> None:
    """Tools taken out, per turn the question and the final answer: nothing is refused for its shape."""
    chosen = [without_tools(dialogue) for dialogue in _sample(dialogues, name)]
    traffic = Traffic(opened(name)).run(chosen if FULL else chosen[::3])
    traffic.table(" without tools")
    assert traffic.faults == []
    assert traffic.count("clean", *OVERFLOWS) == len(traffic.outcomes)
