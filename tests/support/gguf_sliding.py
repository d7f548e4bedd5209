"""A model with sliding windows and random weights: local layers, every sixth one global."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from tests.support.gguf_writer import F16, F32, FLOAT32, STRING, UINT32, Key, Tensor, gguf_bytes

LAYERS, WIDTH, HEAD, INNER = 6, 16, 8, 32


def sliding_model(tokenizer: Sequence[Key], *, context: int, window: int) -> bytes:
    """Return a gemma3 model over a vocabulary; `window` is how many tokens a local layer sees."""
    vocabulary = next(len(key.value) for key in tokenizer if key.name == "tokenizer.ggml.tokens")
    keys = [
        Key("general.architecture", STRING, "gemma3"),
        Key("gemma3.block_count", UINT32, LAYERS),
        Key("gemma3.context_length", UINT32, context),
        Key("gemma3.embedding_length", UINT32, WIDTH),
        Key("gemma3.feed_forward_length", UINT32, INNER),
        Key("gemma3.attention.head_count", UINT32, 2),
        Key("gemma3.attention.head_count_kv", UINT32, 1),
        Key("gemma3.attention.key_length", UINT32, HEAD),
        Key("gemma3.attention.value_length", UINT32, HEAD),
        Key("gemma3.attention.sliding_window", UINT32, window),
        Key("gemma3.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
    ]
    draw = random.Random(20261130)
    some = struct.pack("<1024e", *(draw.uniform(-0.1, 0.1) for _ in range(1024)))

    def matrix(name: str, rows: int, columns: int) -> Tensor:
        size = 2 * rows * columns
        return Tensor(name, (rows, columns), F16, (some * (size // len(some) + 1))[:size])

    def norm(name: str, size: int = WIDTH) -> Tensor:
        return Tensor(name, (size,), F32, struct.pack(f"<{size}f", *[1.0] * size))

    tensors = [matrix("token_embd.weight", WIDTH, vocabulary), norm("output_norm.weight")]
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        tensors += [
            norm(at + "attn_norm.weight"), norm(at + "attn_q_norm.weight", HEAD), norm(at + "attn_k_norm.weight", HEAD),
            norm(at + "post_attention_norm.weight"), norm(at + "ffn_norm.weight"), norm(at + "post_ffw_norm.weight"),
            matrix(at + "attn_q.weight", WIDTH, 2 * HEAD), matrix(at + "attn_k.weight", WIDTH, HEAD),
            matrix(at + "attn_v.weight", WIDTH, HEAD), matrix(at + "attn_output.weight", 2 * HEAD, WIDTH),
            matrix(at + "ffn_gate.weight", WIDTH, INNER), matrix(at + "ffn_up.weight", WIDTH, INNER),
            matrix(at + "ffn_down.weight", INNER, WIDTH),
        ]  # fmt: skip
    return gguf_bytes([*keys, *tokenizer], tensors)
