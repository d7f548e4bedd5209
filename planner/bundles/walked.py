"""What walking a large vocabulary found, kept between processes by the digest of the file (design.md §7)."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from planner.bundles.loaded import Loaded

WALK_VERSION = "1"
"""Raised with every change of what the walk checks: kept answers of another version are not read."""


class WalkedVocabulary:
    """The answer kept for one tokenizer file, if there is one; only files that passed are kept."""

    def __init__(self, cache_dir: Path | None, data: bytes) -> None:
        """Look for the answer of exactly these bytes; `cache_dir` None keeps none."""
        self.known = False
        self.longest_token_bytes: int | None = None
        self._place: Path | None = None
        if cache_dir is None:
            return
        key = hashlib.sha256(WALK_VERSION.encode() + b"\0" + data).hexdigest()
        self._place = cache_dir / f"vocabulary-{key}.json"
        with suppress(OSError, ValueError, TypeError, KeyError):
            longest = json.loads(self._place.read_bytes())["longestTokenBytes"]
            if longest is None or (type(longest) is int and longest > 0):
                self.known, self.longest_token_bytes = True, longest

    def keep(self, loaded: Loaded) -> Loaded:
        """Remember what was found and return it; a folder that cannot be written is no reason to refuse."""
        if self._place is not None:
            with suppress(OSError):
                self._place.parent.mkdir(parents=True, exist_ok=True)
                part = self._place.with_suffix(".part")
                part.write_text(json.dumps({"longestTokenBytes": loaded.longest_token_bytes}), encoding="utf-8")
                part.replace(self._place)
        return loaded
