"""Model files of real families for a test: a published vocabulary and template, with random weights behind them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.bundles.gguf_header import parse_header
from planner.values.request import CONCESSIONS, Concession
from tests.support.gguf_writer import Key, Shape, keys_again, llama_model, tokenizer_keys

REFERENCE = Path(__file__).resolve().parents[2] / "model_bundles" / "reference"


@dataclass(frozen=True)
class Family:
    """Where tokenizer and template come from, and what a caller must say so that both sides render the same.

    folder      tokenizer.json and config, in our own repository (`reference`) or among the shared bundles
    vocabulary  a shared GGUF vocabulary instead; its own template unless `template` names a shared one
    pre         splitting rule of a folder's tokenizer, as GGUF names it
    begins      the runtime puts the begin token in front of a rendered text
    kwargs      what the runtime's template engine is told, over what it takes by default
    """

    name: str
    folder: str | None = None
    vocabulary: str | None = None
    template: str | None = None
    pre: str = ""
    begins: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    concessions: tuple[Concession, ...] = ()


FAMILIES = (
    Family("reference", folder="", pre="gpt-2"),
    Family("qwen3", folder="qwen3-0.6b", pre="qwen2"),
    Family("llama-3.1", folder="llama-3.1", pre="llama-bpe", begins=True, concessions=CONCESSIONS),
    # The server switches thinking on where nothing is said; the publisher's template leaves it off.
    Family("gemma-4", vocabulary="gemma-4", begins=True, kwargs={"enable_thinking": False}),
    Family("qwen3.5", vocabulary="qwen35", template="Qwen3.5-4B"),
)


def written(family: Family, shared: Path | None, bundles: Path | None, path: Path, context: int) -> Path:
    """Write the model file; `shared` and `bundles` are the folders of shared data, not needed for `reference`."""
    path.write_bytes(llama_model(_keys(family, shared, bundles), Shape(context=context)))
    return path


def _keys(family: Family, shared: Path | None, bundles: Path | None) -> list[Key]:
    if family.folder is not None:
        folder = REFERENCE if not family.folder or bundles is None else bundles / family.folder
        return tokenizer_keys(folder, family.pre, template=_own_template(folder), add_bos=family.begins)
    assert shared is not None, "a shared vocabulary"
    packed = shared / "gguf_vocab" / f"ggml-vocab-{family.vocabulary}.gguf.xz"
    values = parse_header(data := lzma.decompress(packed.read_bytes()), len(data)).values
    if family.template is not None:
        text = (shared / "templates" / f"{family.template}.jinja").read_text(encoding="utf-8")
        values = {**values, "tokenizer.chat_template": text}
    return keys_again(values)


def _own_template(folder: Path) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    return str(config["chat_template"])
