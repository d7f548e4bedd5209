"""The whole public API against plain lists, by hypothesis: any order of calls, shrunk where it fails (row 6).

The steps that tests/ledger/test_model.py knows are taken from there; this adds compaction, plans, retention, crashes.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Saved
from planner.values.compaction import CompactionPlan, Rejected
from planner.values.plan import Plan
from planner.values.reasons import RefusalSignal
from planner.values.relations import relations
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_receipt
from tests.conftest import MAX_EXAMPLES
from tests.crash.support import FULL, abandon
from tests.crash.toy_planner import POLICY, chat_of, request_of, toy
from tests.ledger.support import seen
from tests.ledger.test_model import Walk
from tests.simulation.purging import Purging
from tests.support.extractive import summarise

CHAT = "c"
EXAMPLES, STEPS = (2_000, 60) if FULL else (60, 25)
RANDOM = st.randoms(use_true_random=False)
WALKS = (
    "_new", "_more", "_end", "_edit", "_protect", "_mark", "_supersede", "_item", "_branch", "_switch", "_generation",
    "_resend", "_again",
)  # fmt: skip


class Tame(Walk):
    """A walk that leaves alone what retention took."""

    def _pick(self, *states: str) -> str | None:
        through = self.plain.through
        found = [turn.id for turn in self.plain.line if turn.state in states and turn.sequence > through]
        return self.rng.choice(found) if found else None

    def _again(self) -> None:
        if getattr(self, "last", ("",))[0] in {turn.id for turn in self.plain.visible()}:
            super()._again()


@dataclass
class Late:
    """A summary under way, with what it was made from."""

    plan: CompactionPlan
    run: int
    answer: str
    sources: tuple[list[Turn], list[str]]


class LedgerMachine(RuleBasedStateMachine):
    """A ledger on a real disk beside its plain double."""

    def __init__(self) -> None:
        """Begin with an empty ledger."""
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-model-"))
        self.ledger = Ledger.open(self.folder / "ledger")
        self.walk = Tame(self.ledger, random.Random(0))
        self.plain = Purging()
        self.walk.plain = self.plain
        self.late: list[Late] = []
        self.views: list[tuple[Any, dict[str, object], int]] = []

    def teardown(self) -> None:
        """Compare everything once more and take the files away."""
        assert () == self.ledger.verify().problems
        self.ledger.close()
        shutil.rmtree(self.folder)

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        """Start with some ordinary turns."""
        for _ in range(count):
            self.talk()

    @rule()
    def talk(self) -> None:
        """Append an ordinary completed turn."""
        self.walk.made += 1
        number = self.walk.made
        messages = [
            Message("user", f"q{number}", f"We decided to use plan {number}. Is it done?"),
            Message("assistant", f"r{number}", f"I will send report {number} on Monday."),
        ]
        self.ledger.append(CHAT, f"t{number}", messages, state="completed")
        self.plain.append(f"t{number}", messages, "completed")

    @rule(rng=RANDOM, name=st.sampled_from(WALKS))
    def step(self, rng: random.Random, name: str) -> None:
        """Do one step of the random walk."""
        self.walk.rng = rng
        getattr(self.walk, name)()

    @rule(replace_active=st.booleans())
    def freeze(self, replace_active: bool) -> None:
        """Freeze a plan; the answers come back later."""
        plan = self.compactor().propose(replace_active=replace_active)
        if isinstance(plan, CompactionPlan):
            for prompt in self.compactor().prompts(plan):
                answer = summarise(*(message["content"] for message in prompt.messages))
                self.late.append(Late(plan, prompt.run, answer, self.sources(plan.runs[prompt.run].turn_ids)))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Bring one answer back, in any order."""
        self.deliver_at(data.draw(st.integers(0, len(self.late) - 1)))

    def deliver_at(self, place: int) -> None:
        """Bring one answer back: accepted means unchanged, and unchanged is never called stale (P4)."""
        late = self.late.pop(place)
        run = late.plan.runs[late.run]
        active = self.ledger.active_plan(CHAT)
        same = (
            late.sources == self.sources(run.turn_ids)
            and late.plan.generation == self.plain.generation
            and active is not None and active.plan_id == late.plan.plan_id
            and run.covers_from > self.plain.through
        )  # fmt: skip
        saved = self.compactor().accept(late.plan.plan_id, late.run, late.answer)
        stale = saved.reason == "stale-source" if isinstance(saved, Rejected) else saved.status == "stale-source"
        if isinstance(saved, Saved) and saved.status == "accepted":
            assert same, "a summary of what is no longer so became active"
        assert not (same and stale), f"an append made a summary stale: {saved}"

    @rule(window=st.sampled_from((300, 700, 2_000)), record=st.booleans())
    def plan(self, window: int, record: bool) -> None:
        """Plan: as with every turn sent; protected turns once, order rising, no turn twice (P5, P7)."""
        request = request_of(window=window)
        head = self.ledger.head(CHAT)
        view = self.ledger.view(CHAT, active=Active(POLICY))
        found = chat_of(self.ledger, CHAT).plan(request, record=record)
        after = self.ledger.head(CHAT)
        assert (head.generation, head.revision, head.turns) == (after.generation, after.revision, after.turns)
        if view.boundary is None and not view.stale:
            sent = replace(
                request, conversation_id=CHAT, generation=head.generation, revision=head.revision,
                turns=tuple(self.plain.shown()), summaries=view.summaries,
            )  # fmt: skip
            wanted = toy().plan(sent)
            assert dump_receipt(wanted.receipt) == dump_receipt(found.receipt)
        if isinstance(found, Plan):
            self.check_kept(found, view)

    def check_kept(self, found: Plan, view: Any) -> None:
        """Assert that the raw turns of a plan stand once and in order, and that no summary stands over one of them."""
        order = [turn.id for turn in self.plain.visible()]
        kept = [entry.removeprefix("turn/") for entry in found.receipt.kept if entry.startswith("turn/")]
        kept = [name for name in kept if name != "q"]
        assert sorted(set(kept), key=order.index) == kept
        pinned = [turn.id for turn in self.plain.visible() if turn.pinned and turn.state == "completed"]
        assert set(pinned) <= set(kept)
        spans = [(one.covers_from, one.covers_to) for one in view.summaries if one.id in used(found)]
        sequences = {turn.id: turn.sequence for turn in self.plain.visible()}
        assert not [one for one in kept for first, last in spans if first <= sequences[one] <= last]

    @rule(part=st.floats(0, 1))
    def retain(self, part: float) -> None:
        """Purge the oldest turns; an open or protected one stops it."""
        border = round(part * (self.plain.last_sequence + 1))
        if not self.plain.may_purge(border):
            try:
                self.ledger.retain(CHAT, border, "policy-30-days")
            except RefusalSignal:
                return
            raise AssertionError("retention took an open or a protected turn")
        self.ledger.retain(CHAT, border, "policy-30-days")
        self.plain.purge(border)
        self.views.clear()

    @rule()
    def crash(self) -> None:
        """Leave without closing, as a killed process does, and open again."""
        self.views.clear()
        abandon(self.ledger)
        self.ledger = Ledger.open(self.folder / "ledger")
        self.walk.ledger = self.ledger
        assert () == self.ledger.warnings

    @rule(later=st.booleans())
    def look(self, later: bool) -> None:
        """Take a view, or read one that was taken before: it shows what was then."""
        if later and self.views:
            view, wanted, _ = self.views.pop()
            assert wanted == seen(view)
        else:
            self.views.append((self.ledger.view(CHAT), self.plain.expected(), self.plain.generation))

    @invariant()
    def reads_like_the_plain_lists(self) -> None:
        """Every view equals the plain double, and the counters too."""
        if self.walk.made:
            assert self.plain.expected() == seen(self.ledger.view(CHAT))
            head = self.ledger.head(CHAT)
            assert (self.plain.generation, self.plain.last_sequence) == (head.generation, head.last_sequence)

    def compactor(self) -> Compactor:
        """Return the compactor of the conversation."""
        return Compactor(self.ledger, CHAT, Choices(POLICY, tail_turns=1))

    def sources(self, ids: Sequence[str]) -> tuple[list[Turn], list[str]]:
        """Return turns and constraints in force of these ids, as they are now."""
        every = self.plain.shown()
        return (
            [turn for turn in every if turn.id in ids],
            [one.id for one in relations(every).constraints if one.turn_id in ids],
        )


def used(found: Plan) -> set[str]:
    """Return the ids of the summaries in a plan."""
    return {one.id for one in found.receipt.summaries if one.fate == "used"}


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = hypothesis.settings(
    max_examples=EXAMPLES if FULL else max(1, EXAMPLES * MAX_EXAMPLES // 25), stateful_step_count=STEPS, deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)  # fmt: skip
