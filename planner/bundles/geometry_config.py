"""What a model keeps per token, as the config.json of a folder states it (facts-runtimes.md §6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.bundles.geometry import MAX_LAYERS
from planner.values.bundle import KvGeometry

_FULL, _LOCAL = "full_attention", "sliding_attention"
_STATES = frozenset({"linear_attention", "conv", "mamba", "recurrent"})
_OTHER_SHAPES = ("kv_lora_rank", "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v")
"""Keys of models whose layers keep something else: the GGUF file of such a model states it layer by layer."""
_MOST = 1 << 31


def geometry_of_config(model: Mapping[str, Any]) -> KvGeometry | None:
    """Return the figures of a config.json, None where they are absent or of a kind this arithmetic does not know.

    Nothing of it changes an id, so a figure that is no number only makes the answer None.

    >>> geometry_of_config({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}).key_length
    16
    """
    inner = model.get("text_config")
    model = inner if isinstance(inner, Mapping) else model
    layers, heads = _whole(model, "num_hidden_layers"), _whole(model, "num_attention_heads")
    if not layers or layers > MAX_LAYERS or not heads or any(map(model.get, _OTHER_SHAPES)):
        return None
    kv_heads = _whole(model, "num_key_value_heads") or heads
    length = _whole(model, "head_dim") or (_whole(model, "hidden_size") or 0) // heads
    kinds = _kinds(model, layers)
    shared = _whole(model, "num_kv_shared_layers") or 0
    if not length or kinds == () or shared > layers:
        return None
    window = _whole(model, "sliding_window") or None
    if model.get("use_sliding_window") is False:
        window = None
    local = None if window is None or kinds is None else tuple(kind == _LOCAL for kind in kinds)
    return KvGeometry(
        layers=layers,
        kv_heads=tuple(0 if kinds is not None and kinds[layer] in _STATES else kv_heads for layer in range(layers)),
        key_length=length,
        value_length=length,
        sliding_window=window,
        sliding_layers=local,
        sliding_key_length=length,
        sliding_value_length=length,
        shared_layers=shared,
    )


def _whole(model: Mapping[str, Any], key: str) -> int | None:
    found = model.get(key)
    return found if type(found) is int and 0 <= found < _MOST else None


def _kinds(model: Mapping[str, Any], layers: int) -> tuple[str, ...] | None:
    """Return the kind of each layer, None where none is stated, () where one is unknown."""
    stated = model.get("layer_types")
    if stated is None:
        period = _whole(model, "sliding_window_pattern")
        if not period:
            return None
        return tuple(_LOCAL if (layer + 1) % period else _FULL for layer in range(layers))
    known = {_FULL, _LOCAL, *_STATES}
    if not isinstance(stated, list) or len(stated) != layers or not all(
        isinstance(kind, str) and kind in known for kind in stated
    ):  # fmt: skip
        return ()
    return tuple(stated)
