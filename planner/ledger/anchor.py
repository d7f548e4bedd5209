"""The anchor: the ledger's newest event and its chain, kept beside the ledger in two slots (threats.md §1.3).

SQLite calls a ledger sound that lost the end of its -wal, and so does the chain; only what was written elsewhere
tells. It is written under the lock, after COMMIT and before the acknowledgement, the older slot first.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"ctxplan1"
_SLOT_BYTES = 512
_BODY_BYTES = 8 + 8 + 8 + 32


@dataclass(frozen=True, slots=True)
class Mark:
    """What one slot says."""

    count: int
    event: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Anchored:
    """What the file says: the newer mark, None where there is none; `torn` where a slot is damaged."""

    mark: Mark | None
    torn: bool = False


def anchor_path(path: Path) -> Path:
    """Return the path of the anchor of a ledger."""
    return path.with_name(f"{path.name}-anchor")


def read_anchor(path: Path) -> Anchored:
    """Read both slots of an anchor file. Raises OSError, but not for an absent file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Anchored(None)
    slots = [data[start : start + _SLOT_BYTES] for start in (0, _SLOT_BYTES)]
    marks = [_parse(slot) for slot in slots]
    found = [mark for mark in marks if mark is not None]
    torn = any(mark is None and slot.strip(b"\0") for mark, slot in zip(marks, slots, strict=True))
    return Anchored(max(found, key=lambda mark: mark.count, default=None), torn or not found)


def write_anchor(path: Path, event: int, chain: bytes) -> None:
    """Write the slot that the newest mark is not in; the caller holds the ledger's lock. Raises OSError."""
    before = read_anchor(path).mark
    count = (before.count if before else 0) + 1
    body = _MAGIC + count.to_bytes(8, "big") + event.to_bytes(8, "big") + chain
    slot = (body + hashlib.sha256(body).digest()).ljust(_SLOT_BYTES, b"\0")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        os.lseek(descriptor, count % 2 * _SLOT_BYTES, os.SEEK_SET)
        os.write(descriptor, slot)
    finally:
        os.close(descriptor)


def renew_anchor(path: Path, event: int, chain: bytes) -> None:
    """Write both slots, whatever stood in them; an empty ledger has no anchor. Raises OSError."""
    if event == 0:
        path.unlink(missing_ok=True)
        return
    for _ in range(2):
        write_anchor(path, event, chain)


def _parse(slot: bytes) -> Mark | None:
    body, checksum = slot[:_BODY_BYTES], slot[_BODY_BYTES : _BODY_BYTES + 32]
    if len(body) < _BODY_BYTES or body[:8] != _MAGIC or hashlib.sha256(body).digest() != checksum:
        return None
    return Mark(int.from_bytes(body[8:16], "big"), int.from_bytes(body[16:24], "big"), body[24:])
