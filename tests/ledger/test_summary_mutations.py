"""The planted bugs of threats.md §1.2, for the summary side: each is caught by the tests that stand for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.ledger import pointers, summaries
from planner.ledger.ledger import Ledger
from planner.ledger.scope import Scope, open_scope
from planner.ledger.store import Store
from tests.ledger import test_save_failpoints as matrix
from tests.ledger import test_summaries as rules
from tests.ledger.summary_support import copy_ledger, fill
from tests.ledger.test_save_failpoints import Start, starts
from tests.ledger.test_summary_races import race

__all__ = ["starts"]  # the fixture is used by name


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    """A ledger as the tests of the rules take it."""
    with Ledger.open(tmp_path / "ledger") as opened:
        fill(opened, 1, 2, 3, 4, 5)
        yield opened


def no_cause(scope: Scope, job: Any) -> None:
    """Last writer wins: whatever comes last is taken."""


def by_revision(scope: Scope, record: Any, event: int) -> tuple[str, None] | None:
    """Any change of the conversation is a change of the sources."""
    return None if scope.head.revision == record.source_revision else ("source_changed", None)


def untouched(scope: Scope, record: Any, event: int) -> None:
    """Sources never change."""


def save_in_two_steps(*, pointer_first: bool) -> Callable[..., Any]:
    """Return a save whose pointer moves in a transaction of its own, before or after the version."""

    def save(store: Store, job: Any) -> Any:
        if pointer_first:
            with store.write("pointer first") as tx:
                scope = open_scope(tx, job.record.conversation_id, None)
                tx.connection.execute("DELETE FROM active_run WHERE conversation = ?", (scope.conversation,))
                tx.unchained = True
            return original_save(store, job)
        moved: list[int] = []
        move = summaries.move_pointer
        summaries.move_pointer = lambda scope, event: moved.append(event)
        try:
            saved = original_save(store, job)
        finally:
            summaries.move_pointer = move
        for event in moved:
            with store.write("pointer later") as tx:
                move(open_scope(tx, job.record.conversation_id, None), event)
                tx.unchained = True
        return saved

    return save


original_save = summaries._save


@pytest.mark.parametrize("pointer_first", [True, False])
def test_a_pointer_that_moves_apart_from_its_version_is_caught(
    starts: dict[str, Start], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pointer_first: bool
) -> None:
    """`pointer before version` and its mirror: the matrix of failpoints sees a state that is neither old nor new."""
    monkeypatch.setattr(summaries, "_save", save_in_two_steps(pointer_first=pointer_first))
    caught = []
    for point in ("after_summary", "before_commit", "after_commit"):
        start = starts["valid"]
        path = copy_ledger(start.path, tmp_path / f"ledger-{point}")
        matrix._save(path, start.record, matrix.Hook(point, matrix._cut))
        try:
            matrix._check_after_cut(start, path, point)
        except AssertionError:
            caught.append(point)
    assert caught


def test_last_writer_wins_is_caught(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison the slow job's summary becomes current."""
    monkeypatch.setattr(summaries, "find_cause", no_cause)
    with pytest.raises(AssertionError):
        rules.test_R115_last_finisher_does_not_win(ledger)


def test_comparing_the_revision_is_caught(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare revision instead of fingerprint`: an append would refuse the summary."""
    monkeypatch.setattr(summaries, "touched_since", by_revision)
    with pytest.raises(AssertionError):
        rules.test_R117_appends_reach_no_summary_in_the_store(ledger)


def test_comparing_nothing_is_caught(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not look at the index of touches takes a summary of an edited source."""
    monkeypatch.setattr(summaries, "touched_since", untouched)
    with pytest.raises(AssertionError):
        rules.test_R113_reread_after_generation(ledger)


def test_a_pointer_that_always_moves_is_caught(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrower version that takes the pointer from a wider current one lets its coverage go back."""
    monkeypatch.setattr(pointers, "choose", lambda rows: (list(rows)[-1],))
    with pytest.raises(AssertionError):
        rules.test_a_wider_current_summary_keeps_the_pointer(ledger, tmp_path / "ledger")


def compared_too_early(store: Store, job: Any) -> Any:
    """Compare in one transaction and write in the next."""
    with store.write("compare") as tx:
        scope = open_scope(tx, job.record.conversation_id, None)
        cause = summaries.find_cause(scope, job)
    time.sleep(0.003)
    find, summaries.find_cause = summaries.find_cause, lambda *_: cause
    try:
        return original_save(store, job)
    finally:
        summaries.find_cause = find


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the actors are made by fork")
@pytest.mark.parametrize("bug", ["last_writer_wins", "compared_too_early"])
def test_the_races_catch_both_wrong_ways_to_compare(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    """Several processes find that nothing is compared, and that it is compared outside the write."""
    if bug == "last_writer_wins":
        monkeypatch.setattr(summaries, "find_cause", no_cause)
    else:
        monkeypatch.setattr(summaries, "_save", compared_too_early)
    with pytest.raises(AssertionError, match=r"not what one after the other would accept|a run that has one"):
        race(tmp_path, seed, 30)
