"""What a class of devices takes for a prompt, as intervals; an estimate and never a gate (design.md §11).

The shipped classes are reports of others (field-notes.md §3), not measurements of ours: whoever has a device
measures it and names a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from planner.values.bundle import KvGeometry, Tier
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.kv_cache import CacheRule, KvBytes, kv_bytes, window_for

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A device or a class of them; both ends of an interval are inclusive.

    prefill_tokens_per_second  slowest and fastest reading of a prompt.
    power_watts                least and most power while it reads, None where nobody stated it.
    """

    id: str
    prefill_tokens_per_second: tuple[float, float]
    power_watts: tuple[float, float] | None = None


DEVICES: dict[str, DeviceProfile] = {
    one.id: one
    for one in (
        # A phone's processor at large and at small windows (LiteRT-LM #2568), between them Box #16.
        DeviceProfile("20", (8.1, 31.0)),
        # A phone's GPU (LiteRT-LM #2094), a Raspberry Pi 5, an older phone's GPU (Box #16).
        DeviceProfile("130", (70.0, 205.0)),
        # Newest phones: processor and GPU (LiteRT-LM's overview).
        DeviceProfile("550", (532.0, 3808.0)),
    )
}
"""Shipped classes, named by the tokens a second that stand for them; no source states their power."""


def check_device(device: DeviceProfile) -> DeviceProfile:
    """Return a device whose figures can be used. Raises RefusalSignal invalid-input with a JSON path."""
    if not is_id(device.id):
        invalid("$.id", ID_RULE)
    figures = {"prefillTokensPerSecond": device.prefill_tokens_per_second, "powerWatts": device.power_watts}
    for name, interval in figures.items():
        if interval is not None and not 0 < interval[0] <= interval[1] < 1e9:
            invalid(f"$.{name}", "expected two numbers above 0, the smaller one first")
    return device


def prefill_ms(device: DeviceProfile, tokens: int) -> Interval:
    """Return the milliseconds in which a device reads so many fresh tokens, rounded outwards.

    >>> prefill_ms(DEVICES["130"], 3000)
    (14634, 42858)
    """
    slow, fast = (Fraction(repr(end)) for end in device.prefill_tokens_per_second)
    return floor(1000 * tokens / fast), ceil(1000 * tokens / slow)


def prefill_mj(device: DeviceProfile, tokens: int) -> Interval | None:
    """Return the millijoules that takes, rounded outwards; None where the profile states no power.

    >>> prefill_mj(DeviceProfile("mine", (100.0, 200.0), (2.0, 5.0)), 1000), prefill_mj(DEVICES["20"], 1)
    ((10000, 50000), None)
    """
    if device.power_watts is None:
        return None
    slow, fast = (Fraction(repr(end)) for end in device.prefill_tokens_per_second)
    least, most = (Fraction(repr(end)) for end in device.power_watts)
    return floor(1000 * tokens / fast * least), ceil(1000 * tokens / slow * most)


@dataclass(frozen=True, slots=True)
class FitRow:
    """One window: `name` is a tier's id, or `usable` for the largest that the memory holds.

    prefill_ms, prefill_mj  of a prompt that fills the whole window, nothing of it kept from before; None without
    a device or without its power.
    """

    name: str
    window_tokens: int
    cache: KvBytes
    fits: bool
    prefill_ms: Interval | None
    prefill_mj: Interval | None


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """What a memory budget holds: an estimate by arithmetic, no device was asked.

    limited_by  `memory`, `context`, or `nothing_known` where the bundle states no context and all of it fits.
    notes       what makes the figures coarser than they look.
    """

    rows: tuple[FitRow, ...]
    usable_tokens: int
    limited_by: str
    notes: tuple[str, ...]
    estimate: bool = True


LOCAL_UNKNOWN = "which layers are local is not stated: all are counted as seeing every token, an upper bound"
STATE_LAYERS = "layers without an attention cache keep a state of fixed size, which is not counted"


def device_fit(
    kv: KvGeometry, context_tokens: int | None, tiers: tuple[Tier, ...], room_bytes: int, rule: CacheRule,
    device: DeviceProfile | None = None,
) -> DeviceFit:  # fmt: skip
    """Return how large a window `room_bytes` of cache hold, and what each approved tier takes.

    Raises RefusalSignal invalid-input where the element type does not suit the model.
    """
    usable = window_for(kv, room_bytes, context_tokens, rule)
    if context_tokens is not None and usable == context_tokens:
        limited_by = "context"
    else:
        limited_by = "memory" if kv_bytes(kv, usable + 1, rule).total > room_bytes else "nothing_known"
    windows = [("usable", usable), *((tier.id, tier.max_input_tokens) for tier in tiers)]
    rows = []
    for name, tokens in windows:
        cache = kv_bytes(kv, tokens, rule)
        ms = None if device is None else prefill_ms(device, tokens)
        mj = None if device is None else prefill_mj(device, tokens)
        rows.append(FitRow(name, tokens, cache, cache.total <= room_bytes, ms, mj))
    notes = []
    if kv.sliding_window is not None and kv.sliding_layers is None:
        notes.append(LOCAL_UNKNOWN)
    if 0 in kv.kv_heads:
        notes.append(STATE_LAYERS)
    return DeviceFit(tuple(rows), usable, limited_by, tuple(notes))
