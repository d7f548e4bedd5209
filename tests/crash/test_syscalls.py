"""The k-th system call fails, for k = 1, 2, ... until none is left to fail (threats.md §1.2 row 4, P1, P8).

strace makes the calls fail that touch the ledger's own files; everything else of the process runs undisturbed.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.crash.support import FULL, ROOT, check_after, tell

TURNS = 4
ALLOWED = {"ledger_io", "ledger_full", "ledger_busy", "ledger_read_only"}
FILES = ("", "-wal", "-shm", "-anchor", "-lock")
FAULTS = [
    *((call, f"error={name}") for call in ("pwrite64", "fdatasync", "openat") for name in ("EIO", "ENOSPC", "EINTR")),
    *((call, "error=EIO") for call in ("fsync", "ftruncate", "write", "pread64")),
    ("mmap", "error=ENOMEM"),
    ("pwrite64", "retval=0"),
    *((call, "signal=KILL") for call in ("pwrite64", "fdatasync", "openat", "write")),
]
FOR_GOOD = (("pwrite64", "error=EIO", "185+"), ("fdatasync", "error=EIO", "7+"), ("fdatasync", "error=ENOSPC", "8+"))
MOST = 60
DEFAULT = 12


@cache
def missing() -> str | None:
    """Return why calls cannot be made to fail here, None where they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-o", "/dev/null", sys.executable, "-c", ""],
        capture_output=True, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else "strace may not trace a process here (ptrace)"


def run_faulted(path: Path, call: str, how: str, when: str) -> tuple[bool, list[str], int]:
    """Write under one fault. Returns whether it fired, the writer's lines, and its exit status.

    With fdatasync for good, fsync fails too from its second call on: the first is that of an opened ledger.
    """
    more = ["-e", f"inject=fsync:{how}:when=2+"] if call == "fdatasync" and when.endswith("+") else []
    log = path.with_name("strace")
    paths = [word for name in FILES for word in ("-P", f"{path}{name}")] + ["-P", str(path.parent)]
    done = subprocess.run(
        ["strace", "-f", "-qq", *paths, "-e", f"trace={call}{',fsync' * bool(more)}", *more,
         "-e", f"inject={call}:{how}:when={when}", "-o", str(log),
         sys.executable, "-m", "tests.crash.faulted_writer", str(path), str(TURNS)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    traced = log.read_text(encoding="utf-8", errors="replace")
    fired = "INJECTED" in traced or "killed by SIGKILL" in traced
    assert "Traceback" not in done.stderr, done.stderr
    return fired, done.stdout.splitlines(), done.returncode


def check_faulted(path: Path, call: str, how: str, when: str) -> tuple[bool, int]:
    """Run one fault and assert what must hold after it; returns whether it fired and how much was acknowledged."""
    fired, lines, status = run_faulted(path, call, how, when)
    told = {line.split()[1] for line in lines if line.startswith("fault")}
    # SQLite itself says of a file that cannot be read that it is malformed.
    assert told <= ALLOWED | ({"ledger_corrupt"} if call == "pread64" else set()), (call, how, when, told)
    numbers = [int(line.split()[1]) for line in lines if line.startswith("ack")]
    assert list(range(len(numbers))) == numbers
    if how.startswith("signal"):
        assert fired == (status != 0)
    else:
        assert (0, "done") == (status, lines[-1]), (call, how, when)
        if when.isdigit():
            # One failure is over at the next try, so everything was written in the end.
            assert 2 * TURNS == len(numbers), (call, how, when, lines)
    check_after(path, len(numbers) - 1)
    return fired, len(numbers)


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_failing_system_call_never_loses_an_acknowledged_turn(tmp_path: Path, seed: int) -> None:
    """A typed error or success, at whichever call it fails; what was acknowledged is there when opened again."""
    tell(seed, "tests/crash/test_syscalls.py", PLANNER_FULL=int(FULL))
    rng = random.Random(seed)
    cases = [(call, how) for call, how in FAULTS]
    if not FULL:
        cases = rng.sample(cases, DEFAULT)
    fired = acknowledged = runs = 0
    for number, (call, how) in enumerate(cases):
        # By default one call early in the file's life, which every run has; all of them in the full run.
        places = range(1, MOST + 1) if FULL else [rng.randrange(1, 4)]
        for place in places:
            folder = tmp_path / f"{number}-{place}"
            folder.mkdir()
            hit, count = check_faulted(folder / "ledger", call, how, str(place))
            shutil.rmtree(folder)
            fired, acknowledged, runs = fired + hit, acknowledged + count, runs + 1
            if not hit:
                break
    print(f"{runs} runs, {fired} faults injected, {acknowledged} acknowledged, 0 lost")
    assert fired >= len(cases) * 3 // 4


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
@pytest.mark.parametrize(("call", "how", "when"), FOR_GOOD)
def test_a_disk_that_fails_for_good_ends_in_a_typed_error(tmp_path: Path, call: str, how: str, when: str) -> None:
    """From the k-th call on every one fails: some turns are acknowledged, the rest is a named fault, none is lost.

    A sync that fails leaves the rows in the -wal, where the next try finds them: it must not acknowledge them for that,
    because a power loss would still take them.
    """
    hit, count = check_faulted(tmp_path / "ledger", call, how, when)
    assert hit
    assert 0 < count < TURNS
