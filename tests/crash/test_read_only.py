"""A ledger that may not be written: planning works or says so, nothing is written anywhere (threats.md §1.2 row 12)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.crash.support import CHAT, forked, read_all, said
from tests.crash.toy_planner import plan_of, toy

NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, with a closed ledger of three turns in it, owned by nobody in particular."""
    place = Path(tempfile.mkdtemp(prefix="ledger-read-only-"))
    place.chmod(0o755)
    inner = place / "data"
    inner.mkdir()
    with Ledger.open(inner / "ledger") as ledger:
        for number in range(3):
            ledger.append(CHAT, f"t{number}", said(number), state="completed")
        plan_of(ledger, CHAT, record=False)  # everything a plan imports is loaded before rights are given up
    if os.getuid() == 0:
        for entry in (inner, *inner.iterdir()):
            os.chown(entry, NOBODY, NOBODY)
    yield inner
    for entry in (inner, *inner.rglob("*")):
        entry.chmod(0o755)
    shutil.rmtree(place)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of every file around the ledger.

    Of a -shm only the size: readers leave their marks in it, and it says nothing that the -wal does not.
    """
    found = {}
    for entry in sorted(folder.parent.rglob("*")):
        state, shared = entry.stat(), entry.name.endswith("-shm")
        content = entry.read_bytes() if entry.is_file() and not shared else str(state.st_size * shared).encode()
        found[str(entry.relative_to(folder.parent))] = (state.st_mode, content)
    return found


def attempt(path: Path, *, read_only: bool) -> list[str]:
    """Open, plan, record a plan, append; return what each came to."""
    told = []
    try:
        ledger = Ledger.open(path, read_only=read_only)
    except PlannerFault as fault:
        return [f"open {fault.code}"]
    acts: dict[str, Callable[[], object]] = {
        "plan": lambda: isinstance(plan_of(ledger, CHAT, record=False), Plan),
        "record": lambda: isinstance(plan_of(ledger, CHAT), Plan),
        "append": lambda: ledger.append(CHAT, "t9", said(9), state="completed").changed,
    }
    for name, act in acts.items():
        try:
            told.append(f"{name} {act()}")
        except PlannerFault as fault:
            told.append(f"{name} {fault.code}")
    ledger.close()
    return told


def without_rights(path: Path, *, read_only: bool) -> list[str]:
    """Do the same in a child that is no superuser, for whom rights count."""

    def work(out: int) -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        told = attempt(path, read_only=read_only)
        os.write(out, "\n".join(told).encode())

    toy()
    child, reading = forked(work)
    told = read_all(reading).decode().split("\n")
    assert 0 == os.waitpid(child, 0)[1], told
    return told


READ = ["plan True", "record ledger_read_only", "append ledger_read_only"]
SAID_SO = (["open ledger_read_only"], READ)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="giving up rights is done in a forked child")
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("form", ["file", "folder", "both", "shm"])
def test_missing_rights_are_named_and_nothing_is_written(folder: Path, form: str, read_only: bool) -> None:
    """Read-only file, folder, both, and a -shm that may not be opened: a plan or `ledger_read_only`, no new file."""
    path = folder / "ledger"
    if form in ("file", "both"):
        for entry in folder.iterdir():
            entry.chmod(0o444)
    if form in ("folder", "both"):
        folder.chmod(0o555)
    if form == "shm":
        # A writer that is still there: -wal and -shm hold what the file does not.
        holder = Ledger.open(path)
        holder.append(CHAT, "t3", said(3), state="completed")
        for name in ("-wal", "-shm"):
            os.chown(folder / f"ledger{name}", 0, 0) if os.getuid() == 0 else None
            (folder / f"ledger{name}").chmod(0o400 if os.getuid() else 0o600)
    before = snapshot(folder)
    told = without_rights(path, read_only=read_only)
    after = snapshot(folder)
    if form == "shm":
        holder.close()
        assert told in (*SAID_SO, ["open ledger_io"]), told
    elif form == "folder" and not read_only:
        # The ledger's own file may be written and its side files are there, so nothing is in the way.
        assert told in (*SAID_SO, ["plan True", "record True", "append True"]), told
        after = {name: entry for name, entry in after.items() if "ledger" not in name}
        before = {name: entry for name, entry in before.items() if "ledger" not in name}
    else:
        assert told in SAID_SO, told
        assert read_only <= (told == READ), "a ledger that was closed can always be read"
    assert before == after


def test_a_read_only_mount_is_named_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    """The same on a file system that is mounted read-only, where this process may mount one."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    done = subprocess.run(["mount", "--bind", "-o", "ro", folder, mounted], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this process may not mount a folder read-only")
    try:
        before = snapshot(folder)
        assert READ == attempt(mounted / "ledger", read_only=True)
        assert attempt(mounted / "ledger", read_only=False) in SAID_SO
        assert before == snapshot(folder)
    finally:
        subprocess.run(["umount", mounted], check=True)


def test_mode_ro_and_a_missing_home_write_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened for reading, without HOME and without a folder for temporary files: plans, and no file appears."""
    monkeypatch.setenv("HOME", "/nowhere/at/all")
    monkeypatch.setenv("TMPDIR", "/nowhere/at/all")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere/at/all")
    before = snapshot(folder)
    assert READ == attempt(folder / "ledger", read_only=True)
    assert before == snapshot(folder)
