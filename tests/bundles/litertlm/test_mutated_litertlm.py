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
from planner.bundles.litertlm import load_litertlm, read_sections
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault
from tests.bundles.litertlm.small import FULL, PIECES
from tests.support.damage import damage, most_bytes

FILES = 20_000 if os.environ.get("PLANNER_FULL") == "1" else 300
CODES = {
    "bundle_unsafe", "bundle_incomplete", "format_not_supported", "tokenizer_failed", "bundle_mismatch",
    "template_rejected",
}  # fmt: skip
BEGINNINGS = (0, 16_384, 32_768)


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Yield damaged copies: bits flipped, numbers replaced, stretches cut, doubled or moved."""
    draw = random.Random(seed)
    for place in range(count):
        data = bytearray((FULL, PIECES)[place % 2])
        for _ in range(draw.randint(1, 3)):
            begin = draw.choice(BEGINNINGS)
            at = min(begin + draw.randrange(500 if draw.random() < 0.8 else 9_000), len(data) - 1)
            damage(data, at, draw)
            if not data:
                break
        yield bytes(data)


def test_litertlm_damaged_files_end_in_a_code_of_ours(tmp_path: Path, seed: int) -> None:
    """No other exception, and less than 64 MiB above what the process had before; what opens can encode."""
    path = tmp_path / "model.litertlm"

    def opened(data: bytes) -> None:
        path.write_bytes(data)
        loaded, config = load_litertlm(FolderFiles(tmp_path), path.name)
        controls = [ControlToken(one.text, one.id) for one in loaded.added if one.special]
        engine = loaded.make_engine(controls)
        engine.decode(list(engine.encode("the Quick brown fox, 12\n <|end|></s>").ids))
        assert config.template is None or len(config.template) < 1 << 20

    for data in (FULL, PIECES):
        opened(data)
    before, faults = most_bytes(), []
    for data in mutated(seed, FILES):
        try:
            opened(data)
        except PlannerFault as fault:
            faults.append((fault.code, fault.__cause__))  # the fault itself would hold the file's bytes
    assert most_bytes() - before < 64 << 20
    assert {code for code, _ in faults} <= CODES
    assert {cause for _, cause in faults} == {None}
    assert FILES // 4 < len(faults) < FILES


@pytest.mark.parametrize("data", [FULL, PIECES])
def test_litertlm_a_file_of_weights_is_read_by_its_sections(tmp_path: Path, data: bytes) -> None:
    """Eight GiB behind the tokenizer cost nothing: the entry is that of the three stretches."""
    path = tmp_path / "model.litertlm"
    with path.open("wb") as handle:
        handle.write(data)
        handle.truncate(8 << 30)
    files = FolderFiles(tmp_path)
    read = read_sections(files, path.name)
    wanted = read.header.length + len(read.metadata or b"") + len(read.tokenizer)
    assert wanted == files.entries[path.name].size_bytes < 100_000
