"""The ledger: the durable record of conversations, and the only one (R1, R4; docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from planner.ledger.api_reading import Reading
from planner.ledger.api_summaries import Summarising
from planner.ledger.api_upkeep import Upkeep
from planner.ledger.api_writing import Writing
from planner.ledger.store import Store


class Ledger(Writing, Reading, Upkeep, Summarising):
    """One ledger file; usable from several threads and, one Ledger each, from several processes.

    >>> import tempfile
    >>> from planner.values.turn import Message
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/chats") as ledger:
    ...     done = ledger.append("c1", "t1", [Message("user", "m1", "How many moons has Mars?")])
    ...     done.sequences, [turn.id for turn in ledger.turns("c1")]
    ((0,), ['t1'])
    """

    def __init__(self, store: Store) -> None:
        """Wrap an open store; `open` is the way in."""
        self._store = store

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        failpoint: Callable[[str], None] | None = None,
        vfs: str | None = None,
        unchecked: bool = False,
    ) -> Self:
        """Open a ledger; an absent file is created for its owner alone (0600) unless `read_only`.

        failpoint  called with the name of each step of a write, for tests; None in production.
        vfs        name of a registered apsw VFS, for tests.
        unchecked  leave out the comparison with the anchor and of the newest rows: for `verify` of a damaged ledger.
        Raises PlannerFault: `ledger_foreign`, `ledger_newer`, `ledger_corrupt`, `ledger_rolled_back`,
        `ledger_forked`, `ledger_busy`, `ledger_read_only`, `ledger_full`, `ledger_io`.
        """
        return cls(Store(path, read_only=read_only, failpoint=failpoint, vfs=vfs, unchecked=unchecked))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Codes of what was odd when the ledger was opened, such as a missing anchor."""
        return self._store.warnings

    @property
    def read_only(self) -> bool:
        """True when nothing can be written."""
        return self._store.read_only

    def close(self) -> None:
        """Close the ledger; what was acknowledged is durable already."""
        self._store.close()

    def __enter__(self) -> Self:
        """Return the ledger itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self.close()
