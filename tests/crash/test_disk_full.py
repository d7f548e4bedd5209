"""A full disk is `ledger_full`, keeps what was acknowledged, and ends with room (threats.md §1.2 row 3, P1, P8)."""

from __future__ import annotations

import os
import resource
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.crash.support import CHAT, FULL, check_after, check_alone, forked, last_number, read_all, said
from tests.crash.toy_planner import plan_of

PAGES = range(41) if FULL else range(0, 41, 5)
LIMITS = range(20) if FULL else range(0, 20, 5)


def fill_up(ledger: Ledger, start: int, size: int = 3000) -> tuple[int, str]:
    """Append turns until one fails; return the number of the one that failed and the code."""
    for number in range(start, start + 200):
        try:
            ledger.append(CHAT, f"t{number}", said(number, size), state="completed")
        except PlannerFault as fault:
            check_alone(fault)
            return number, fault.code
    pytest.fail("nothing ever failed, so nothing was tested")


@pytest.mark.parametrize("more", PAGES)
def test_a_page_limit_is_named_and_keeps_everything(tmp_path: Path, more: int) -> None:
    """With `more` pages left, writing ends in `ledger_full`; planning goes on, and with room so does writing."""
    path = tmp_path / "ledger"
    with Ledger.open(path) as ledger:
        for number in range(2):
            ledger.append(CHAT, f"t{number}", said(number, 3000), state="completed")
        connection = ledger._store.connection()
        connection.pragma("max_page_count", connection.pragma("page_count") + more)
        failed, code = fill_up(ledger, 2)
        assert "ledger_full" == code
        turns = list(ledger.turns(CHAT))
        assert [f"t{number}" for number in range(failed)] == [turn.id for turn in turns]
        assert () == ledger.verify().problems
        assert isinstance(plan_of(ledger, CHAT, record=False), Plan)
        connection.pragma("max_page_count", 1_000_000)
        ledger.append(CHAT, f"t{failed}", said(failed, 3000), state="completed")
    assert failed + 1 == check_after(path, failed, 3000)


def limited_writer(path: Path, limit: int, out: int) -> None:
    """Write until the limit of file size stops it, then lift the limit and write once more; report each step."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with Ledger.open(path) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        number = 0
        code = ""
        while not code:
            try:
                ledger.append(CHAT, f"t{number}", said(number, 3000), state="completed")
                os.write(out, f"{number}\n".encode())
                number += 1
            except PlannerFault as fault:
                code = fault.code
        assert code in ("ledger_full", "ledger_io")
        assert number == len(list(ledger.turns(CHAT)) if CHAT in ledger.conversations() else [])
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        ledger.append(CHAT, f"t{number}", said(number, 3000), state="completed")
        os.write(out, f"{number}\n".encode())


@pytest.mark.parametrize("step", LIMITS)
def test_a_limit_of_file_size_keeps_everything(tmp_path: Path, step: int) -> None:
    """RLIMIT_FSIZE in a child: the write that crosses it fails by name, the connection is good for the next one."""
    path = tmp_path / "ledger"
    limit = 350_000 + step * 7_919
    child, reading = forked(lambda out: limited_writer(path, limit, out))
    acknowledged = last_number(read_all(reading))
    assert 0 == os.waitpid(child, 0)[1]
    assert acknowledged >= 0
    assert acknowledged + 1 == check_after(path, acknowledged, 3000)


def test_a_receipt_that_finds_no_room_fails_the_plan_and_not_the_ledger(tmp_path: Path) -> None:
    """P5: the plan's record is `ledger_full`, the conversation is as it was, and the next plan is recorded."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        for number in range(30):
            ledger.append(CHAT, f"t{number}", said(number), state="completed")
        connection = ledger._store.connection()
        # Fill what is left of the last pages, so that not even a small row finds room.
        connection.pragma("max_page_count", connection.pragma("page_count"))
        with suppress(PlannerFault):
            for number in range(2000):
                ledger.put_part(CHAT, "filler", b"x" * 1500, f"k{number}")
        head, turns = ledger.head(CHAT), list(ledger.turns(CHAT))
        with pytest.raises(PlannerFault) as caught:
            plan_of(ledger, CHAT)
        assert "ledger_full" == caught.value.code
        assert (head, turns) == (ledger.head(CHAT), list(ledger.turns(CHAT)))
        connection.pragma("max_page_count", 1_000_000)
        assert isinstance(plan_of(ledger, CHAT), Plan)
        assert head == ledger.head(CHAT)


def test_a_tiny_disk_is_full_and_then_is_not(tmp_path: Path) -> None:
    """A file system of 16 MiB in memory fills up and is freed again, where this process may mount one."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mounted], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this process may not mount a file system in memory")
    try:
        filler = mounted / "filler"
        filler.write_bytes(b"x" * 13 * 2**20)
        path = mounted / "ledger"
        with Ledger.open(path) as ledger:
            failed, code = fill_up(ledger, 0, 40_000)
            assert code in ("ledger_full", "ledger_io")
            assert failed == len(list(ledger.turns(CHAT)))
            filler.unlink()
            ledger.append(CHAT, f"t{failed}", said(failed, 40_000), state="completed")
        check_after(path, failed, 40_000)
    finally:
        subprocess.run(["umount", mounted], check=True)
