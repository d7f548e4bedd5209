"""How many bytes a model's attention cache takes (facts-runtimes.md §6): arithmetic over `KvGeometry`, no measurement.

The rule is llama.cpp's, checked against its log: memory is taken for the whole window at start, once per slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.values.bundle import KvGeometry
from planner.values.reasons import RefusalSignal

CELL_STEP = 256
"""Cells of local layers are rounded up to a multiple of this."""
MAX_WINDOW = 1 << 24
"""Where a bundle states no context, no window beyond this many tokens is looked for."""

CACHE_TYPES: dict[str, tuple[int, int]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
}
"""Element type to (elements of one block, bytes of one block)."""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How a runtime keeps its cache.

    key_type, value_type  names out of CACHE_TYPES.
    slots         conversations held at once, each with a window of its own.
    full_local    local layers keep the whole window as the others do (llama.cpp's `swa-full`).
    batch_tokens  tokens of one step of prefill, which a local layer holds beside its window.
    """

    key_type: str = "f16"
    value_type: str = "f16"
    slots: int = 1
    full_local: bool = False
    batch_tokens: int = 512


@dataclass(frozen=True, slots=True)
class KvBytes:
    """Bytes of the cache over all slots: of layers that see every token, and of local ones."""

    full: int
    local: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.full + self.local


def kv_bytes(kv: KvGeometry, tokens: int, rule: CacheRule | None = None) -> KvBytes:
    """Return the bytes a window of `tokens` takes.

    Layers whose kind the file does not state count as seeing every token: the answer is then an upper bound.
    Raises RefusalSignal invalid-input where a row of the cache is no whole number of the type's blocks.

    >>> plain = KvGeometry(4, (8,) * 4, 128, 128, None, None, 128, 128)
    >>> kv_bytes(plain, 4096).total / 2**20, kv_bytes(plain, 4096, CacheRule("q8_0", "q8_0")).total / 2**20
    (64.0, 34.0)
    """
    rule = rule or CacheRule()
    full = local = 0
    for layer in range(kv.layers - kv.shared_layers):
        if is_local(kv, layer):
            row = _row_bytes(kv.kv_heads[layer], kv.sliding_key_length, kv.sliding_value_length, rule)
            local += row * (tokens if rule.full_local else local_cells(kv, tokens, rule))
        else:
            full += _row_bytes(kv.kv_heads[layer], kv.key_length, kv.value_length, rule) * tokens
    return KvBytes(full * rule.slots, local * rule.slots)


def is_local(kv: KvGeometry, layer: int) -> bool:
    """Tell whether a layer sees only the last `sliding_window` tokens, as far as the file says."""
    return kv.sliding_window is not None and kv.sliding_layers is not None and kv.sliding_layers[layer]


def local_cells(kv: KvGeometry, tokens: int, rule: CacheRule) -> int:
    """Return the cells a local layer has in a window of `tokens`.

    >>> gemma = KvGeometry(1, (1,), 256, 256, 512, (True,), 256, 256)
    >>> local_cells(gemma, 4096, CacheRule()), local_cells(gemma, 300, CacheRule())
    (1024, 512)
    """
    most = tokens if kv.sliding_window is None else min(tokens, kv.sliding_window + rule.batch_tokens)
    return -(-most // CELL_STEP) * CELL_STEP


def window_for(kv: KvGeometry, room_bytes: int, context_tokens: int | None, rule: CacheRule | None = None) -> int:
    """Return the largest window whose cache takes no more than `room_bytes`, at most the context; 0 where none does.

    >>> plain = KvGeometry(4, (8,) * 4, 128, 128, None, None, 128, 128)
    >>> window_for(plain, 64 * 2**20, 32768), window_for(plain, 2**40, 32768)
    (4096, 32768)
    """
    low, high = 0, context_tokens or MAX_WINDOW
    # More tokens never take fewer bytes, so the border can be halved towards.
    while low < high:
        middle = (low + high + 1) // 2
        if kv_bytes(kv, middle, rule).total <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def _row_bytes(heads: int, key_length: int, value_length: int, rule: CacheRule) -> int:
    return _typed(heads * key_length, rule.key_type) + _typed(heads * value_length, rule.value_type)


def _typed(elements: int, name: str) -> int:
    block, size = CACHE_TYPES[name]
    if elements % block:
        raise RefusalSignal("invalid-input", f"$.cache: {elements} elements a token are no whole blocks of {name}")
    return elements // block * size
