"""D14 as a script of ledger events: the plan and the sources decide, never who comes last."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.summary import SummaryRecord
from tests.cases.common import case, check, variant
from tests.ledger.summary_support import (
    ACTIVE,
    CHAT,
    copy_ledger,
    current_ids,
    deliver,
    edit,
    fill,
    freeze,
    statuses,
    summary_of,
    summary_state,
    turns_of,
)


@dataclass
class Race:
    """The ledger after event 4 of the case, with the two answers that are under way."""

    ledger: Ledger
    path: Path
    answers: dict[str, SummaryRecord]

    def arrives(self, name: str) -> Saved:
        """Let a job return; a second try of the same answer is the same record."""
        return deliver(self.ledger, self.answers[name])


def run_events(shared: Path, path: Path, upto: int = 4) -> Race:
    """Do the events of the case up to one; the turns of the case are t1, t2, ..."""
    ledger = Ledger.open(path)
    answers = {}
    names = {"pA": "S-A", "pB": "S-B"}
    for event in case(shared, "D14").input["ledgerEvents"]:
        if event["at"] > upto:
            break
        if event["do"].startswith("append completed"):
            fill(ledger, *(int(name[1:]) for name in event["turns"]))
        else:
            first, last = event["sourceIds"][0], event["sourceIds"][-1]
            plan = freeze(ledger, event["planId"], (first.lower(), last.lower()))
            answers[names[event["planId"]]] = summary_of(plan, names[event["planId"]])
    return Race(ledger, path, answers)


@pytest.fixture
def race(shared_dir: Path, tmp_path: Path) -> Iterator[Race]:
    """The case after event 4."""
    found = run_events(shared_dir, tmp_path / "ledger")
    yield found
    found.ledger.close()


def shown(ledger: Ledger) -> list[str]:
    """Return what a plan is made of: summaries at their place, and the turns they do not cover."""
    view = ledger.view(CHAT, active=ACTIVE)
    covered = [(record.covers_from, record.covers_to) for record in view.summaries]
    raw = [turn for turn in view.turns if not any(first <= turn.sequence <= last for first, last in covered)]
    placed = [(record.covers_to, record.id) for record in view.summaries]
    return [name for _, name in sorted([*placed, *((turn.sequence, turn.id) for turn in raw)])]


def test_D14_a_slow_summary_never_overwrites_a_newer_one(race: Race, tmp_path: Path) -> None:
    """Event 5 is accepted, event 6 is stale whenever it comes, and nothing a reader sees changes with it."""
    first = race.arrives("S-B")
    check("D14", "event 5: S-B accepted and current", ("accepted", ["S-B"]) == (first.status, current_ids(race.ledger)))
    before = (shown(race.ledger), race.ledger.view(CHAT, active=ACTIVE))
    late = race.arrives("S-A")
    check("D14", "event 6: S-A rejected as stale", ("stale-source", "plan_inactive", "pB") == (
        late.status, late.cause, late.causing_id,
    ) and [("S-B", "current"), ("S-A", "stale")] == statuses(race.ledger))  # fmt: skip
    after = (shown(race.ledger), race.ledger.view(CHAT, active=ACTIVE))
    check("D14", "event 7: the plan uses S-B once", ["S-B", "t4", "t5"] == after[0])
    check("D14", "T5, which arrived while pB", "t5" in [turn.id for turn in turns_of(race.ledger)])
    check("D14", "S-A's arrival changes nothing", before[0] == after[0] and all(
        getattr(before[1], name) == getattr(after[1], name) for name in ("summaries", "stale", "chain", "revision")
    ))  # fmt: skip


def test_D14_any_order_of_arrival_ends_in_the_same_state(shared_dir: Path, tmp_path: Path) -> None:
    """Both answers, also delivered twice, in every order: one pointer, one accepted version, the same view."""
    run_events(shared_dir, tmp_path / "start").ledger.close()
    ends = set()
    for number, order in enumerate(sorted(set(itertools.permutations(("S-A", "S-B", "S-A", "S-B"))))):
        path = copy_ledger(tmp_path / "start", tmp_path / f"ledger{number}")
        for name in order:
            # A process of its own each: nothing but the file is shared.
            with Ledger.open(path) as ledger:
                plan = ledger.compaction_plan(CHAT, "pA" if name == "S-A" else "pB")
                assert plan is not None
                deliver(ledger, summary_of(plan, name))
        with Ledger.open(path) as ledger:
            state = summary_state(path)
            ends.add((tuple(shown(ledger)), repr(sorted(state["versions"])), repr(state["pointers"])))
    check("D14", "repeating events 5 and 6 in any order", 1 == len(ends))


def test_D14a_an_edit_of_a_source_refuses_the_summary(shared_dir: Path, race: Race) -> None:
    """Between 4 and 5 the user edits T2."""
    wanted = variant(shared_dir, "D14", "a")["expected"]
    edit(race.ledger, 2)
    saved = race.arrives("S-B")
    check("D14", "S-B is rejected because the fingerprint of T2 changed", (wanted["code"], "u2", []) == (
        saved.status, saved.causing_id, current_ids(race.ledger),
    ) and ["t1", "t2", "t3", "t4", "t5"] == shown(race.ledger))  # fmt: skip


def test_D14b_an_append_refuses_nothing(race: Race) -> None:
    """Between 4 and 5 only T6 is appended."""
    fill(race.ledger, 6)
    saved = race.arrives("S-B")
    check("D14", "S-B is accepted: the covered turns are unchanged", ("accepted", ["S-B", "t4", "t5", "t6"]) == (
        saved.status, shown(race.ledger),
    ))  # fmt: skip


def test_D14c_a_process_that_dies_leaves_a_whole_state(race: Race, tmp_path: Path) -> None:
    """The process ends between the version row and the pointer; every other point: test_save_failpoints.py."""

    class Death(BaseException):
        pass

    def die(name: str) -> None:
        if name == "after_summary":
            raise Death

    race.ledger._store.fail = die
    with pytest.raises(Death):
        race.arrives("S-B")
    race.ledger.close()
    with Ledger.open(race.path) as ledger:
        state = summary_state(race.path)
        check("D14", "after restart either S-B is current", ([], [], ["t1", "t2", "t3", "t4", "t5"]) == (
            state["versions"], state["pointers"], shown(ledger),
        ))  # fmt: skip
        assert "accepted" == deliver(ledger, race.answers["S-B"]).status


def test_D14d_the_same_result_twice_is_one_version(race: Race) -> None:
    """The second delivery is a typed duplicate with the first one's id."""
    race.arrives("S-B")
    before = summary_state(race.path)
    again = race.arrives("S-B")
    check("D14", "one stored version, the second delivery", ("duplicate", "S-B", before) == (
        again.status, again.summary_id, summary_state(race.path),
    ))  # fmt: skip
