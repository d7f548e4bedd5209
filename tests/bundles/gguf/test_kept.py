"""A tokenizer kept between processes gives the ids of one that was built, and nothing damaged is taken."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from planner.bundles.gguf import open_gguf
from planner.bundles.kept import keep_bytes, read_kept_bytes
from planner.bundles.kept_tokenizer import KeptTokenizer
from tests.bundles.gguf.conftest import vocabulary_path
from tests.bundles.gguf.small import BPE, CONTROLS, bpe_keys, changed
from tests.bundles.samples import mixed_texts
from tests.support.gguf_writer import gguf_bytes

FULL = os.environ.get("PLANNER_FULL") == "1"


@pytest.mark.parametrize("name", ["qwen2", "gpt-2", "gemma-4"] if FULL else ["qwen2"])
def test_a_kept_tokenizer_is_the_built_one(gguf_dir: Path, tmp_path: Path, seed: int, name: str) -> None:
    """Manifest, ids as text and ids with control strings parsed."""
    path = vocabulary_path(gguf_dir, name)
    built = open_gguf(path)
    open_gguf(path, cache_dir=tmp_path)
    assert len(list(tmp_path.glob("tokenizer-*.bin"))) == 1
    kept = open_gguf(path, cache_dir=tmp_path)
    assert built.manifest == kept.manifest
    for text in [*mixed_texts(seed, 60), *(token.text + " x" for token in built.manifest.control_tokens[:20])]:
        assert built.engine.encode_ids(text) == kept.engine.encode_ids(text)
        assert built.engine.encode_parsed(text) == kept.engine.encode_parsed(text)


def _opened(tmp_path: Path, data: bytes = BPE) -> list[int]:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    bundle = open_gguf(path, cache_dir=tmp_path / "cache")
    return [*bundle.engine.encode_ids("the quick brown fox"), *bundle.engine.encode_parsed(CONTROLS[0])]


def test_what_is_kept_is_used_and_what_is_damaged_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte changed anywhere in the kept file, or a file cut short: the same ids, and it is kept anew."""
    expected = _opened(tmp_path)
    (kept,) = (tmp_path / "cache").glob("tokenizer-*.bin")
    whole = kept.read_bytes()
    for damaged in (
        whole[:-1],
        b"",
        whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
        bytes([whole[0] ^ 1]) + whole[1:],
    ):
        kept.write_bytes(damaged)
        assert expected == _opened(tmp_path)
        assert whole == kept.read_bytes()
    # Whatever its digest says, a file that holds no tokenizer is none either.
    for foreign in (b"", b"[1, []]\n{}", b"{}\nx", b"[null]\n"):
        keep_bytes(tmp_path / "cache", kept.stem, foreign)
        assert foreign == read_kept_bytes(tmp_path / "cache", kept.stem)
        assert expected == _opened(tmp_path)
    monkeypatch.setattr("planner.bundles.gguf_bpe.build_bpe", None)
    assert expected == _opened(tmp_path)


def test_another_header_is_another_kept_tokenizer(tmp_path: Path) -> None:
    """One merge changed in the file: its own ids, not the kept ones."""
    merges = next(key.value for key in bpe_keys() if key.name == "tokenizer.ggml.merges")
    other = gguf_bytes(changed(bpe_keys(), "tokenizer.ggml.merges", merges[40:]))
    expected = _opened(tmp_path, other)
    shutil.rmtree(tmp_path / "cache")
    assert expected != _opened(tmp_path)
    assert expected == _opened(tmp_path, other)
    assert len(list((tmp_path / "cache").glob("tokenizer-*.bin"))) == 2


def test_without_a_cache_nothing_is_kept() -> None:
    """No folder, no file."""
    assert KeptTokenizer(None, "0" * 64).read() is None
