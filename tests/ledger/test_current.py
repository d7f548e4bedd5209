"""The index of touches and full recomputation agree on which summaries are current, whatever happened."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from planner.ledger.current import Line, current_summaries, problem_of
from planner.ledger.heads import read_head
from planner.ledger.ledger import Ledger
from planner.ledger.lineage import lineage
from planner.ledger.summary_rows import SummaryRow, is_visible, rows_where
from planner.values.check_summary import may_be_covered, may_be_skipped
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from tests.ledger.summary_support import (
    ACTIVE,
    causes,
    current_ids,
    deliver,
    fill,
    freeze,
    recomputed,
    said,
    summary_of,
    turns_of,
)  # fmt: skip

STEPS = 30
EVENTS = (
    "edit", "protect", "mark", "supersede", "item", "withdraw", "late", "cancel", "end", "branch", "switch", "page",
)  # fmt: skip


class Script:
    """One random history of a conversation: application events, compactions, branches."""

    def __init__(self, ledger: Ledger, chat: str, rng: random.Random) -> None:
        """Begin with two turns."""
        self.ledger, self.chat, self.rng = ledger, chat, rng
        self.made = 0
        # A few kinds of events a history, so that they meet each other.
        self.names = ("turn", "turn", "compact", "compact", *rng.sample(EVENTS, rng.choice((3, 5, len(EVENTS)))))
        self.seen = dict.fromkeys(("current", "stale", "adopted"), 0)
        # Versions that were once not current, by branch: touched for good.
        self.changed: dict[str, set[int]] = {"main": set()}
        self.turn()
        self.turn()

    def step(self) -> str:
        """Do one thing and return its name; what a rule of the ledger forbids is passed over."""
        name = self.rng.choice(self.names)
        refused = () if name == "compact" else (RefusalSignal, PlannerFault)
        try:
            getattr(self, name)()
        except refused:
            return f"{name} refused"
        return name

    def _number(self) -> int:
        self.made += 1
        return self.made

    def _pick(self, *states: str) -> Turn | None:
        found = [turn for turn in turns_of(self.ledger, self.chat) if turn.state in states]
        return self.rng.choice(found) if found else None

    def turn(self) -> None:
        """Append a turn, completed or open."""
        number = self._number()
        words = (Message("user", f"u{number}", "Ask."), Message("assistant", f"a{number}", "Answer."))
        items = (OpenItem(f"i{number}", "pending"),) if self.rng.random() < 0.3 else ()
        state = "completed" if self.rng.random() < 0.8 else "open"
        self.ledger.append(self.chat, f"t{number}", words[: 2 if state == "completed" else 1], state=state,
                           open_items=items)  # fmt: skip

    def late(self) -> None:
        """Complete an open turn, behind the turns that began after it."""
        turn = self._pick("open")
        if turn is not None:
            answer = Message("assistant", f"a{turn.id[1:]}", "Late.")
            self.ledger.append(self.chat, turn.id, (answer,), state="completed")

    def cancel(self) -> None:
        """Cancel an open turn."""
        turn = self._pick("open")
        if turn is not None:
            self.ledger.cancel(self.chat, turn.id)

    def end(self) -> None:
        """End an open turn by an append that says no more than that."""
        turn = self._pick("open")
        if turn is not None:
            self.ledger.append(self.chat, turn.id, (), state=self.rng.choice(("cancelled", "superseded")))

    def edit(self) -> None:
        """Edit a message."""
        turn = self._pick("completed", "open")
        if turn is not None and turn.messages:
            message = self.rng.choice(turn.messages)
            words = Message(message.role, message.id, f"Edit {self._number()}.")
            self.ledger.edit(self.chat, message.id or "", words)

    def protect(self) -> None:
        """Set or clear the protection of a message of any turn."""
        turn = self._pick("completed", "open", "cancelled", "superseded")
        if turn is not None and turn.messages:
            reason = self.rng.choice((None, "audit-evidence", "active-constraint"))
            self.ledger.protect(self.chat, self.rng.choice(turn.messages).id or "", reason)

    def mark(self) -> None:
        """Mark a constraint on any turn, now and then one that another turn marks too."""
        turn = self._pick("completed", "open", "cancelled")
        name, text = f"C{self.rng.randrange(6)}", self.rng.choice(("Only read.", None))
        if turn is not None:
            self.ledger.mark(self.chat, turn.id, (MustPreserve(name, text),))

    def supersede(self) -> None:
        """Take a constraint back."""
        turn, name = self._pick("completed", "open"), f"C{self.rng.randrange(6)}"
        if turn is not None:
            self.ledger.supersede(self.chat, turn.id, (name,))

    def item(self) -> None:
        """Give an open item another status."""
        turn = self._pick("completed")
        for item in turn.open_items if turn is not None else ():
            if turn is not None:
                status = self.rng.choice(("pending", "blocked", "done"))
                self.ledger.set_item(self.chat, turn.id, OpenItem(item.id, status))  # type: ignore[arg-type]

    def withdraw(self) -> None:
        """Withdraw a turn."""
        turn = self._pick("completed", "open")
        if turn is not None:
            self.ledger.withdraw(self.chat, turn.id)

    def branch(self) -> None:
        """Make a branch and go on with it."""
        turn = self._pick("completed", "open", "cancelled", "superseded")
        if turn is not None:
            name = f"b{self._number()}"
            self.changed[name] = set(self.changed[self.ledger.head(self.chat).branch])
            self.ledger.branch(self.chat, name, at_turn_id=turn.id)
            self.ledger.switch(self.chat, name)

    def switch(self) -> None:
        """Go on with any branch."""
        self.ledger.switch(self.chat, self.rng.choice(self.ledger.branches(self.chat)))

    def page(self) -> None:
        """Change the page."""
        self.ledger.new_generation(self.chat)

    def compact(self) -> None:
        """Summarise a stretch of turns that may be summarised."""
        turns = turns_of(self.ledger, self.chat)
        constraints = self.ledger.view(self.chat).constraints
        stretches: list[list[Turn]] = [[]]
        for turn in turns:
            if may_be_covered(turn, constraints):
                stretches[-1].append(turn)
            elif not (stretches[-1] and may_be_skipped(turn, constraints)):
                stretches.append([])
        runs = [stretch for stretch in stretches if stretch]
        if not runs:
            return
        run = self.rng.choice(runs)
        start = self.rng.randrange(len(run))
        end = self.rng.randrange(start, len(run))
        number = self._number()
        plan = freeze(self.ledger, f"p{number}", (run[start].id, run[end].id), chat=self.chat)
        saved = deliver(self.ledger, summary_of(plan, f"s{number}"))
        assert "accepted" == saved.status

    def check(self, done: list[str]) -> None:
        """Compare index and recomputation on every version that this line sees."""
        with self.ledger._store.read("check") as connection:
            head = read_head(connection, self._key(connection))
            line = Line(head.conversation, lineage(connection, head.branch, head.event), head.generation)
            rows = rows_where(connection, "conversation = ? AND status = 'accepted'", (head.conversation,))
            rows = [row for row in rows if is_visible(row, line.segments)]
            problems = {row.event: problem_of(connection, line, row, ACTIVE) for row in rows}
            current = current_summaries(connection, line, ACTIVE)
        for row in rows:
            record = row.record()
            assert record is not None
            fresh = recomputed(self.ledger, record, self.chat)
            changed = self.changed[self.ledger.head(self.chat).branch]
            changed |= set() if fresh else {row.event}
            current_row = problems[row.event] is None
            assert (row.event not in changed) == current_row, (row.id, row.covers, problems[row.event], done)
            self.seen["current" if current_row else "stale"] += 1
            self.seen["adopted"] += current_row and row.generation != head.generation
        assert naive_choice([row for row in rows if problems[row.event] is None]) == [row.id for row in current.rows]
        assert all(record.source_generation == head.generation for record in current.summaries)

    def _key(self, connection: object) -> int:
        from planner.ledger.heads import conversation_key

        return conversation_key(connection, self.chat)  # type: ignore[arg-type]


def naive_choice(rows: list[SummaryRow]) -> list[str]:
    """Oracle of X51: take the widest that overlaps nothing taken, of equal ones the newest, until none is left."""
    taken: list[SummaryRow] = []
    left = list(rows)
    while left:
        best = max(left, key=lambda row: (row.covers_to - row.covers_from, row.event))
        taken.append(best)
        left = [row for row in left if row.covers_to < best.covers_from or best.covers_to < row.covers_from]
    return [row.id for row in sorted(taken, key=lambda row: row.covers_from)]


def test_the_index_of_touches_equals_full_recomputation(tmp_path: Path, seed: int, max_examples: int) -> None:
    """After every step of random histories, touched means changed and untouched means equal (design.md §8).

    What was changed and changed back stays touched.
    """
    seen = dict.fromkeys(("current", "stale", "adopted"), 0)
    with Ledger.open(tmp_path / "ledger") as ledger:
        for number in range(max_examples):
            script = Script(ledger, f"c{number}", random.Random(f"{seed}/{number}"))
            done: list[str] = []
            for _ in range(STEPS):
                done.append(script.step())
                script.check(done)
            seen = {name: count + script.seen[name] for name, count in seen.items()}
    assert all(seen.values()), f"a kind of summary never came up: {seen}"


def test_a_change_and_its_way_back_stale_a_summary_all_the_same(tmp_path: Path) -> None:
    """The index is the stricter of the two: an item that was blocked for a while was news that a summary lacks."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.append("c1", "t1", (Message("user", "u1", "Ask."), Message("assistant", "a1", "Answer.")),
                      state="completed", open_items=(OpenItem("i1", "pending"),))  # fmt: skip
        record = summary_of(freeze(ledger, "p1", ("t1", "t1")))
        assert "accepted" == deliver(ledger, record).status
        ledger.set_item("c1", "t1", OpenItem("i1", "blocked"))
        ledger.set_item("c1", "t1", OpenItem("i1", "pending"))
        assert recomputed(ledger, record)
        assert () == ledger.view("c1", active=ACTIVE).summaries
        assert {"s1": ("open_item_changed", "i1")} == causes(ledger)


@pytest.mark.parametrize("widths", [((0, 9), (0, 4)), ((0, 4), (0, 9)), ((0, 4), (2, 6), (5, 9))])
def test_overlapping_summaries_never_share_a_view(widths: tuple[tuple[int, int], ...]) -> None:
    """X51: the widest first, of equal ones the newest."""
    from planner.ledger.current import choose

    rows = [
        SummaryRow(
            event, 1, 1, f"s{event}", 1, "p", 1, 1, 0, first, last, last, "f", "1", "1", "accepted", *(None,) * 4, "{}"
        )
        for event, (first, last) in enumerate(widths)
    ]
    assert naive_choice(rows) == [row.id for row in choose(rows)]


@pytest.mark.parametrize("change", ["protect", "mark"])
def test_a_turn_that_ended_inside_an_interval_can_stale_the_summary_over_it(tmp_path: Path, change: str) -> None:
    """X37: a cancelled turn that gets a protection or a constraint ends the run, although it was only skipped."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        fill(ledger, 1)
        ledger.append("c1", "t2", said(2)[:1])
        ledger.cancel("c1", "t2")
        fill(ledger, 3)
        record = summary_of(freeze(ledger, "p1", ("t1", "t3")))
        assert ("accepted", True) == (deliver(ledger, record).status, recomputed(ledger, record))
        if change == "protect":
            ledger.protect("c1", "u2", "audit-evidence")
        else:
            ledger.mark("c1", "t2", (MustPreserve("C1", "Only read."),))
        assert ([], False) == (current_ids(ledger), recomputed(ledger, record))
