"""A disk that forgets: an apsw VFS whose unsynced writes are lost in any subset when the power goes.

The files lie in a real folder, because the ledger reads its header and anchor without SQLite; what is durable of them
is kept here, and `power_loss` rewrites them to that plus a random part of what was not synced.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from planner.ledger import anchor, store

SECTOR = 512


class PowerOff(BaseException):
    """The power went between two steps of the ledger."""


@dataclass
class Kept:
    """One file: what is durable, and what was written since: (offset, data), data None for a new length."""

    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def fold(self) -> None:
        """Make everything durable."""
        for change in self.pending:
            apply(self.durable, *change)
        self.pending.clear()


def apply(data: bytearray, offset: int, written: bytes | None) -> None:
    """Do one write or truncation to the bytes of a file."""
    if written is None:
        del data[offset:]
        return
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(written)] = written


class Disk:
    """Files below one folder; `arm` sets when a call fails or the power goes."""

    def __init__(self, name: str, rng: random.Random) -> None:
        """Register a VFS of this name; `close` takes it away."""
        self.rng = rng
        self.name = name
        self.files: dict[str, Kept] = {}
        self.anchors: dict[str, list[bytes]] = {}
        self.dead = False
        self.left: int | None = None
        self.how = ""
        self.injected: dict[str, int] = {}
        self._vfs = _Layer(self)

    def close(self) -> None:
        """Unregister the VFS."""
        self._vfs.unregister()

    def arm(self, how: str, after: int) -> None:
        """Let the call after `after` others end in `how`: `error`, `forget` (a failed sync that lies next) or `off`."""
        self.how, self.left = how, after

    def disarm(self) -> None:
        """Let every call succeed."""
        self.how, self.left = "", None

    def step(self, call: str, kept: Kept | None = None) -> None:
        """Count one call and fail where its turn has come."""
        if self.dead:
            raise apsw.IOError("no power")
        if self.left is None:
            return
        self.left -= 1
        if self.left >= 0 or (self.how == "forget" and call != "sync"):
            return
        how = self.how
        self.disarm()
        self.injected[f"{how} {call}"] = self.injected.get(f"{how} {call}", 0) + 1
        if how == "off":
            self.dead = True
            if call == "failpoint":
                raise PowerOff
            raise apsw.IOError("no power")
        if how == "forget" and kept is not None:
            # What a failed sync left unwritten counts as written afterwards: it is never tried again.
            kept.pending.clear()
        raise apsw.FullError("full") if call == "write" and self.rng.random() < 0.3 else apsw.IOError("fault")

    def keep_anchor(self, path: Path, event: int, chain: bytes) -> None:
        """Write an anchor and remember every version: nothing syncs it."""
        if self.dead:
            raise OSError(5, "no power")
        anchor.write_anchor(path, event, chain)
        self.anchors.setdefault(str(path), []).append(path.read_bytes())

    def sync_file(self, path: Path) -> None:
        """Sync a file that is not opened through the VFS."""
        if str(path) in self.files:
            kept = self.files[str(path)]
            try:
                self.step("sync", kept)
            except apsw.Error:
                raise OSError(5, "fault") from None
            kept.fold()

    def write_again(self, path: Path) -> None:
        """Write a file as it reads now, and sync it."""
        if str(path) in self.files:
            self.files[str(path)].pending.append((0, path.read_bytes()))
            self.sync_file(path)

    def power_loss(self) -> int:
        """Leave of each file what was synced and a random part of the rest; return how many writes were lost."""
        lost = 0
        for name, kept in self.files.items():
            for offset, written in kept.pending:
                luck = self.rng.random()
                if luck < 0.5:
                    lost += 1
                elif luck < 0.6 and written is not None and len(written) > SECTOR:
                    torn = self.rng.randrange(1, len(written) // SECTOR + 1) * SECTOR
                    apply(kept.durable, offset, written[:torn])
                    lost += 1
                else:
                    apply(kept.durable, offset, written)
            kept.pending.clear()
            Path(name).write_bytes(kept.durable)
            Path(f"{name}-shm").unlink(missing_ok=True)
        for name, versions in self.anchors.items():
            chosen = versions[-self.rng.randrange(1, min(5, len(versions)) + 1)]
            if self.rng.random() < 0.2:
                chosen = chosen[: self.rng.randrange(len(chosen))]
            Path(name).write_bytes(chosen)
            self.anchors[name] = [chosen]
        self.dead = False
        self.disarm()
        return lost


class _Layer(apsw.VFS):
    """The VFS: every file of a ledger is kept."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.name, "")
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        self._disk.step("open")
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._disk.step("delete")
        self._disk.files.pop(filename, None)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    """One open file; reading sees what was written, power loss what was synced."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path not in disk.files:
            before = Path(path).read_bytes() if Path(path).exists() else b""
            disk.files[path] = Kept(bytearray(before))
        self._disk, self._path = disk, path
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.step("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.step("write")
        super().xWrite(data, offset)
        self._disk.files[self._path].pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.step("truncate")
        super().xTruncate(newsize)
        self._disk.files[self._path].pending.append((newsize, None))

    def xSync(self, flags: int) -> None:
        kept = self._disk.files[self._path]
        self._disk.step("sync", kept)
        kept.fold()


def hold_anchors(disk: Disk, monkeypatch: Any) -> None:
    """Let the ledger write its anchors and sync its -wal through the disk."""
    monkeypatch.setattr(store, "write_anchor", disk.keep_anchor)
    monkeypatch.setattr(store, "sync_file", disk.sync_file)
    monkeypatch.setattr(store, "write_again", disk.write_again)
