"""What walking a large vocabulary found, kept between processes by the digest of the file (design.md §7)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from planner.bundles.kept import keep, read_kept
from planner.bundles.loaded import Loaded

WALK_VERSION = "1"
"""Raised with every change of what the walk checks: kept answers of another version are not read."""
_FIELD = "longestTokenBytes"


class WalkedVocabulary:
    """The answer kept for one tokenizer file, if there is one; only files that passed are kept."""

    def __init__(self, cache_dir: Path | None, data: bytes) -> None:
        """Look for the answer of exactly these bytes; `cache_dir` None keeps none."""
        self._cache_dir = cache_dir
        self._name = ""
        self.known = False
        self.longest_token_bytes: int | None = None
        if cache_dir is None:
            return
        self._name = "vocabulary-" + hashlib.sha256(WALK_VERSION.encode() + b"\0" + data).hexdigest()
        value = read_kept(cache_dir, self._name)
        if isinstance(value, dict) and _FIELD in value:
            longest = value[_FIELD]
            if longest is None or (type(longest) is int and longest > 0):
                self.known, self.longest_token_bytes = True, longest

    def keep(self, loaded: Loaded) -> Loaded:
        """Remember what was found and return it."""
        keep(self._cache_dir, self._name, {_FIELD: loaded.longest_token_bytes})
        return loaded


def walked_tokenizer_json(read: Callable[[], bytes], cache_dir: Path | None) -> Loaded:
    """Load a tokenizer.json that `read` returns, walking its vocabulary where no answer is kept.

    Raises tokenizer_failed, bundle_unsafe, what `read` raises.
    """
    from planner.bundles.tokenizer_json import load_tokenizer_json

    data = read()
    found = WalkedVocabulary(cache_dir, data)
    if found.known:
        loaded = load_tokenizer_json(data, read, reviewed=True)
        return replace(loaded, longest_token_bytes=found.longest_token_bytes)
    return found.keep(load_tokenizer_json(data, read))
