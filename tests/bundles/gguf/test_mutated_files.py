"""Damaged files: each opens as another bundle or is refused by a code of ours; nothing else, and nothing large.

300 files by default, 20,000 with PLANNER_FULL=1.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.bundles.files import FolderFiles
from planner.bundles.gguf import open_gguf, read_header
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.small import BPE, SPM
from tests.support.damage import damage, most_bytes

FULL = os.environ.get("PLANNER_FULL") == "1"
FILES = 20_000 if FULL else 300
CODES = {"bundle_unsafe", "bundle_incomplete", "format_not_supported", "tokenizer_failed", "bundle_mismatch"}


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Yield damaged copies: bits flipped, numbers replaced, stretches cut, doubled or moved."""
    draw = random.Random(seed)
    for number in range(count):
        data = bytearray((BPE, SPM)[number % 2])
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(min(len(data), 400) if draw.random() < 0.5 else len(data))
            damage(data, at, draw)
            if not data:
                break
        yield bytes(data)


def test_damaged_files_end_in_a_code_of_ours(tmp_path: Path, seed: int) -> None:
    """No other exception, and less than 64 MiB above what the process had before."""
    path = tmp_path / "model.gguf"
    path.write_bytes(BPE)
    open_gguf(path).engine.encode("the quick brown fox")
    path.write_bytes(SPM)
    open_gguf(path).engine.encode("the quick brown fox")
    before, faults = most_bytes(), []
    for data in mutated(seed, FILES):
        path.write_bytes(data)
        try:
            engine = open_gguf(path).engine
            engine.decode(list(engine.encode("the Quick brown fox, 12\n <|end|></s>").ids))
            engine.encode_parsed("<|begin|>the fox<|end|> ")
        except PlannerFault as fault:
            faults.append(fault)
    assert most_bytes() - before < 64 << 20
    assert {fault.code for fault in faults} <= CODES
    assert {fault.__cause__ for fault in faults} == {None}
    assert FILES // 4 < len(faults) < FILES


@pytest.mark.parametrize("data", [BPE, SPM])
def test_reading_takes_no_byte_beyond_the_header_and_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """A file of weights is read by its first window only: the entry is that of the header."""
    monkeypatch.setattr("planner.bundles.gguf._FIRST_WINDOW_BYTES", 1_024)
    path = tmp_path / "model.gguf"
    with path.open("wb") as handle:
        handle.write(data)
        handle.truncate(8 << 30)
    files = FolderFiles(tmp_path)
    header = read_header(files, "model.gguf")
    assert len(data) == header.length == files.entries["model.gguf"].size_bytes
