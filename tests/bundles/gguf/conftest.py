"""GGUF files for tests: the shared vocabularies expanded once, and small models that we write."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gguf_writer import Key, Shape, gguf_bytes, llama_model, tokenizer_keys

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "model_bundles" / "reference"
VOCABULARIES = ("gemma-4", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "qwen35")
WITH_TEMPLATE = ("gemma-4", "phi-3", "qwen2", "qwen35")


@pytest.fixture(scope="session")
def gguf_dir(shared_dir: Path) -> Path:
    """Every shared vocabulary expanded into .cache/gguf."""
    target = ROOT / ".cache" / "gguf"
    target.mkdir(parents=True, exist_ok=True)
    for packed in sorted((shared_dir / "gguf_vocab").glob("*.gguf.xz")):
        path = target / packed.stem
        if not path.is_file():
            part = path.with_suffix(".part")
            part.write_bytes(lzma.decompress(packed.read_bytes()))
            part.replace(path)
    return target


def vocabulary_path(folder: Path, name: str) -> Path:
    """Return the path of a shared vocabulary by its short name."""
    return folder / f"ggml-vocab-{name}.gguf"


@pytest.fixture(scope="session")
def reference_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights over the `reference` bundle's tokenizer and template."""
    template = (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("gguf") / "reference.gguf"
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "gpt-2", template=template), Shape(context=512)))
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[list[Key]], Path]:
    """Write keys as model.gguf and return its path."""

    def written(keys: list[Key]) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(gguf_bytes(keys))
        return path

    return written
