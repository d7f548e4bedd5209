"""The file of a ledger: connections, the lock, transactions, the anchor.

How to write one more kind of fact
----------------------------------
1. A migration adds its table (`event INTEGER PRIMARY KEY REFERENCES event (event)`, `conversation`, `branch`, its
   columns, `digest BLOB NOT NULL`; with `salt` and `body` where it holds text), its two append-only triggers, and
   the kind in the CHECK of `event.kind`. `facts.py` gets one row in `TABLES` (columns in the order of the digest),
   and the kind in `NO_CHANGE_OF_CONVERSATION` if it does not change the conversation.
2. A writing function takes the Store and does all of it in one transaction:

       with store.write("save a plan") as tx:                   # the lock, BEGIN IMMEDIATE
           key = conversation_key(tx.connection, conversation_id)
           head = tx.head(key)                                  # branch, generation, revision, event
           require_generation(head, generation)                 # strict, `stale_generation`
           event = tx.record("plan", conversation=key, branch=head.branch, id=plan_id, ...)  # every column
           tx.connection.execute("INSERT OR REPLACE INTO active_plan VALUES (?, ?)", (key, event))
           tx.fail("after_pointer")                             # a failpoint after each step

   `record` gives the event number, salt, digest and chain, moves the head, and calls the failpoint `after_<kind>`.
   The transaction commits when the block ends, and then the anchor is written; any exception rolls it back. A block
   that records nothing commits nothing, unless it set `tx.unchained` (receipts and parts are no events). Index and
   derived rows go through `tx.connection` in the same block.
3. Reads: `with store.read("read a plan") as connection:` is one snapshot; fetch all and leave the block. Errors of
   SQLite become PlannerFaults in both.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from planner.ledger.anchor import anchor_path, read_anchor, renew_anchor, write_anchor
from planner.ledger.checks import check_open, newest
from planner.ledger.faults import mapped
from planner.ledger.heads import HeadRow
from planner.ledger.lock import lock_of
from planner.ledger.schema import check_header, connect, create_file, migrate, migrations, sync_file, write_again
from planner.ledger.transaction import Transaction
from planner.values.reasons import PlannerFault

# Connections of before a fork: closing one in the child would touch the parent's files, so they are kept for ever.
_inherited: list[object] = []


def _no_failpoint(_: str) -> None:
    """Do nothing: production has no failpoints."""


class Store:
    """One open ledger file; may be used from several threads, each gets its own connection."""

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        failpoint: Callable[[str], None] | None = None,
        vfs: str | None = None,
        unchecked: bool = False,
    ) -> None:
        """Open the file and check its marks; an absent one is created unless `read_only`.

        failpoint  called with the name of each step of a write; None in production.
        vfs        name of an apsw VFS, for tests that lose writes.
        unchecked  leave out the comparison with the anchor and of the newest rows.
        Raises PlannerFault.
        """
        # Each thread opens the file anew, and the folder a relative path starts from may be another one by then.
        self.path = Path(path).absolute()
        self.read_only = read_only
        self.fail = failpoint or _no_failpoint
        self.warnings: tuple[str, ...] = ()
        self._vfs = vfs
        self._local = threading.local()
        self._open: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._pid = os.getpid()
        self._closed = False
        # What is found in the -wal may never have been synced: its writer was killed before that, or its sync failed.
        self._settled = self._sync_failed = False
        with mapped("read the anchor"):
            self.anchored = read_anchor(anchor_path(self.path))
        if not read_only:
            create_file(self.path)
        elif not self.path.is_file():
            raise PlannerFault("ledger_io", "no such file")
        check_header(self.path, anchored=self.anchored.mark is not None)
        try:
            self._prepare()
            if not unchecked:
                self._check()
        except BaseException:
            self._closed = True
            self.drop_connection()
            raise

    def _prepare(self) -> None:
        steps = migrations()
        if self.read_only:
            version = self.connection().pragma("user_version")
            if version == 0:
                raise PlannerFault("ledger_foreign", "the file is empty")
            if version != len(steps):
                raise PlannerFault("ledger_read_only", f"schema {version} must be brought to {len(steps)}")
            return
        with mapped("prepare the schema"), lock_of(self.path).held():
            migrate(self.connection(), self.path, steps, self.fail)

    def _check(self) -> None:
        with self.read("check the newest events") as connection:
            self.warnings = check_open(connection, self.anchored)
        if self.warnings and not self.read_only:
            # The whole chain was just found sound, so the next loss will be seen again.
            with mapped("write the anchor"), lock_of(self.path).held():
                with self.read("read the newest event") as connection:
                    event, chain = newest(connection)
                with suppress(OSError):
                    self.settle()
                    renew_anchor(anchor_path(self.path), event, chain)

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, opened after any fork."""
        if self._closed:
            raise PlannerFault("ledger_io", "the ledger is closed")
        if self._pid != os.getpid():
            _inherited.extend((self._local, *self._open))
            self._local, self._open, self._pid = threading.local(), weakref.WeakSet(), os.getpid()
        found: apsw.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = connect(self.path, read_only=self.read_only, vfs=self._vfs)
            self._local.connection = found
            self._open.add(found)
        return found

    @contextmanager
    def read(self, doing: str) -> Iterator[apsw.Connection]:
        """Give one snapshot; inside a write or another read of this thread it is that one's."""
        connection = self.connection()
        if connection.in_transaction:
            yield connection
            return
        with mapped(doing):
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self, doing: str) -> Iterator[Transaction]:
        """Give one write transaction under the lock; it is durable when the block has ended without an error.

        Raises PlannerFault: `ledger_read_only`, `ledger_busy` after five seconds, and what the storage raises.
        """
        if self.read_only:
            raise PlannerFault("ledger_read_only", doing)
        with mapped(doing), lock_of(self.path).held():
            connection = self.connection()
            if connection.in_transaction:
                raise PlannerFault("ledger_busy", "a transaction inside another one")
            self.settle()
            self.fail("before_begin")
            try:
                connection.execute("BEGIN IMMEDIATE")
                tx = Transaction(connection, self.fail)
                yield tx
                self._commit(tx)
            except BaseException as error:
                self._roll_back(connection, error)
                raise
            if tx.changed or tx.unchained:
                self.fail("after_commit")
            if tx.changed:
                # The anchor only finds a loss; a failure to write it must not deny what is durable already.
                with suppress(OSError):
                    write_anchor(anchor_path(self.path), tx.event, tx.chain)
                self.fail("before_ack")

    def settle(self) -> None:
        """Make durable what the -wal holds, once after opening and after every failed sync; the caller holds the lock.

        A repeated call finds its rows there and writes nothing: without this it would be acknowledged although no sync
        of them ever succeeded, and a checkpoint would build on them (P1).
        """
        if self._settled:
            return
        log = self.path.with_name(f"{self.path.name}-wal")
        if self._sync_failed:
            write_again(log)
        else:
            sync_file(log)
        self._settled, self._sync_failed = True, False

    def _commit(self, tx: Transaction) -> None:
        if not tx.changed and not tx.unchained:
            tx.connection.execute("ROLLBACK")
            return
        tx.finish()
        self.fail("before_commit")
        tx.connection.execute("COMMIT")

    def _roll_back(self, connection: apsw.Connection, error: BaseException) -> None:
        try:
            if connection.in_transaction:
                self.fail("in_rollback")
                connection.execute("ROLLBACK")
        finally:
            # Where a file could not be opened for writing SQLite opens it for reading, and would stay with that.
            if isinstance(error, apsw.IOError | apsw.ReadOnlyError) or connection.in_transaction:
                self._sync_failed = True
                self.drop_connection()

    def drop_connection(self) -> None:
        """Close this thread's connection; after a failed sync its memory of the file is not to be trusted."""
        self._settled = False
        found: apsw.Connection | None = getattr(self._local, "connection", None)
        if found is not None:
            self._local.connection = None
            with suppress(apsw.Error):
                found.close(True)

    def checkpoint(self) -> bool:
        """Bring the whole -wal into the file and empty it; False where a reader holds it back."""
        with mapped("checkpoint"), lock_of(self.path).held():
            connection = self.connection()
            self.settle()
            self.fail("before_checkpoint")
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
            self.fail("after_checkpoint")
            return True

    def close(self) -> None:
        """Close every connection; the -wal is emptied under the lock. Closing twice is fine."""
        if self._closed:
            return
        try:
            if not self.read_only:
                # A checkpoint that cannot be made now is made by a later one; nothing is lost.
                with suppress(PlannerFault):
                    self.checkpoint()
        finally:
            self._closed = True
            if self._pid == os.getpid():
                for connection in list(self._open):
                    with suppress(apsw.Error):
                        connection.close(True)
            lock_of(self.path).let_go()


def require_generation(head: HeadRow, generation: int | None) -> None:
    """Refuse a call that was made for another generation (R55). Raises PlannerFault `stale_generation`."""
    if generation is not None and generation != head.generation:
        raise PlannerFault("stale_generation", f"generation {generation}, the conversation has {head.generation}")
