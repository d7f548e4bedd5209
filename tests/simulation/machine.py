"""One machine under a seeded scheduler: actors, faults, power losses, and a log whose digest a seed fixes.

One thread, no clock of its own, no sleeping: every choice comes from one random.Random.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.ledger import transaction
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Saved
from planner.values.compaction import CompactionPlan, Rejected
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.relations import relations
from planner.values.turn import Message
from planner.wire.dump import dump_receipt
from tests.crash.support import abandon
from tests.crash.toy_planner import POLICY, chat_of, request_of, toy
from tests.ledger.support import seen
from tests.ledger.test_model import Walk
from tests.simulation.disk import Disk, PowerOff, hold_anchors
from tests.support.extractive import summarise

CHAT = "c"
MACHINE_FAULTS = {"ledger_io", "ledger_full", "ledger_busy"}
READS = {"head", "view", "turns", "branches", "versions", "summaries", "active_plan", "conversations"}


@dataclass(frozen=True)
class Rates:
    """How often a fault befalls one operation (threats.md §1.2 row 7)."""

    power: float = 0.01
    error: float = 0.005
    delay: float = 0.10
    clock: float = 0.01


def is_of_the_machine(error: BaseException) -> bool:
    """Tell whether an error is one that a failing disk may cause, and not a loss or damage."""
    return isinstance(error, PlannerFault) and error.code in MACHINE_FAULTS


class Guarded:
    """A ledger whose writes may fail or lose the power; each is repeated until it is done, and done once."""

    def __init__(self, machine: Machine) -> None:
        """Stand before the machine's ledger."""
        self._machine = machine

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a call of the ledger."""
        if name in READS:
            return getattr(self._machine.ledger, name)  # type: ignore[no-any-return]
        return lambda *args, **fields: self._machine.write(name, args, fields)


@dataclass
class Late:
    """A summary that is under way: its plan, the run, its answer, and the turns it was made from."""

    plan: CompactionPlan
    run: int
    answer: str
    turns: dict[str, Any]
    constraints: list[str]


class Machine:
    """The ledger of one seed with its disk, its plain double and its actors."""

    def __init__(self, path: Path, seed: int | str, rates: Rates, monkeypatch: Any) -> None:
        """Begin with an empty ledger."""
        self.path, self.rates = path, rates
        self.rng = random.Random(f"simulation/{seed}")
        salts = random.Random(f"salts/{seed}")
        monkeypatch.setattr(transaction.secrets, "token_bytes", salts.randbytes)
        self.now = 1_800_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.disk = Disk(f"forgetful-{seed}", random.Random(f"disk/{seed}"))
        hold_anchors(self.disk, monkeypatch)
        self.log = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        self.armed = False
        self.ledger = self.open()
        self.walk = Walk(Guarded(self), self.rng)  # type: ignore[arg-type]
        self.late: list[Late] = []
        self.views: list[tuple[Any, dict[str, Any]]] = []
        kinds = [self.write_some, self.talk, self.summarise, self.deliver, self.plan, self.operate, self.look]
        self.actors = [self.write_some, *self.rng.choices(kinds, k=self.rng.randrange(1, 6))]

    def open(self) -> Ledger:
        """Open the ledger, through as many power losses as it takes."""
        while True:
            try:
                ledger = Ledger.open(self.path, vfs=self.disk.name, failpoint=self._failpoint)
                if ledger.warnings:
                    # A torn anchor was checked and written anew; compaction waits for an opening without a warning.
                    self.note("warned", *ledger.warnings)
                    ledger.close()
                    continue
                return ledger
            except (PlannerFault, PowerOff) as error:
                self.disk.disarm()
                if self.disk.dead:
                    self.counts["lost"] += self.disk.power_loss()
                elif not is_of_the_machine(error):
                    raise

    def _failpoint(self, name: str) -> None:
        self.disk.step("failpoint")

    def note(self, *words: object) -> None:
        """Add a line to the log that a seed fixes."""
        self.log.update((" ".join(map(str, words)) + "\n").encode())

    def maybe_arm(self) -> None:
        """Draw a fault for the next operation."""
        luck = self.rng.random()
        if luck < self.rates.power:
            self.disk.arm("off", int(self.rng.expovariate(0.06)))
        elif luck < self.rates.power + self.rates.error:
            self.disk.arm(self.rng.choice(("error", "error", "forget")), int(self.rng.expovariate(0.1)))

    def recover(self) -> None:
        """Let the power go and come back: open connections are gone, and so is a part of what was not synced."""
        abandon(self.ledger)
        lost = self.disk.power_loss()
        self.counts["power"] += 1
        self.counts["lost"] += lost
        self.note("power", lost)
        self.views.clear()
        self.ledger = self.open()

    def event(self) -> int:
        """Return the newest event of the conversation."""
        return self.ledger.head(CHAT).event if CHAT in self.ledger.conversations() else 0

    def write(self, name: str, args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
        """Do one write through faults: not done means exactly as before and done again; done means done once."""
        before = self.event()
        while True:
            self.counts["operations"] += 1
            self.maybe_arm()
            try:
                done = getattr(self.ledger, name)(*args, **fields)
            except (PlannerFault, PowerOff) as error:
                if not self.settle(error):
                    raise
                if self.event() == before:
                    self.note(name, "not done")
                    if name != "resend":  # there the walk is ahead of the ledger
                        self.check()
                    continue
                # Seen is not promised: the next call that ends without an error promises it, and a power loss before
                # that may take it.
                with self.ledger._store.write("promise"):
                    pass
                self.note(name, "done unseen", self.event())
                return self.ledger.head(CHAT).generation
            self.disk.disarm()
            if self.disk.dead:
                self.recover()
            self.note(name, done)
            return done

    def settle(self, error: BaseException) -> bool:
        """Bring the machine back after a fault; false where the ledger itself has refused."""
        self.disk.disarm()
        if self.disk.dead:
            self.recover()
            return True
        assert isinstance(error, PlannerFault), "the power went and came back unseen"
        if error.code not in MACHINE_FAULTS:
            return False
        assert error.__context__ is None
        self.counts["faults"] += 1
        self.note("fault", error.code)
        return True

    def check(self) -> None:
        """Assert that the ledger reads as the plain lists do: nothing lost, nothing doubled, nothing half."""
        if self.event():
            assert self.walk.plain.expected() == seen(self.ledger.view(CHAT))

    # Actors: each does one thing when the scheduler calls it.

    def write_some(self) -> None:
        """Do one step of a conversation's life."""
        if not self.event():
            self.walk._new()
        else:
            self.walk.step()

    def talk(self) -> None:
        """Append an ordinary turn, so that there is something to summarise."""
        number = self.counts["operations"]
        messages = [
            Message("user", f"q{number}", f"We decided to use the plan {number}. Is it done?"),
            Message("assistant", f"r{number}", f"I will send report {number} on Monday."),
        ]
        self.walk.ledger.append(CHAT, f"talk{number}", messages, state="completed")
        self.walk.plain.append(f"talk{number}", messages, "completed")

    def compactor(self) -> Compactor:
        """Return the compactor of the conversation."""
        return Compactor(self.ledger, CHAT, Choices(POLICY, tail_turns=1))

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Make a call that reads and writes; a fault of the machine gives it up, and gives None."""
        self.counts["operations"] += 1
        self.maybe_arm()
        try:
            done = call()
        except (PlannerFault, PowerOff) as error:
            if not self.settle(error):
                raise
            return None
        self.disk.disarm()
        if self.disk.dead:
            self.recover()
        return done

    def summarise(self) -> None:
        """Freeze a plan and begin its summaries; the answers come back later."""
        if not self.event():
            return
        plan = self._guarded(lambda: self.compactor().propose(replace_active=self.rng.random() < 0.3))
        if not isinstance(plan, CompactionPlan):
            return
        for prompt in self.compactor().prompts(plan):
            run = plan.runs[prompt.run]
            answer = summarise(*(message["content"] for message in prompt.messages))
            self.late.append(Late(plan, prompt.run, answer, self.sources(run.turn_ids), self.marks(run.turn_ids)))
        self.note("plan", plan.plan_id, len(plan.runs))

    def sources(self, ids: tuple[str, ...]) -> dict[str, Any]:
        """Return the turns of these ids as they are now."""
        return {turn.id: turn for turn in self.walk.plain.shown() if turn.id in ids}

    def marks(self, ids: tuple[str, ...]) -> list[str]:
        """Return the constraints in force that these turns mark."""
        every = self.walk.plain.shown()
        return [one.id for one in relations(every).constraints if one.turn_id in ids]

    def deliver(self) -> None:
        """Bring one answer back, in whatever order; what is accepted must rest on what is there now (P4)."""
        if not self.late or self.rng.random() < self.rates.delay:
            return
        late = self.late.pop(self.rng.randrange(len(self.late)))
        run = late.plan.runs[late.run]
        active = self.ledger.active_plan(CHAT)
        same = (
            late.turns == self.sources(run.turn_ids) and late.constraints == self.marks(run.turn_ids)
            and late.plan.generation == self.walk.plain.generation
            and active is not None and active.plan_id == late.plan.plan_id
        )  # fmt: skip
        saved = self._guarded(lambda: self.compactor().accept(late.plan.plan_id, late.run, late.answer))
        if saved is None:
            self.late.append(late)
            return
        stale = saved.reason == "stale-source" if isinstance(saved, Rejected) else saved.status == "stale-source"
        if isinstance(saved, Saved) and saved.status == "accepted":
            assert same, "a summary of what is no longer so became active"
        assert not (stale and same), f"a summary of unchanged turns was refused: {saved}"
        self.counts[f"answer {getattr(saved, 'status', None) or saved.reason}"] += 1
        self.note("accept", saved)

    def plan(self) -> None:
        """Plan from the ledger and from plain turns on the wire: the same ids and the same receipt (P7)."""
        if not self.event():
            return
        request = request_of(window=self.rng.choice((400, 900, 4000)))
        head = self.ledger.head(CHAT)
        record = self.rng.random() < 0.3
        found = self._guarded(lambda: chat_of(self.ledger, CHAT).plan(request, record=record))
        if found is None:
            return
        now = self.ledger.head(CHAT)
        assert (head.generation, head.revision, head.last_sequence) == (now.generation, now.revision, now.last_sequence)
        view = self.view()
        sent = replace(
            request, conversation_id=CHAT, generation=head.generation, revision=head.revision,
            turns=tuple(self.walk.plain.shown()), summaries=view.summaries,
        )  # fmt: skip
        wanted = toy().plan(sent)
        if not view.stale:
            # A summary that is stale is in the receipt, and was not sent.
            assert dump_receipt(wanted.receipt) == dump_receipt(found.receipt)
        if isinstance(found, Plan):
            assert isinstance(wanted, Plan)
            assert tuple(wanted.ids) == tuple(found.ids)
        self.counts["plans"] += 1
        self.note("planned", found.receipt.plan_id)

    def view(self) -> Any:
        """Return the view that a plan of the policy reads."""
        return self.ledger.view(CHAT, active=Active(POLICY))

    def operate(self) -> None:
        """Close and open again, empty the -wal, or compare everything."""
        choice = self.rng.choice(("reopen", "checkpoint", "verify"))
        if choice == "reopen":
            self._guarded(self.ledger.close)
            if not self.ledger._store._closed:
                return
            self.views.clear()
            self.ledger = self.open()
        elif choice == "checkpoint":
            self._guarded(self.ledger._store.checkpoint)
        else:
            assert () == self.ledger.verify().problems
        self.note(choice)

    def look(self) -> None:
        """Take a view and read it later: it shows what was when it was taken."""
        if self.views and self.rng.random() < 0.6:
            view, wanted = self.views.pop()
            assert wanted == seen(view)
        elif self.event():
            self.views.append((self.ledger.view(CHAT), self.walk.plain.expected()))

    def run(self, operations: int) -> str:
        """Do that many turns of the scheduler; return the digest of the log."""
        for _ in range(operations):
            if self.rng.random() < self.rates.clock:
                self.now += self.rng.choice((-3_600.0, 1e9, -self.now, 1.0))
            self.rng.choice(self.actors)()
            if self.rng.random() < 0.1:
                self.check()
        self.disk.disarm()
        self.check()
        assert () == self.ledger.verify().problems
        self.ledger.close()
        self.disk.close()
        return self.log.hexdigest()
