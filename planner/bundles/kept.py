"""Answers kept between processes, one file each, by name (design.md §7: derived once, by digest).

A cache folder that cannot be read or written only costs time; what is read is checked by whoever asked.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any


def read_kept(cache_dir: Path | None, name: str) -> Any:
    """Return the JSON value kept under a name; None where there is none, no folder, or no JSON."""
    if cache_dir is None:
        return None
    with suppress(OSError, ValueError, RecursionError):
        return json.loads((cache_dir / f"{name}.json").read_bytes())
    return None


def read_kept_bytes(cache_dir: Path | None, name: str) -> bytes | None:
    """Return the bytes kept under a name; None where there are none, or not the whole of them."""
    if cache_dir is None:
        return None
    with suppress(OSError):
        data = (cache_dir / f"{name}.bin").read_bytes()
        size = hashlib.sha256().digest_size
        return data[size:] if data[:size] == hashlib.sha256(data[size:]).digest() else None
    return None


def keep_bytes(cache_dir: Path | None, name: str, data: bytes) -> None:
    """Keep bytes under a name, their digest in front; a reader sees the old file or the whole new one."""
    if cache_dir is not None:
        _write(cache_dir, f"{name}.bin", hashlib.sha256(data).digest() + data)


def keep(cache_dir: Path | None, name: str, value: Any) -> None:
    """Keep a JSON value under a name; a reader sees the old file or the whole new one."""
    if cache_dir is not None:
        _write(cache_dir, f"{name}.json", json.dumps(value).encode())


def _write(cache_dir: Path, name: str, data: bytes) -> None:
    part = cache_dir / f"{name}.{os.getpid()}.{get_ident()}.part"
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(cache_dir / name)
