"""vocab.json + merges.txt: the Qwen2 class is built as it is defined, every other class refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from planner.bundles.hf_folder import open_folder
from planner.bundles.vocab_merges import read_merges
from planner.values.reasons import PlannerFault
from tests.bundles.samples import mixed_texts


def test_ids_equal_those_of_the_same_models_tokenizer_json(bundle_dir: Path, seed: int) -> None:
    """qwen3 from vocab and merges and qwen3 from tokenizer.json agree, parsed or not, token for token."""
    slow, fast = open_folder(bundle_dir / "qwen3-slow"), open_folder(bundle_dir / "qwen3-0.6b")
    assert fast.manifest.control_tokens == slow.manifest.control_tokens
    assert fast.manifest.longest_token_bytes == slow.manifest.longest_token_bytes
    for text in mixed_texts(seed, 150):
        dirty = f"<|im_start|>user\n{text}<think>{text}</think><|im_end|>"
        assert fast.engine.encode_ids(text) == slow.engine.encode_ids(text)
        assert fast.engine.encode_ids(dirty) == slow.engine.encode_ids(dirty)
        assert fast.engine.encode_parsed(dirty) == slow.engine.encode_parsed(dirty)


def small_folder(source: Path, target: Path, **config: object) -> Path:
    """Copy the folder with links to nothing: its two files and a changed configuration."""
    target.mkdir()
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(source / "qwen3-slow" / name, target / name)
    stated = json.loads((source / "qwen3-slow" / "tokenizer_config.json").read_text(encoding="utf-8"))
    (target / "tokenizer_config.json").write_text(json.dumps({**stated, **config}), encoding="utf-8")
    return target


def test_another_class_is_refused_by_its_name(bundle_dir: Path, tmp_path: Path) -> None:
    """The two files do not say how text is split, so an unknown class is not guessed."""
    folder = small_folder(bundle_dir, tmp_path / "m", tokenizer_class="RobertaTokenizer")
    with pytest.raises(PlannerFault, match=r"format_not_supported: .*'RobertaTokenizer'"):
        open_folder(folder)


def test_an_added_token_with_an_id_that_is_not_next_is_refused(bundle_dir: Path, tmp_path: Path) -> None:
    """A configuration that numbers its added tokens otherwise than the library is a contradiction."""
    table = {"151644": {"content": "<|im_start|>", "special": True}}
    folder = small_folder(bundle_dir, tmp_path / "m", added_tokens_decoder=table)
    with pytest.raises(PlannerFault, match=r"bundle_mismatch: .* that is not next"):
        open_folder(folder)


@pytest.mark.parametrize("kept", ["vocab.json", "merges.txt"])
def test_one_file_without_the_other_names_the_absent_one(tmp_path: Path, kept: str) -> None:
    """Each of the two needs the other."""
    (tmp_path / kept).write_text("{}", encoding="utf-8")
    absent = {"vocab.json": "merges.txt", "merges.txt": "vocab.json"}[kept]
    with pytest.raises(PlannerFault, match=f"bundle_incomplete: .*{absent} is absent"):
        open_folder(tmp_path)


def test_merges_keep_a_hash_that_is_no_version_line() -> None:
    """Only a first line that names a version is left out; `# #` is a merge."""
    assert read_merges(b"#version: 0.2\n# #\na b\r\n") == [("#", "#"), ("a", "b")]
    with pytest.raises(PlannerFault, match="line 2"):
        read_merges(b"a b\nabc\n")
