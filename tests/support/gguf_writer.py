"""A tiny GGUF writer: any keys and tensors, and whole models with random weights small enough for a test.

A llama model of one layer over any vocabulary: a server loads it and counts as it would for a real one. Nothing
here is shared with the reader under test.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
F32, F16 = 0, 1
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


@dataclass(frozen=True)
class Key:
    """One key; an array has its elements' kind in `of`."""

    name: str
    kind: int
    value: Any
    of: int = STRING


@dataclass(frozen=True)
class Tensor:
    """One tensor; `shape` is innermost first, as the file has it, `data` the raw bytes."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: bytes


def text(value: str | bytes) -> bytes:
    """Return a length-prefixed text."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def written(kind: int, value: Any, of: int = STRING) -> bytes:
    """Return a value without its kind."""
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        items = list(value)
        head = struct.pack("<IQ", of, len(items))
        if of == STRING:
            return head + b"".join(map(text, items))
        return head + struct.pack(f"<{len(items)}{CODES[of]}", *items)
    return struct.pack("<" + CODES[kind], value)


def gguf_bytes(keys: Iterable[Key], tensors: Sequence[Tensor] = (), *, alignment: int = 32, version: int = 3) -> bytes:
    """Return a whole file. `general.alignment` is not written; give it among the keys to state it."""
    rows = list(keys)
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(rows)))
    for key in rows:
        out += text(key.name) + struct.pack("<I", key.kind) + written(key.kind, key.value, key.of)
    offset, body = 0, bytearray()
    for tensor in tensors:
        out += text(tensor.name) + struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        out += struct.pack("<IQ", tensor.kind, offset)
        body += tensor.data + bytes(-len(tensor.data) % alignment)
        offset = len(body)
    if tensors:
        out += bytes(-len(out) % alignment) + body
    return bytes(out)


@dataclass(frozen=True)
class Shape:
    """Sizes of the model to write; `heads` times eight is its width."""

    context: int = 512
    heads: int = 2
    layers: int = 1
    seed: int = 20261130
    name: str = "random weights"
    extra: tuple[Key, ...] = ()


def llama_model(tokenizer: Sequence[Key], shape: Shape = Shape()) -> bytes:
    """Return a llama model with random weights over a vocabulary given by its tokenizer keys."""
    vocabulary = next(len(key.value) for key in tokenizer if key.name == "tokenizer.ggml.tokens")
    width, inner = 8 * shape.heads, 16 * shape.heads
    keys = [
        Key("general.architecture", STRING, "llama"),
        Key("general.name", STRING, shape.name),
        Key("llama.block_count", UINT32, shape.layers),
        Key("llama.context_length", UINT32, shape.context),
        Key("llama.embedding_length", UINT32, width),
        Key("llama.feed_forward_length", UINT32, inner),
        Key("llama.attention.head_count", UINT32, shape.heads),
        Key("llama.attention.head_count_kv", UINT32, 1),
        Key("llama.rope.dimension_count", UINT32, 8),
        Key("llama.vocab_size", UINT32, vocabulary),
        Key("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        *shape.extra,
    ]
    draw = random.Random(shape.seed)

    def matrix(name: str, rows: int, columns: int) -> Tensor:
        # A few thousand different weights are as good as a million for a server that only counts.
        some = struct.pack("<1024e", *(draw.uniform(-0.1, 0.1) for _ in range(1024)))
        size = 2 * rows * columns
        return Tensor(name, (rows, columns), F16, (some * (size // len(some) + 1))[:size])

    def norm(name: str) -> Tensor:
        return Tensor(name, (width,), F32, struct.pack(f"<{width}f", *[1.0] * width))

    tensors = [matrix("token_embd.weight", width, vocabulary), norm("output_norm.weight")]
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        tensors += [
            norm(at + "attn_norm.weight"), matrix(at + "attn_q.weight", width, width),
            matrix(at + "attn_k.weight", width, 8), matrix(at + "attn_v.weight", width, 8),
            matrix(at + "attn_output.weight", width, width), norm(at + "ffn_norm.weight"),
            matrix(at + "ffn_gate.weight", width, inner), matrix(at + "ffn_up.weight", width, inner),
            matrix(at + "ffn_down.weight", inner, width),
        ]  # fmt: skip
    return gguf_bytes([*keys, *tokenizer], tensors)


def tokenizer_keys(folder: Path, pre: str, *, template: str | None = None, add_bos: bool | None = False) -> list[Key]:
    """Return the tokenizer keys of a folder with a byte-level tokenizer.json and a tokenizer_config.json.

    Tokens flagged special become control tokens, other added tokens user-defined; holes are filled by names
    that no text spells.
    """
    described = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(described["model"]["vocab"])
    kinds = dict.fromkeys(ids.values(), NORMAL)
    for token in described["added_tokens"]:
        ids[token["content"]] = token["id"]
        kinds[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    by_id = {index: name for name, index in ids.items()}
    size = max(by_id) + 1
    tokens = [by_id.get(index, f"[PAD{index}]") for index in range(size)]
    merges = [one if isinstance(one, str) else " ".join(one) for one in described["model"]["merges"]]
    keys = [
        Key("tokenizer.ggml.model", STRING, "gpt2"),
        Key("tokenizer.ggml.pre", STRING, pre),
        Key("tokenizer.ggml.tokens", ARRAY, tokens),
        Key("tokenizer.ggml.token_type", ARRAY, [kinds.get(index, 5) for index in range(size)], INT32),
        Key("tokenizer.ggml.merges", ARRAY, merges),
    ]
    for name, key in (("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding")):
        stated = config.get(name)
        stated = stated.get("content") if isinstance(stated, dict) else stated
        if isinstance(stated, str) and stated in ids:
            keys.append(Key(f"tokenizer.ggml.{key}_token_id", UINT32, ids[stated]))
    if add_bos is not None:
        keys.append(Key("tokenizer.ggml.add_bos_token", BOOL, add_bos))
    if template is not None:
        keys.append(Key("tokenizer.chat_template", STRING, template))
    return keys


def keys_again(values: Mapping[str, Any], prefix: str = "tokenizer.") -> list[Key]:
    """Return parsed values as keys again: texts, flags, numbers and arrays as a file holds them."""
    kinds = {code: kind for kind, code in CODES.items()}
    found = []
    for name, value in values.items():
        if not name.startswith(prefix):
            continue
        if isinstance(value, bool):
            found.append(Key(name, BOOL, value))
        elif isinstance(value, int):
            found.append(Key(name, UINT32, value))
        elif isinstance(value, float):
            found.append(Key(name, FLOAT32, value))
        elif isinstance(value, str):
            found.append(Key(name, STRING, value))
        elif isinstance(value, list):
            found.append(Key(name, ARRAY, value))
        else:
            found.append(Key(name, ARRAY, value.tolist(), kinds[value.typecode]))
    return found
