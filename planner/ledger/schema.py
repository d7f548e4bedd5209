"""The file itself: its marks, its settings, and the numbered SQL that brings an older one up to date.

Settings are those of threats.md §1.3; each is read back, and one that did not take refuses the open.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import apsw

from planner.ledger.faults import mapped
from planner.values.reasons import PlannerFault

APPLICATION_ID = 0x43504C47
BUSY_MS = 5000
_MAGIC = b"SQLite format 3\0"
_PRAGMAS: tuple[tuple[str, str | int, str | int], ...] = (
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),
    ("foreign_keys", "on", 1),
    ("trusted_schema", "off", 0),
    ("cell_size_check", "on", 1),
    ("recursive_triggers", "on", 1),
    ("secure_delete", "fast", 2),
    ("mmap_size", 0, 0),
    ("wal_autocheckpoint", 1000, 1000),
    ("journal_size_limit", 67_108_864, 67_108_864),
    ("temp_store", "memory", 2),
)


def migrations() -> tuple[str, ...]:
    """Return the SQL of every schema in order; the first makes an empty file a ledger."""
    folder = files("planner.ledger") / "migrations"
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text(encoding="utf-8") for name in found)


def create_file(path: Path) -> None:
    """Create the ledger's file for its owner alone; SQLite would make it readable to all. The folder stays as it is."""
    with mapped("create the file"), suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on the disk; an absent one is nothing to wait for. Raises OSError."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_again(path: Path) -> None:
    """Write a file's bytes to their places again and sync them. Raises OSError.

    After a failed sync a system may call its unwritten pages clean, and the next sync succeeds without them.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            place = 0
            while data := file.read(1 << 20):
                file.seek(place)
                place += file.write(data)
                file.seek(place)
            os.fsync(descriptor)


def _first_bytes(path: Path) -> bytes:
    # Through SQLite's own layer: a plain close would drop the locks that other connections of this process hold on the
    # file (POSIX), and another program would then delete the -wal under them.
    file = apsw.VFSFile("", str(path.absolute()), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        return file.xRead(100, 0)
    finally:
        file.xClose()


def check_header(path: Path, *, anchored: bool) -> None:
    """Look at the first bytes before SQLite does: a foreign file must not be changed by opening it.

    anchored  whether an anchor stands beside it, which says that this was a ledger.
    Raises PlannerFault `ledger_rolled_back`, `ledger_corrupt` or `ledger_foreign`.
    """
    with mapped("read the header"):
        if not stat.S_ISREG(path.stat().st_mode):
            # To open a device may change it, to open a pipe waits for ever.
            raise PlannerFault("ledger_foreign", "is no regular file")
        head = _first_bytes(path)
    if not head:
        if anchored:
            raise PlannerFault("ledger_rolled_back", "the file is empty and its anchor is not")
        return
    if len(head) < 100 or head[:16] != _MAGIC:
        raise PlannerFault("ledger_corrupt" if anchored else "ledger_foreign", "the file has no SQLite header")
    stated = int.from_bytes(head[68:72], "big")
    if stated not in (0, APPLICATION_ID):
        raise PlannerFault("ledger_foreign", f"application_id {stated}")


def connect(path: Path, *, read_only: bool, vfs: str | None = None) -> apsw.Connection:
    """Open a connection with every setting applied and read back. Raises PlannerFault."""
    with mapped("open the file"):
        connection = _connect(path, read_only, vfs)
        # Every checkpoint happens under the lock, so a close must not make one by itself.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.set_busy_timeout(BUSY_MS)
        check_marks(connection)
        for name, value, expected in _PRAGMAS:
            if read_only and name in ("journal_mode", "journal_size_limit", "wal_autocheckpoint"):
                continue
            connection.execute(f"PRAGMA {name}={value}").fetchall()
            got = connection.pragma(name)
            if got != expected:
                raise PlannerFault("ledger_io", f"setting {name} did not take")
    return connection


def _connect(path: Path, read_only: bool, vfs: str | None) -> apsw.Connection:
    if not read_only:
        return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    try:
        connection.pragma("user_version")
    except apsw.CantOpenError:
        connection.close()
        # A folder that may not be written has no place for -shm. Without a -wal the file alone is the whole ledger.
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise PlannerFault("ledger_read_only", "the folder has no room for -shm, and there is a -wal") from None
        address = f"{path.absolute().as_uri()}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(address, flags=flags, vfs=vfs)
    return connection


def check_marks(connection: apsw.Connection) -> int:
    """Return the schema number of the file, 0 for an empty one.

    Raises PlannerFault `ledger_foreign` or `ledger_newer`.
    """
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application == 0 and version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        return 0
    if application != APPLICATION_ID:
        raise PlannerFault("ledger_foreign", f"application_id {application}")
    if version > len(migrations()):
        raise PlannerFault("ledger_newer", f"schema {version}, this version knows {len(migrations())}")
    if not isinstance(version, int) or version < 1:
        raise PlannerFault("ledger_corrupt", f"schema {version}")
    return version


def migrate(connection: apsw.Connection, path: Path, steps: tuple[str, ...], fail: Callable[[str], None]) -> None:
    """Bring the file to the newest schema in one transaction; the caller holds the lock.

    An older ledger is copied first, to <name>.schema-<number> beside it, and the copy is kept.
    """
    version = check_marks(connection)
    if version == len(steps):
        return
    if version > 0:
        _keep_copy(connection, path.with_name(f"{path.name}.schema-{version}"))
    fail("migrate_before_begin")
    # A table that others refer to is made again in some steps; the switch only works outside a transaction.
    connection.execute("PRAGMA foreign_keys=off").fetchall()
    try:
        _apply(connection, steps, version, fail)
    finally:
        connection.execute("PRAGMA foreign_keys=on").fetchall()


def _apply(connection: apsw.Connection, steps: tuple[str, ...], version: int, fail: Callable[[str], None]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, step in enumerate(steps[version:], version + 1):
            connection.execute(step)
            fail(f"migrate_after_{number}")
        if version == 0:
            connection.execute("INSERT INTO meta VALUES ('store_key', ?)", (secrets.token_bytes(32),))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(steps)}")
        if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise PlannerFault("ledger_corrupt", "a reference leads nowhere")
        fail("migrate_before_commit")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _keep_copy(connection: apsw.Connection, target: Path) -> None:
    with suppress(FileNotFoundError):
        target.unlink()  # left by a run that did not end
    create_file(target)
    connection.execute("VACUUM INTO ?", (str(target),))
