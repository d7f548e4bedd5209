"""Writers and late summarisers in several processes: what is accepted is what one after the other would accept.

threats.md §1.2 row 5 (P3, P4). The oracle replays the events in commit order in plain dicts and compares versions of
rows; it knows neither fingerprints nor the index of touches.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger.heads import conversation_key
from planner.ledger.ledger import Ledger
from planner.ledger.pointers import pointers_by_facts
from planner.ledger.stored import Checked
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.summary import SummaryRecord
from planner.values.turn import OpenItem
from tests.ledger.summary_support import ACTIVE, edit, fill, plan_of, said, summary_of

FULL = os.environ.get("PLANNER_FULL") == "1"
ROUNDS, PROCESSES = (2000, 4) if FULL else (60, 3)
TURNS = 5
STEPS = 6


class Actor:
    """One process in one round: it writes, freezes plans, starts summaries and returns them late."""

    def __init__(self, ledger: Ledger, number: int, round_: int, seed: int) -> None:
        """Take a part in a round."""
        self.ledger, self.number, self.chat = ledger, number, f"c{round_}"
        self.rng = random.Random(f"{seed}/{round_}/{number}")
        self.jobs: list[SummaryRecord] = []
        self.told: list[tuple[str, str, str | None, str]] = []
        self.acked: list[str] = []

    def run(self) -> None:
        """Do some things, then return every summary that is still under way."""
        names = ("plan", "start", "start", "come_back", "edit", "append", "protect", "item", "page")
        weights = (4, 5, 3, 6, 2, 2, 1, 1, 1)
        for step in range(STEPS):
            name = self.rng.choices(names, weights)[0]
            try:
                getattr(self, name)(step)
            except RefusalSignal:
                continue
            except PlannerFault as fault:
                if fault.code not in ("stale_generation", "duplicate_id"):
                    raise
        self.rng.shuffle(self.jobs)
        while self.jobs:
            self.come_back(STEPS)

    def plan(self, step: int) -> None:
        """Freeze a plan over some stretch, in place of whatever is active."""
        first = self.rng.randrange(1, TURNS)
        last = self.rng.randrange(first, TURNS)
        with self.ledger._store.read("one snapshot"):
            plan = plan_of(self.ledger, f"p{self.number}.{step}", (f"t{first}", f"t{last}"), chat=self.chat)
        self.ledger.save_plan(plan, replace=True)

    def start(self, step: int) -> None:
        """Begin a summary of the active plan."""
        plan = self.ledger.active_plan(self.chat)
        if plan is not None:
            self.jobs.append(summary_of(plan, f"s{self.number}.{step}"))

    def come_back(self, step: int) -> None:
        """Return one summary, now and then twice."""
        if not self.jobs:
            return
        record = self.jobs.pop(self.rng.randrange(len(self.jobs)))
        for _ in range(self.rng.choice((1, 1, 2))):
            seen = self.ledger.head(self.chat).event
            saved = self.ledger.save_summary(record, record.plan_id, Checked(seen, ACTIVE))
            self.told.append((record.id, saved.status, saved.cause, saved.summary_id))

    def edit(self, step: int) -> None:
        """Edit a source."""
        edit(self.ledger, self.rng.randrange(1, TURNS + 1), f"Edit {self.number}.{step}", self.chat)

    def append(self, step: int) -> None:
        """Append a turn behind everything."""
        name = f"x{self.number}.{step}"
        messages = [message.__class__(message.role, f"{message.id}.{name}", message.text) for message in said(step)]
        self.ledger.append(self.chat, name, messages, state="completed")
        self.acked.append(name)

    def protect(self, step: int) -> None:
        """Protect or free a source."""
        reason = self.rng.choice((None, "audit-evidence"))
        self.ledger.protect(self.chat, f"a{self.rng.randrange(1, TURNS + 1)}", reason)  # type: ignore[arg-type]

    def item(self, step: int) -> None:
        """Add an open item to a source."""
        self.ledger.set_item(self.chat, f"t{self.rng.randrange(1, TURNS + 1)}", OpenItem(f"i{step}", "pending"))

    def page(self, step: int) -> None:
        """Change the page."""
        self.ledger.new_generation(self.chat)


def _work(path: Path, number: int, seed: int, rounds: int, barrier: Any) -> None:
    """Take part in every round; all begin a round together."""
    out = []
    with Ledger.open(path) as ledger:
        for round_ in range(rounds):
            actor = Actor(ledger, number, round_, seed)
            barrier.wait(60)
            actor.run()
            out.append([actor.told, actor.acked])
    path.with_name(f"told{number}").write_text(json.dumps(out), encoding="utf-8")


class Oracle:
    """Events of one conversation one after the other: versions of rows, the active plan, what is to be accepted."""

    def __init__(self, connection: apsw.Connection, conversation: int) -> None:
        """Read the rows."""
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        for table in ("message", "turn", "generation", "plan", "summary"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = connection.execute(f"SELECT * FROM {table} WHERE conversation = ?", (conversation,)).fetchall()
            found = [dict(zip(names, row, strict=True)) for row in rows]
            self.rows[table] = {row["event"]: row for row in found}
        self.versions: dict[tuple[str, str], int] = {}
        self.at: dict[int, dict[tuple[str, str], int]] = {}
        self.done: set[tuple[str, int, int]] = set()
        self.verdicts: dict[str, str | None] = {}
        self._replay()

    def _replay(self) -> None:
        generation, active = 0, ""
        for event in sorted({event for rows in self.rows.values() for event in rows}):
            for table, name in (("message", "id"), ("turn", "id")):
                row = self.rows[table].get(event)
                if row is not None:
                    self.versions[table, row[name]] = row["version"]
            if event in self.rows["generation"]:
                generation = self.rows["generation"][event]["generation"]
            if event in self.rows["plan"]:
                active = self.rows["plan"][event]["id"]
            if event in self.rows["summary"]:
                self._judge(self.rows["summary"][event], generation, active)
            self.at[event] = dict(self.versions)

    def _judge(self, row: dict[str, Any], generation: int, active: str) -> None:
        plan = next(one for one in self.rows["plan"].values() if one["id"] == row["plan_id"])
        key = (row["plan_id"], row["covers_from"], row["covers_to"])
        assert key not in self.done, "a second version of a run that has one"
        if row["plan_id"] != active:
            verdict = "plan"
        elif plan["generation"] != generation:
            verdict = "generation"
        else:
            verdict = "changed" if self.moved(plan) else None
        self.verdicts[row["id"]] = verdict
        if verdict is None:
            self.done.add(key)

    def moved(self, plan: dict[str, Any]) -> bool:
        """Compare every row of the run with what it was when the plan looked."""
        before = self.at[max(event for event in self.at if event <= plan["seen_event"])]
        (run,) = json.loads(plan["body"])["runs"]
        keys = [*(("turn", name) for name in run["turnIds"]), *(("message", name) for name in run["sourceIds"])]
        return any(before[key] != self.versions[key] for key in keys)


CAUSES = {
    "plan_inactive": "plan", "other_generation": "generation", "source_changed": "changed",
    "protection_changed": "changed", "open_item_changed": "changed", "source_missing": "changed",
}  # fmt: skip


def _check_round(ledger: Ledger, round_: int, told: list[Any]) -> Counter[str]:
    """Compare what the processes were told, what is stored, and what the oracle says."""
    chat = f"c{round_}"
    with ledger._store.read("check") as connection:
        conversation = conversation_key(connection, chat)
        oracle = Oracle(connection, conversation)
        runs = connection.execute(
            "SELECT branch, covers_from, covers_to, summary FROM active_run WHERE conversation = ? ORDER BY 1, 2",
            (conversation,),
        ).fetchall()
        assert sorted(pointers_by_facts(connection, conversation)) == sorted(runs), "the pointer is not what facts say"
    stored = {row["id"]: row for row in oracle.rows["summary"].values()}
    verdicts = {name: None if row["status"] == "accepted" else CAUSES[row["cause"]] for name, row in stored.items()}
    assert oracle.verdicts == verdicts, (chat, "not what one after the other would accept")
    for name, status, cause, named in told:
        if status == "duplicate":
            assert "accepted" == stored[named]["status"]
        else:
            assert (name, status, cause) == (named, stored[name]["status"], stored[name]["cause"])
    _check_pointer(runs, oracle)
    return Counter(str(verdict) for verdict in verdicts.values()) + Counter(status for _, status, _, _ in told)


def _check_pointer(runs: list[Any], oracle: Oracle) -> None:
    """The pointer names accepted versions that do not overlap, and no accepted one that still stands lies beside it."""
    events = oracle.rows["summary"]
    assert all("accepted" == events[event]["status"] for _, _, _, event in runs)
    for one, other in itertools.pairwise(runs):
        assert one[2] < other[1], "two summaries of one pointer overlap"
    plans = {plan["id"]: plan for plan in oracle.rows["plan"].values()}
    for row in events.values():
        if row["status"] == "accepted" and not oracle.moved(plans[row["plan_id"]]):
            assert any(first <= row["covers_to"] and last >= row["covers_from"] for _, first, last, _ in runs)


def race(folder: Path, seed: int, rounds: int) -> Counter[str]:
    """Let the processes loose and judge every round; return what came up how often."""
    path = folder / "ledger"
    with Ledger.open(path) as ledger:
        for round_ in range(rounds):
            fill(ledger, *range(1, TURNS + 1), chat=f"c{round_}")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(PROCESSES)
    workers = [context.Process(target=_work, args=(path, number, seed, rounds, barrier)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(3600 if FULL else 120)
    assert [0] * PROCESSES == [worker.exitcode for worker in workers]
    answers = [json.loads((folder / f"told{number}").read_text(encoding="utf-8")) for number in range(PROCESSES)]
    seen: Counter[str] = Counter()
    with Ledger.open(path) as ledger:
        for round_ in range(rounds):
            seen += _check_round(ledger, round_, [told for answer in answers for told in answer[round_][0]])
            known = {turn.id for turn in ledger.turns(f"c{round_}")}
            assert {name for answer in answers for name in answer[round_][1]} <= known, "an acknowledged turn is lost"
        assert () == ledger.verify().problems
    return seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the actors are made by fork")
def test_late_summaries_of_several_processes_are_judged_one_after_the_other(tmp_path: Path, seed: int) -> None:
    """60 rounds of 3 processes (2,000 of 4 with PLANNER_FULL=1): the accepted set is the sequential oracle's."""
    print(f"PLANNER_SEED={seed}")
    seen = race(tmp_path, seed, ROUNDS)
    print(dict(seen))
    assert {"None", "plan", "generation", "changed", "accepted", "stale-source", "duplicate"} <= seen.keys(), seen
