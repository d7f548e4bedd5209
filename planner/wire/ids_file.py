"""Token ids as a file: little-endian int32, bare or as a one-dimensional .npy of version 1."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

from planner.values.field_rules import invalid

MAX_IDS = 4 * 1024 * 1024
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '<i4', 'fortran_order': False, 'shape': \(([0-9]{1,8}),\), \} *\n")


def ids_to_npy(ids: Sequence[int]) -> bytes:
    """Return the bytes of an .npy file that numpy.load reads as int32.

    >>> ids_to_npy([1, 2])[:6]
    b'\\x93NUMPY'
    """
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(ids)},), }}"
    # The format wants the data to begin at a multiple of 64 bytes.
    header += " " * (-(len(_MAGIC) + 2 + len(header) + 1) % 64) + "\n"
    return _MAGIC + len(header).to_bytes(2, "little") + header.encode() + _little_endian(array("i", ids))


def ids_from_bytes(data: bytes, path: str) -> array[int]:
    """Return the ids of an int32 or .npy file; `path` is the JSON path that a refusal names.

    Raises RefusalSignal `invalid-input` for another format, a negative id, or more than 4 Mi ids.
    """
    count = -1
    if data.startswith(b"\x93NUMPY"):
        start = len(_MAGIC) + 2
        end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        header = _HEADER.fullmatch(data[start:end]) if data.startswith(_MAGIC) else None
        if header is None:
            invalid(path, "names an .npy file that is no one-dimensional int32 array")
        count, data = int(header[1]), data[end:]
    if len(data) % 4 or count not in (-1, len(data) // 4) or len(data) > MAX_IDS * 4:
        invalid(path, "names a file that is no array of int32")
    ids = array("i")
    ids.frombytes(data)
    if sys.byteorder == "big":
        ids.byteswap()
    if ids and min(ids) < 0:
        invalid(path, "names a file with a negative id")
    return ids


def read_ids(name: str, base: Path | None, path: str) -> array[int]:
    """Read the ids of the file `name` below the folder `base`.

    Raises RefusalSignal `invalid-input` where no folder is given, the name leaves it, or the file is no array
    of ids or cannot be read. The name itself is never shown.
    """
    if base is None:
        invalid(path, "names a file, but no folder to read from is given")
    root = base.resolve()
    data: bytes | None = None
    try:
        file = (root / name).resolve()
        if file.is_relative_to(root) and file.is_file() and file.stat().st_size <= MAX_IDS * 4 + 4096:
            data = file.read_bytes()
    except (OSError, ValueError):
        data = None
    if data is None:
        invalid(path, "names no readable file below the request's folder")
    return ids_from_bytes(data, path)


def _little_endian(ids: array[int]) -> bytes:
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()
