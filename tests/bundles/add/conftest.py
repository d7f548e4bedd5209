"""Model folders to add: the reference one as a plain folder, a small GGUF file, adapters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.bundles.add import Added, Wanted, add_bundle
from tests.bundles.gguf.conftest import gguf_dir
from tests.bundles.gguf.small import TEMPLATE, bpe_keys
from tests.support.gguf_writer import STRING, Key, gguf_bytes

__all__ = ["gguf_dir"]

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "model_bundles" / "reference"
NAMES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

Add = Callable[..., Added]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The user's folder of bundles, which is not there yet."""
    return tmp_path / "own" / "bundles"


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of measured templates for all tests."""
    return tmp_path_factory.mktemp("measured")


@pytest.fixture
def add(own: Path, measured: Path) -> Add:
    """Add a model to the user's folder."""
    return lambda model, **fields: add_bundle(Wanted(model, **fields), own, cache_dir=measured)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The reference model as a plain folder without a manifest."""
    return plain_copy(tmp_path / "model")


def plain_copy(folder: Path) -> Path:
    """Copy the reference model's files without its manifest."""
    folder.mkdir(parents=True)
    for name in NAMES:
        shutil.copyfile(REFERENCE / name, folder / name)
    return folder


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A small GGUF file with a template and some weights behind its header."""
    path = tmp_path / "small.gguf"
    path.write_bytes(gguf_bytes(bpe_keys(Key("tokenizer.chat_template", STRING, TEMPLATE))) + bytes(4_096))
    return path


def lora(folder: Path, weights: bytes = b"weights", **config: object) -> Path:
    """Write the folder of an adapter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8} | config), encoding="utf-8")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return folder


def left_over(own: Path) -> list[str]:
    """Names in the user's folder, hidden ones too."""
    return sorted(entry.name for entry in own.iterdir()) if own.is_dir() else []
