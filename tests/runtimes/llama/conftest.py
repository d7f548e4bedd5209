"""Real llama.cpp servers over small models with random weights, each started once for the module that asks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.runtimes.llama_cpp import LlamaServer as Client
from tests.support.gguf_writer import Shape, llama_model, tokenizer_keys
from tests.support.llama_server import LlamaServer

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "model_bundles" / "reference"
WINDOW = 8_192


@pytest.fixture(scope="session")
def reference_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokenizer and template of the `reference` bundle with random weights behind them."""
    template = (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("gguf") / "reference.gguf"
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "gpt-2", template=template), Shape(context=WINDOW)))
    return path


@pytest.fixture(scope="module")
def server(reference_gguf: Path) -> Iterator[LlamaServer]:
    """A server with one slot that keeps no prompt but the one it last ran."""
    with LlamaServer(reference_gguf, context=WINDOW, cache_ram_mib=0) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: LlamaServer) -> Client:
    """Our own client of that server."""
    return Client(server.url)


@pytest.fixture(scope="session")
def planning(reference_gguf: Path) -> Planner:
    """A planner of the same file."""
    return Planner(open_bundle(reference_gguf))
