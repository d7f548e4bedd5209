"""What a model keeps per token: the figures of its attention cache, as its file states them (facts-runtimes.md §6)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from planner.bundles.fields import Fields, invalid, read_count, read_flag, read_list, read_positive
from planner.bundles.gguf_header import Header, unsafe
from planner.values.bundle import KvGeometry

MAX_LAYERS = 4_096
_MOST = 1 << 31


def read_geometry(header: Header) -> KvGeometry | None:
    """Return a header's figures, None where it lacks one that no rule gives. Raises bundle_unsafe.

    Key and value length are derived from the embedding where the file leaves them out, as the runtime does.
    """
    name = header.text("general.architecture") or ""
    layers = _figure(header, f"{name}.block_count")
    heads = _per_layer(header, f"{name}.attention.head_count", layers)
    kv_heads = _per_layer(header, f"{name}.attention.head_count_kv", layers) or heads
    width = _figure(header, f"{name}.embedding_length")
    derived = width // heads[0] if width and heads and heads[0] else None
    key = _figure(header, f"{name}.attention.key_length") or derived
    value = _figure(header, f"{name}.attention.value_length") or derived
    if not layers or not kv_heads or not key or not value:
        return None
    window = _figure(header, f"{name}.attention.sliding_window") or None
    return KvGeometry(
        layers=layers,
        kv_heads=kv_heads,
        key_length=key,
        value_length=value,
        sliding_window=window,
        sliding_layers=_pattern(header, f"{name}.attention.sliding_window_pattern", layers) if window else None,
        sliding_key_length=_figure(header, f"{name}.attention.key_length_swa") or key,
        sliding_value_length=_figure(header, f"{name}.attention.value_length_swa") or value,
        shared_layers=_figure(header, f"{name}.attention.shared_kv_layers") or 0,
    )


def _figure(header: Header, key: str) -> int | None:
    found = header.values.get(key)
    if type(found) is not int:
        return None
    if not 0 <= found < _MOST:
        raise unsafe("a figure of the model is no model's")
    return found


def _per_layer(header: Header, key: str, layers: int | None) -> tuple[int, ...]:
    """Return one number per layer; the file states one for all or a list."""
    if not layers:
        return ()
    if layers > MAX_LAYERS:
        raise unsafe(f"the model has more than {MAX_LAYERS} layers")
    one = _figure(header, key)
    if one is not None:
        return (one,) * layers
    found = header.values.get(key)
    numbers = found.tolist() if isinstance(found, array) else []
    if not numbers:
        return ()
    if len(numbers) < layers or not all(type(number) is int and 0 <= number < _MOST for number in numbers):
        raise unsafe("the figures per layer do not fit the layers")
    return tuple(numbers[:layers])


def _pattern(header: Header, key: str, layers: int) -> tuple[bool, ...] | None:
    period = _figure(header, key)
    if period is not None:
        # One number: all but each so-many-th layer are local; nought says that all are.
        return tuple(not period or (layer + 1) % period != 0 for layer in range(layers))
    return tuple(bool(flag) for flag in _per_layer(header, key, layers)) or None


def geometry_to_json(kv: KvGeometry) -> dict[str, Any]:
    """Return the figures as bundle.json holds them."""
    return {
        "layers": kv.layers,
        "kvHeads": list(kv.kv_heads),
        "keyLength": kv.key_length,
        "valueLength": kv.value_length,
        "slidingWindow": kv.sliding_window,
        "slidingLayers": None if kv.sliding_layers is None else list(kv.sliding_layers),
        "slidingKeyLength": kv.sliding_key_length,
        "slidingValueLength": kv.sliding_value_length,
        "sharedLayers": kv.shared_layers,
    }


def geometry_from_json(value: Mapping[str, Any], path: str) -> KvGeometry:
    """Read the figures of bundle.json. Raises manifest_invalid."""
    row = Fields(value, path)
    kv = KvGeometry(
        layers=row.take("layers", read_positive),
        kv_heads=tuple(row.take("kvHeads", lambda items, at: read_list(items, at, read_count))),
        key_length=row.take("keyLength", read_positive),
        value_length=row.take("valueLength", read_positive),
        sliding_window=row.take("slidingWindow", read_positive, None),
        sliding_layers=row.take("slidingLayers", lambda items, at: tuple(read_list(items, at, read_flag)), None),
        sliding_key_length=row.take("slidingKeyLength", read_positive),
        sliding_value_length=row.take("slidingValueLength", read_positive),
        shared_layers=row.take("sharedLayers", read_count, 0),
    )
    row.close()
    if len(kv.kv_heads) != kv.layers or len(kv.sliding_layers or kv.kv_heads) != kv.layers:
        raise invalid(path, "must have one entry per layer")
    return kv
