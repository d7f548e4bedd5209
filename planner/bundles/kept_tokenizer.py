"""A tokenizer that was built from a GGUF header, kept between processes by the header's digest.

Building half a million merges takes longer than parsing them again; what is kept is the library's own file of
the tokenizer, with its digest in front. A damaged or foreign file is as good as none.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Tokenizer

from planner.bundles.foreign import guarded
from planner.bundles.kept import keep_bytes, read_kept_bytes
from planner.values.reasons import PlannerFault

VERSION = "1"
"""Raised with every change of how a tokenizer is built: kept ones of another version are not read."""
_MERGES, _END = '"merges":[', "}}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A tokenizer as it was built, control strings parsed, and what walking its vocabulary found."""

    tokenizer: Tokenizer
    longest_token_bytes: int | None
    warnings: tuple[str, ...]


class KeptTokenizer:
    """The place of one header's tokenizer; `cache_dir` None keeps none."""

    def __init__(self, cache_dir: Path | None, header_sha256: str) -> None:
        """Name the place; nothing is read."""
        told = json.dumps([VERSION, tokenizers.__version__, header_sha256])
        self._cache_dir = cache_dir
        self._name = "tokenizer-" + hashlib.sha256(told.encode()).hexdigest()

    def read(self) -> Kept | None:
        """Return what was kept, None where there is nothing whole."""
        data = read_kept_bytes(self._cache_dir, self._name)
        if data is None:
            return None
        head, _, body = data.partition(b"\n")
        try:
            longest, warnings = json.loads(head)
            found = guarded(lambda: Tokenizer.from_buffer(body), "a kept tokenizer did not load")
        except (ValueError, TypeError, PlannerFault):
            return None
        return Kept(found, longest, tuple(warnings))

    def keep(self, built: Kept, merges: list[tuple[str, str]]) -> None:
        """Keep a tokenizer that was just built of these merges."""
        if self._cache_dir is None:
            return
        head = json.dumps([built.longest_token_bytes, list(built.warnings)])
        keep_bytes(self._cache_dir, self._name, f"{head}\n{_written(built.tokenizer, merges)}".encode())


def _written(tokenizer: Tokenizer, merges: list[tuple[str, str]]) -> str:
    """Return the library's file with each merge as one text where no piece holds a space: it loads faster."""
    text = tokenizer.to_str()
    begin = text.rfind(_MERGES)
    if begin < 0 or not text.endswith(_END) or any(" " in first or " " in second for first, second in merges):
        return text
    joined = json.dumps([f"{first} {second}" for first, second in merges], ensure_ascii=False)
    return text[: begin + len(_MERGES) - 1] + joined + _END
