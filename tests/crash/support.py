"""What the tests of crashes share: sizes, seeds, writers in child processes, and what a ledger must show after one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from planner.ledger import schema
from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from planner.values.turn import Message

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("PLANNER_FULL") == "1"
CHAT = "c"
CAUGHT = (AssertionError, PlannerFault)
"""How a check of what must hold says that it does not; a planted bug must end in one of them."""


def tell(seed: object, test: str, **more: object) -> None:
    """Print the seed and the one command that repeats a failing run."""
    fixed = " ".join(f"{name}={value}" for name, value in more.items())
    print(f"seed {seed}; repeat: {f'{fixed} ' if fixed else ''}PLANNER_SEED={seed} python -m pytest {test}")


def said(number: int, size: int = 400) -> list[Message]:
    """Return a question and an answer whose bodies have about `size` characters together."""
    return [
        Message("user", f"u{number}", f"question {number} {'q' * (size // 4)}"),
        Message("assistant", f"a{number}", f"answer {number} {'a' * (size - size // 4)}"),
    ]


def write_forever(path: Path, out: int, size: int = 400, start: int = 0) -> None:
    """Append turns and write the number of each to a descriptor once the ledger has acknowledged it."""
    with Ledger.open(path) as ledger:
        for number in range(start, 10**6):
            ledger.append(CHAT, f"t{number}", said(number, size), state="completed")
            os.write(out, f"{number}\n".encode())


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """Run `work` in a forked child that is given the writing end of a pipe; return its id and the reading end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            work(writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return child, reading


def kill(child: int) -> int:
    """Kill a child, wait for it, and return how it ended as waitpid gives it."""
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def read_all(descriptor: int) -> bytes:
    """Read what is left in a pipe and close it."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def last_number(data: bytes) -> int:
    """Return the last whole number that a writer acknowledged, -1 for none."""
    lines = data.split(b"\n")[:-1]
    return int(lines[-1]) if lines else -1


def check_after(path: Path, acknowledged: int, size: int = 400) -> int:
    """Assert that every acknowledged turn is there as it was said, that nothing is damaged, and that writing goes on.

    Returns how many turns there are before the one that this check appends.
    """
    with Ledger.open(path) as ledger:
        turns = list(ledger.turns(CHAT)) if CHAT in ledger.conversations() else []
        assert acknowledged < len(turns), f"{acknowledged + 1} acknowledged, {len(turns)} found"
        assert [f"t{number}" for number in range(len(turns))] == [turn.id for turn in turns]
        for number, turn in enumerate(turns):
            assert [message.text for message in said(number, size)] == [message.text for message in turn.messages]
        report = ledger.verify()
        assert () == report.problems
        ledger.append(CHAT, f"t{len(turns)}", said(len(turns), size), state="completed")
    return len(turns)


def abandon(ledger: Ledger) -> None:
    """Leave a ledger as a killed process does: nothing is brought into the file, nothing is acknowledged any more."""
    for connection in list(ledger._store._open):
        with suppress(apsw.Error):
            connection.close(True)
    ledger._store._closed = True


def check_alone(fault: PlannerFault) -> None:
    """Assert that a fault stands without the error it came from, whose words may be a conversation's (R188)."""
    assert (None, None) == (fault.__cause__, fault.__context__)


@contextmanager
def synchronous(word: str, number: int) -> Iterator[None]:
    """Let connections that are opened meanwhile have another setting of `synchronous`; for tests alone."""
    before = schema._PRAGMAS
    schema._PRAGMAS = tuple(  # type: ignore[misc]
        (name, word, number) if name == "synchronous" else (name, value, wanted) for name, value, wanted in before
    )
    try:
        yield
    finally:
        schema._PRAGMAS = before  # type: ignore[misc]
