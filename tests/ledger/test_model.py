"""Random histories: whatever is done, the ledger reads like plain lists do."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.steps.recall import recall, recall_view
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.rung import History
from planner.values.turn import Message, MustPreserve, OpenItem
from tests.ledger.oracle import Plain
from tests.ledger.support import seen

REASONS = (None, "pending-confirmation", "active-constraint", "audit-evidence")


class Walk:
    """One random history, done to the ledger and to the plain lists."""

    names = ("new", "new", "more", "end", "edit", "protect", "mark", "supersede", "item", "branch", "switch",
             "generation", "resend", "again")  # fmt: skip

    def __init__(self, ledger: Ledger, rng: random.Random) -> None:
        """Start with an empty conversation."""
        self.ledger, self.rng, self.plain = ledger, rng, Plain()
        self.made = 0

    def step(self) -> None:
        """Do one thing that is allowed now."""
        getattr(self, f"_{self.rng.choice(self.names)}")()

    def _message(self, role: str) -> Message:
        self.made += 1
        names = (f"C{self.rng.randrange(6)}",) if self.rng.random() < 0.2 else ()
        return Message(role, f"m{self.made}", f"text {self.rng.random()}", constraint_ids=names)  # type: ignore[arg-type]

    def _new(self) -> None:
        messages = [self._message("user")]
        state = self.rng.choice(("open", "completed", "completed"))
        if state == "completed":
            messages.append(self._message("assistant"))
        self.last = (f"t{self.made}", messages, state)
        self.ledger.append("c", f"t{self.made}", messages, state=state)
        self.plain.append(f"t{self.made}", messages, state)

    def _again(self) -> None:
        """A repeated call changes nothing."""
        turn = next((turn for turn in self.plain.line if turn.id == getattr(self, "last", ("",))[0]), None)
        if turn is not None and all(message.version == 1 for message in turn.messages) and turn.state != "cancelled":
            before = self.ledger.head("c")
            done = self.ledger.append("c", self.last[0], self.last[1])
            assert (done.changed, self.ledger.head("c")) == (False, before)

    def _pick(self, *states: str) -> str | None:
        found = [turn.id for turn in self.plain.line if turn.state in states]
        return self.rng.choice(found) if found else None

    def _more(self) -> None:
        turn_id = self._pick("open")
        if turn_id is not None:
            messages = [self._message(self.rng.choice(("user", "assistant")))]
            self.ledger.append("c", turn_id, messages)
            self.plain.append(turn_id, messages)

    def _end(self) -> None:
        turn_id = self._pick("open")
        if turn_id is not None:
            answered = any(entry.role == "assistant" for entry in self.plain.turn(turn_id).messages)
            state = self.rng.choice(("completed", "cancelled", "superseded"))
            if state != "completed" or answered:
                self.ledger.set_state("c", turn_id, state)
                self.plain.set_state(turn_id, state)

    def _edit(self) -> None:
        turn_id = self._pick("open", "completed")
        if turn_id is not None:
            message = self.rng.choice(self.plain.turn(turn_id).messages)
            text = self.rng.choice((message.text, f"edited {self.rng.random()}"))
            names = self.rng.choice((message.constraint_ids, ()))
            new = Message(message.role, message.id, text, constraint_ids=names)
            self.ledger.edit("c", str(message.id), new)
            self.plain.change(str(message.id), text=text, constraint_ids=names)

    def _protect(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled")
        if turn_id is not None:
            message = self.rng.choice(self.plain.turn(turn_id).messages)
            reason = self.rng.choice(REASONS)
            self.ledger.protect("c", str(message.id), reason)  # type: ignore[arg-type]
            self.plain.protect(str(message.id), reason)  # type: ignore[arg-type]

    def _mark(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled")
        name = f"C{self.rng.randrange(6)}"
        if turn_id is not None and name not in self.plain.turn(turn_id).supersedes:
            # One wording an id, so that a mark made again is not refused.
            text = None if name == "C5" else f"wording of {name}"
            self.ledger.mark("c", turn_id, [MustPreserve(name, text)])
            self.plain.mark(turn_id, [MustPreserve(name, text)])

    def _supersede(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled")
        if turn_id is not None:
            turn = self.plain.turn(turn_id)
            earlier = [entry for entry in self.plain.line if entry.sequence < turn.sequence]
            known = {mark.constraint_id for entry in earlier for mark in entry.must_preserve}
            known -= {mark.constraint_id for mark in turn.must_preserve}
            if known:
                name = self.rng.choice(sorted(known))
                self.ledger.supersede("c", turn_id, [name])
                self.plain.supersede(turn_id, [name])

    def _item(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled")
        if turn_id is not None:
            item = OpenItem(f"I{self.rng.randrange(4)}", self.rng.choice(("pending", "blocked", "done")))
            self.ledger.set_item("c", turn_id, item)
            self.plain.set_item(turn_id, item)

    def _branch(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled", "superseded")
        if turn_id is not None and len(self.plain.lines) < 5:
            name = f"b{len(self.plain.lines)}"
            self.ledger.branch("c", name, at_turn_id=turn_id)
            self.plain.make_branch(name, turn_id)

    def _switch(self) -> None:
        if self.plain.lines != {"main": []}:
            name = self.rng.choice(sorted(self.plain.lines))
            self.plain.generation = self.ledger.switch("c", name)
            self.plain.branch = name

    def _generation(self) -> None:
        if self.plain.last_sequence >= 0:
            self.plain.generation += 1
            assert self.plain.generation == self.ledger.new_generation("c")

    def _resend(self) -> None:
        turn_id = self._pick("open", "completed")
        if turn_id is not None and self.rng.random() < 0.3:
            self.plain.set_state(turn_id, "superseded")
            self.plain.generation += 1
            assert self.plain.generation == self.ledger.resend("c", turn_id)


def _recalled(call: Callable[[], History]) -> object:
    """Return a history, or the reason it was refused for."""
    try:
        return call()
    except RefusalSignal as signal:
        return (signal.reason, signal.detail)


def _assert_recalled_alike(walk: Walk) -> None:
    request = PlanRequest(model_bundle_id="reference", request=CurrentRequest(id="ask", text="And now?"))
    sent = replace(request, turns=tuple(walk.plain.shown()))
    view = walk.ledger.view("c")
    assert _recalled(lambda: recall(sent)) == _recalled(lambda: recall_view(request, view))


class PurgingWalk(Walk):
    """A history with retention runs and without constraints, which outlive their turns."""

    names = ("new", "new", "new", "more", "end", "edit", "branch", "switch", "resend", "item", "protect", "retain")

    def _message(self, role: str) -> Message:
        return replace(super()._message(role), constraint_ids=())

    def _item(self) -> None:
        turn_id = self._pick("open", "completed", "cancelled")
        if turn_id is not None:
            self.ledger.set_item("c", turn_id, OpenItem("i", "done"))
            self.plain.set_item(turn_id, OpenItem("i", "done"))

    def _retain(self) -> None:
        border = self.rng.randrange(self.plain.last_sequence + 2)
        every = {id(turn): turn for line in self.plain.lines.values() for turn in line if turn.sequence < border}
        if any(turn.state == "open" or (turn.pinned and turn.state != "superseded") for turn in every.values()):
            with pytest.raises(RefusalSignal):
                self.ledger.retain("c", border, "policy")
            return
        self.ledger.retain("c", border, "policy")
        for name, line in self.plain.lines.items():
            self.plain.lines[name] = [turn for turn in line if turn.sequence >= border]


@pytest.mark.parametrize("part", range(2))
def test_what_is_left_after_retention_reads_as_before(tmp_path: Path, seed: int, max_examples: int, part: int) -> None:
    """Retention runs in between take a beginning away from every line and change nothing of the rest."""
    for example in range(max(1, max_examples // 5)):
        rng = random.Random(f"{seed}/purge/{part}/{example}")
        with Ledger.open(tmp_path / f"ledger-{example}") as ledger:
            walk = PurgingWalk(ledger, rng)
            walk._new()
            for _ in range(40):
                walk.step()
                if rng.random() < 0.3:
                    assert walk.plain.expected() == seen(ledger.view("c"))
            for name in walk.plain.lines:
                assert walk.plain.shown(name) == list(ledger.turns("c", branch=name))
            assert () == ledger.verify().problems
            assert ledger.verify(rebuild=True).rebuilt
            assert walk.plain.expected() == seen(ledger.view("c"))


@pytest.mark.parametrize("part", range(5))
def test_R61_branches_do_not_leak(tmp_path: Path, seed: int, max_examples: int, part: int) -> None:
    """Every line of every history equals a list that was copied when the branch was made."""
    for example in range(max(1, max_examples // 5)):
        rng = random.Random(f"{seed}/{part}/{example}")
        path = tmp_path / f"ledger-{example}"
        with Ledger.open(path) as ledger:
            walk = Walk(ledger, rng)
            walk._new()
            for _ in range(40):
                walk.step()
                if rng.random() < 0.3:
                    assert walk.plain.expected() == seen(ledger.view("c"))
            for name in walk.plain.lines:
                assert walk.plain.shown(name) == list(ledger.turns("c", branch=name))
            _assert_recalled_alike(walk)
            assert () == ledger.verify().problems
            assert ledger.verify(rebuild=True).rebuilt
            assert walk.plain.expected() == seen(ledger.view("c"))
        with Ledger.open(path, read_only=True) as again:
            assert walk.plain.expected() == seen(again.view("c"))
            assert walk.plain.generation == again.head("c").generation
            assert walk.plain.last_sequence == again.head("c").last_sequence
