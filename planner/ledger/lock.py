"""One advisory lock per ledger: held for every write, checkpoint and close (threats.md §1.3).

SQLite's own waiting is unfair: measured with four writers, one waited 4.9 s, with this lock 97 ms. It also keeps two
connections from checkpointing at once, which older libraries do not survive. Where `fcntl` is missing only the
threads of this process are kept apart, and SQLite's busy timeout stands between processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from planner.values.reasons import PlannerFault

WAIT_SECONDS = 5.0
_POLL_SECONDS = 0.0005
_registry: dict[tuple[int, str], PathLock] = {}


def _fcntl() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


class PathLock:
    """The lock of one path in this process; every Ledger of that path shares it, because flock needs that."""

    def __init__(self, path: str) -> None:
        """Make the lock of the file beside the ledger; the file is opened when it is first taken."""
        self._path = path
        self._threads = threading.RLock()
        self._pause = threading.Event()
        self._descriptor: int | None = None
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; the same thread may take it again. Raises PlannerFault `ledger_busy` after five seconds."""
        wait_seconds = WAIT_SECONDS
        if not self._threads.acquire(timeout=wait_seconds):
            raise PlannerFault("ledger_busy", "another thread writes")
        try:
            if self._depth == 0:
                self._take(wait_seconds)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._give_back()
        finally:
            self._threads.release()

    def let_go(self) -> None:
        """Close the lock's file unless someone of this process holds the lock; who takes it next opens it again."""
        if self._threads.acquire(blocking=False):
            try:
                if self._depth == 0:
                    self._close()
            finally:
                self._threads.release()

    def _take(self, wait_seconds: float) -> None:
        module = _fcntl()
        if module is None:
            return
        # os.times is the monotonic clock that needs no import; it has steps of 10 ms, which is fine for a bound.
        end = os.times().elapsed + wait_seconds
        while True:
            descriptor = self._open()
            try:
                module.flock(descriptor, module.LOCK_EX | module.LOCK_NB)
            except BlockingIOError:
                if os.times().elapsed >= end:
                    raise PlannerFault("ledger_busy", "another process writes") from None
                # Constant short polls: with a growing pause the longest wait was ten times as long.
                self._pause.wait(_POLL_SECONDS)
                continue
            if self._is_current(descriptor):
                return
            self._close()

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._descriptor

    def _is_current(self, descriptor: int) -> bool:
        """A lock on a file that was deleted meanwhile keeps nobody out."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _give_back(self) -> None:
        module = _fcntl()
        if module is not None and self._descriptor is not None:
            with suppress(OSError):
                module.flock(self._descriptor, module.LOCK_UN)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_of(path: Path) -> PathLock:
    """Return this process's one lock for the ledger at `path`.

    A forked child gets its own: a descriptor opened before the fork is one lock for both, and keeps neither out.
    """
    key = (os.getpid(), os.path.realpath(path))
    # One step under the interpreter's lock: a lock of our own could be held by another thread at a fork.
    return _registry.setdefault(key, PathLock(f"{key[1]}-lock"))
