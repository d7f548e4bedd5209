"""The published texts and ids of each shared vocabulary, made by llama.cpp itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from tests.bundles.gguf.conftest import VOCABULARIES, vocabulary_path

PAIRS = {"gemma-4": 46, "gpt-2": 46, "llama-bpe": 46, "llama-spm": 46, "phi-3": 46, "qwen2": 46, "qwen35": 50}
KNOWN_DIFFERENCES: dict[str, dict[int, str]] = {}
"""By vocabulary, the number of a pair and why its ids differ. None does."""


def read_pairs(shared: Path, name: str) -> list[tuple[str, list[int]]]:
    """Return (text, ids): texts stand between lines with a mark, ids one line each."""
    beside = shared / "gguf_vocab" / f"ggml-vocab-{name}.gguf"
    texts = Path(f"{beside}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{beside}.out").read_text(encoding="utf-8").splitlines()
    if len(texts) == len(lines) + 1 or (not texts[-1] and not lines[-1].strip()):
        texts = texts[: len(lines)]
    return [(text, [int(word) for word in line.split()]) for text, line in zip(texts, lines, strict=True)]


def test_every_shared_vocabulary_is_compared(shared_dir: Path) -> None:
    """A file added to the shared data is not forgotten here."""
    found = {path.name.removeprefix("ggml-vocab-").split(".")[0] for path in (shared_dir / "gguf_vocab").glob("*.xz")}
    assert set(VOCABULARIES) == found


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_published_pair_is_equal(shared_dir: Path, gguf_dir: Path, name: str) -> None:
    """Ids of every text equal the line beside it, but for the differences that are named with their cause."""
    engine = open_bundle(vocabulary_path(gguf_dir, name)).engine
    pairs = read_pairs(shared_dir, name)
    differing = {number for number, (text, ids) in enumerate(pairs) if list(engine.encode_parsed(text)) != ids}
    assert set(KNOWN_DIFFERENCES.get(name, {})) == differing
    assert PAIRS[name] == len(pairs)
    # None spells a control string, so as content, with control tokens switched off, each has the same ids.
    assert [ids for _, ids in pairs] == [list(engine.encode(text).ids) for text, _ in pairs]
