"""Bytes of an attention cache the slow way: every layer, every cell, every head, one element type at a time."""

from __future__ import annotations

from fractions import Fraction

from planner.values.bundle import KvGeometry
from planner.values.kv_cache import CacheRule

BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": Fraction(34 * 8, 32), "q5_1": 6, "q5_0": Fraction(11, 2), "q4_1": 5,
        "q4_0": Fraction(9, 2)}  # fmt: skip


def cache_bytes(kv: KvGeometry, tokens: int, rule: CacheRule) -> Fraction:
    """Add up what each layer keeps."""
    bits = Fraction(0)
    for _ in range(rule.slots):
        for layer in range(kv.layers):
            if layer >= kv.layers - kv.shared_layers:
                continue
            local = bool(kv.sliding_window and kv.sliding_layers and kv.sliding_layers[layer])
            cells = tokens
            if local and not rule.full_local:
                wanted = min(tokens, kv.sliding_window + rule.batch_tokens)
                cells = 0
                while cells < wanted:
                    cells += 256
            key, value = (kv.sliding_key_length, kv.sliding_value_length) if local else (kv.key_length, kv.value_length)
            for _ in range(kv.kv_heads[layer]):
                bits += cells * (key * Fraction(BITS[rule.key_type]) + value * Fraction(BITS[rule.value_type]))
    return bits / 8


def largest_window(kv: KvGeometry, room_bytes: int, context: int, rule: CacheRule) -> int:
    """Try every window."""
    return max(tokens for tokens in range(context + 1) if tokens == 0 or cache_bytes(kv, tokens, rule) <= room_bytes)
