"""Figures of the attention cache from the config.json of a folder."""

from __future__ import annotations

import doctest
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from planner.bundles import geometry_config
from planner.bundles.geometry_config import geometry_of_config
from planner.bundles.open import open_bundle
from planner.values.kv_cache import kv_bytes
from tests.cli.support import ROOT

GROUPED = {"num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 2048}
LOCAL = {
    "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}  # fmt: skip


def test_heads_and_lengths_are_derived_as_the_model_does() -> None:
    """Grouped heads, the length of a head from the width, 32 KiB a token."""
    kv = geometry_of_config(GROUPED)
    assert kv is not None
    assert (64, (8,) * 16, 32_768) == (kv.key_length, kv.kv_heads, kv_bytes(kv, 1).total)


@pytest.mark.parametrize(
    "config",
    [
        LOCAL,
        {"model_type": "outer", "text_config": LOCAL},
        {**{k: v for k, v in LOCAL.items() if k != "layer_types"}, "sliding_window_pattern": 6},
    ],
)
def test_local_layers_are_read_from_the_list_or_the_period(config: dict[str, Any]) -> None:
    """A list of kinds, a period, and a text part inside a larger model say the same."""
    kv = geometry_of_config(config)
    assert kv is not None
    assert (512, (True,) * 5 + (False,)) == (kv.sliding_window, kv.sliding_layers)


def test_a_window_that_is_switched_off_is_none() -> None:
    """`use_sliding_window` false leaves every layer whole."""
    kv = geometry_of_config({**GROUPED, "sliding_window": 4096, "use_sliding_window": False})
    assert kv is not None
    assert (None, None) == (kv.sliding_window, kv.sliding_layers)


def test_layers_with_a_state_have_no_heads() -> None:
    """A layer that keeps a state of fixed size keeps nothing per token."""
    kinds = ["linear_attention", "full_attention"]
    kv = geometry_of_config({**GROUPED, "num_hidden_layers": 2, "layer_types": kinds})
    assert kv is not None
    assert (0, 8) == kv.kv_heads


@pytest.mark.parametrize(
    "config",
    [
        {},
        {**GROUPED, "num_hidden_layers": "16"},
        {**GROUPED, "num_hidden_layers": 10**6},
        {**GROUPED, "num_attention_heads": 0},
        {**GROUPED, "kv_lora_rank": 512},
        {**GROUPED, "global_head_dim": 512},
        {**GROUPED, "layer_types": ["indexed_attention"] * 16},
        {**GROUPED, "layer_types": ["full_attention"]},
        {**GROUPED, "layer_types": [1] * 16},
    ],
)
def test_what_the_arithmetic_does_not_know_is_none(config: dict[str, Any]) -> None:
    """No figure is guessed for a kind of layer that has another shape."""
    assert geometry_of_config(config) is None


def test_a_folder_brings_its_figures_and_keeps_its_digest(tmp_path: Path) -> None:
    """Heads in config.json come with the folder; the bundle's digest is over its files as before."""
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "model_bundles" / "reference", folder)
    (folder / "bundle.json").unlink()
    (folder / "config.json").write_text(json.dumps({**GROUPED, "max_position_embeddings": 4096}), encoding="utf-8")
    manifest = open_bundle(folder).manifest
    assert manifest.kv is not None
    assert ("config.json", 32_768) == (manifest.files[1].path, kv_bytes(manifest.kv, 1).total)


def test_a_gguf_file_brings_its_figures(shared_dir: Path, tmp_path: Path) -> None:
    """The header of a real file: 18 layers of one head, local ones with a window of 512."""
    packed = shared_dir / "bundles" / "gemma-3-270m-gguf" / "gemma-3-270m-meta.gguf.xz"
    path = tmp_path / "gemma.gguf"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    kv = open_bundle(path).manifest.kv
    assert kv is not None
    assert (18, (1,) * 18, 256, 512) == (kv.layers, kv.kv_heads, kv.key_length, kv.sliding_window)


def test_the_example_of_the_module_holds() -> None:
    """The docstring's example is run."""
    assert (1, 0) == (doctest.testmod(geometry_config).attempted, doctest.testmod(geometry_config).failed)
