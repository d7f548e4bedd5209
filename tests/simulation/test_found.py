"""What the simulator and the other random runs found once, each as the shortest history that shows it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from planner.values.turn import Message
from tests.crash.support import abandon
from tests.ledger.support import chat
from tests.simulation.disk import Disk, PowerOff, hold_anchors


@pytest.mark.parametrize("how", ["error", "forget"])
@pytest.mark.parametrize("luck", range(6))
def test_a_retry_after_a_failed_sync_is_not_acknowledged_for_what_no_sync_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, luck: int
) -> None:
    """The rows of a commit whose sync failed lie in the -wal; the retry finds them, and must sync them before it ends.

    `forget` is a system that drops what a failed sync left unwritten, so that a second sync succeeds for nothing.
    """
    disk = Disk("failed-sync", random.Random(luck))
    hold_anchors(disk, monkeypatch)
    try:
        ledger = Ledger.open(tmp_path / "ledger", vfs=disk.name)
        ledger.append("c", "t0", chat(0), state="completed")
        disk.step = _only_syncs(disk, how)  # type: ignore[method-assign]
        with pytest.raises(PlannerFault):
            ledger.append("c", "t1", chat(1), state="completed")
        assert not ledger.append("c", "t1", chat(1), state="completed").changed
        abandon(ledger)
        disk.power_loss()
        with Ledger.open(tmp_path / "ledger", vfs=disk.name) as again:
            assert ["t0", "t1"] == [turn.id for turn in again.turns("c")]
            assert again.verify().sound
    finally:
        disk.close()


def _only_syncs(disk: Disk, how: str) -> object:
    """Let the next sync fail once, whatever is called before it."""
    left = [1]

    def step(call: str, kept: object = None) -> None:
        if call == "sync" and left[0]:
            left[0] = 0
            disk.arm(how, 0)
            Disk.step(disk, call, kept)  # type: ignore[arg-type]

    return step


@pytest.mark.parametrize("luck", range(6))
def test_a_retry_after_a_kill_is_not_acknowledged_for_what_no_sync_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, luck: int
) -> None:
    """A process is killed between writing a commit and its sync; the next one finds the rows and must sync them."""
    disk = Disk("killed", random.Random(luck))
    hold_anchors(disk, monkeypatch)
    try:
        ledger = Ledger.open(tmp_path / "ledger", vfs=disk.name)
        ledger.append("c", "t0", chat(0), state="completed")
        disk.step = _kill_at_sync(disk)  # type: ignore[method-assign]
        with pytest.raises((PlannerFault, PowerOff)):
            ledger.append("c", "t1", chat(1), state="completed")
        abandon(ledger)
        # A kill is no power loss: the system still has everything that was written.
        del disk.step
        disk.dead = False
        (tmp_path / "ledger-shm").unlink(missing_ok=True)
        ledger = Ledger.open(tmp_path / "ledger", vfs=disk.name)
        assert not ledger.append("c", "t1", chat(1), state="completed").changed
        abandon(ledger)
        disk.power_loss()
        with Ledger.open(tmp_path / "ledger", vfs=disk.name) as again:
            assert ["t0", "t1"] == [turn.id for turn in again.turns("c")]
    finally:
        disk.close()


def _kill_at_sync(disk: Disk) -> object:
    def step(call: str, kept: object = None) -> None:
        if call == "sync" and not disk.dead:
            disk.arm("off", 0)
        Disk.step(disk, call, kept)  # type: ignore[arg-type]

    return step


def test_a_cancelled_turn_that_is_freed_no_longer_names_a_constraint(tmp_path: Path) -> None:
    """Of a cancelled turn only what is protected is shown; with the protection gone its names are gone too."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.append("c", "t1", [Message("user", "m1", "x", constraint_ids=("C3",))], state="open")
        ledger.cancel("c", "t1")
        ledger.protect("c", "m1", "pending-confirmation")
        ledger.protect("c", "m1", None)
        assert () == ledger.verify().problems


def test_a_closed_ledger_keeps_no_file_open(tmp_path: Path) -> None:
    """A process that opens many ledgers one after the other needs no descriptor for any of the closed ones."""
    opened = Path("/proc/self/fd")
    if not opened.is_dir():
        pytest.skip("the open files of a process are read from /proc")
    before = None
    for number in range(6):
        with Ledger.open(tmp_path / f"ledger-{number}") as ledger:
            ledger.append("c", "t0", chat(0), state="completed")
        count = len(list(opened.iterdir()))
        assert before in (None, count)
        before = count


def test_a_purged_message_names_no_constraint(tmp_path: Path) -> None:
    """What rested on a name in a purged message goes with it, so that `verify` and the view agree."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        named = Message("user", "m1", "x", constraint_ids=("C3",))
        ledger.append("c", "t1", [named, Message("assistant", "m2", "x")], state="completed")
        ledger.append("c", "t2", chat(2), state="completed")
        ledger.retain("c", 2, "policy-30-days")
        assert () == ledger.verify().problems
        assert [] == list(ledger.view("c").held)


def test_a_stale_summary_of_purged_turns_loses_its_words(tmp_path: Path) -> None:
    """A summary that an edit made stale stands for nothing: retention takes its text with that of its sources."""
    from tests.ledger.summary_support import CHAT, deliver, edit, fill, freeze, summary_of

    with Ledger.open(tmp_path / "ledger") as ledger:
        fill(ledger, 1, 2, 3, 4)
        for name, first, last in (("kept", "t1", "t1"), ("stale", "t2", "t2")):
            record = summary_of(freeze(ledger, f"p-{name}", (first, last)), name)
            assert "accepted" == deliver(ledger, record).status
        edit(ledger, 2)
        ledger.retain(CHAT, 4, "policy-30-days")
        assert {"kept": True, "stale": False} == {
            one.summary_id: one.record is not None for one in ledger.summaries(CHAT)
        }
        assert () == ledger.verify(rebuild=True).problems
