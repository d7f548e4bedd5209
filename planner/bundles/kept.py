"""Answers kept between processes, one small JSON file each, by name (design.md §7: derived once, by digest).

A cache folder that cannot be read or written only costs time; what is read is checked by whoever asked.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def read_kept(cache_dir: Path | None, name: str) -> Any:
    """Return the JSON value kept under a name; None where there is none, no folder, or no JSON."""
    if cache_dir is None:
        return None
    with suppress(OSError, ValueError, RecursionError):
        return json.loads((cache_dir / f"{name}.json").read_bytes())
    return None


def keep(cache_dir: Path | None, name: str, value: Any) -> None:
    """Keep a JSON value under a name; a reader sees the old file or the whole new one."""
    if cache_dir is None:
        return
    part = cache_dir / f"{name}.{os.getpid()}.part"
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(value), encoding="utf-8")
        part.replace(cache_dir / f"{name}.json")
