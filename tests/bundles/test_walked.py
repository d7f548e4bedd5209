"""What walking a vocabulary found is remembered for exactly these bytes."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from planner.bundles import tokenizer_json, walked
from planner.bundles.hf_folder import open_folder

REFERENCE = Path(__file__).resolve().parents[2] / "model_bundles" / "reference"


def _folder(tmp_path: Path) -> Path:
    folder = copytree(REFERENCE, tmp_path / "copy")
    (folder / "bundle.json").unlink()
    return folder


def test_a_second_opening_walks_no_vocabulary_and_gives_the_same_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept figure stands in for the walk, and only with a cache folder."""
    folder, cache = _folder(tmp_path), tmp_path / "cache"
    first = open_folder(folder, cache_dir=cache).manifest
    walks: list[bool] = []
    describe = tokenizer_json.describe

    def counted(*arguments: object, reviewed: bool = False) -> object:
        walks.append(not reviewed)
        return describe(*arguments, reviewed=reviewed)  # type: ignore[arg-type]

    monkeypatch.setattr(tokenizer_json, "describe", counted)
    assert first == open_folder(folder, cache_dir=cache).manifest
    assert [False] == walks
    open_folder(folder)
    assert [False, True] == walks


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"longestTokenBytes": -1}', b'{"longestTokenBytes": true}', b"\xff"])
def test_a_damaged_answer_is_worked_out_again(tmp_path: Path, damage: bytes) -> None:
    """Nothing but a whole number or null is taken from the cache."""
    folder, cache = _folder(tmp_path), tmp_path / "cache"
    first = open_folder(folder, cache_dir=cache).manifest
    (kept,) = cache.glob("vocabulary-*.json")
    kept.write_bytes(damage)
    assert not walked.WalkedVocabulary(cache, (folder / "tokenizer.json").read_bytes()).known
    assert first == open_folder(folder, cache_dir=cache).manifest
