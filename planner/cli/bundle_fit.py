"""`planner bundle fit`: what a memory budget holds and how long a device reads, by arithmetic alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import open_named
from planner.cli.failure import usage
from planner.cli.files import read_input
from planner.cli.opening import as_tree
from planner.values.device import DEVICES, DeviceProfile, Interval, check_device, device_fit
from planner.values.kv_cache import CACHE_TYPES, CacheRule
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.values.device import DeviceFit

MAX_DEVICE_BYTES = 64 * 1024
_SIZE = re.compile(r"([0-9]{1,15})(\.[0-9]{1,6})?(B|KB|KiB|MB|MiB|GB|GiB|TB|TiB)?")
_UNITS = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30, "TB": 10**12,
          "TiB": 2**40}  # fmt: skip


@click.command("fit")
@click.argument("ref", metavar="ID|PATH")
@click.option("--ram", required=True, metavar="SIZE", help="Memory for weights and cache together, such as 3GiB.")
@click.option("--weights", metavar="SIZE", help="What the model's weights take of it; default: nothing.")
@click.option("--device", metavar="CLASS|FILE", help="20, 130 or 550 (tokens a second), or a device profile.")
@click.option("--cache", metavar="TYPE[,TYPE]", default="f16", help="Element type of keys and values; default f16.")
@click.option("--slots", type=click.IntRange(1, 1024), metavar="N", default=1, help="Conversations at once; default 1.")
@click.option("--full-local", is_flag=True, help="Local layers keep the whole window (swa-full of llama.cpp).")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(ref: str, ram: str, weights: str | None, device: str | None, as_json: bool, **cache: Any) -> int:
    """Estimate which window a memory budget holds, and how long a device reads a prompt.

    Arithmetic over what the bundle's files state: no device is asked, and no plan is refused by it.
    """
    rule = _rule(cache["cache"], cache["slots"], cache["full_local"])
    room = size_bytes("--ram", ram) - (0 if weights is None else size_bytes("--weights", weights))
    profile = None if device is None else _device(device)
    bundle = open_named(ref)
    manifest = bundle.manifest
    if manifest.kv is None:
        raise PlannerFault("geometry_unknown", f"bundle {manifest.id} states neither layers nor heads")
    found = device_fit(manifest.kv, manifest.context_tokens, manifest.tiers, max(room, 0), rule, profile)
    if as_json:
        tree = {"modelBundleId": manifest.id, "cacheRule": as_tree(rule), "cacheBytes": max(room, 0),
                "device": as_tree(profile), **as_tree(found)}  # fmt: skip
        click.echo(json.dumps(tree, indent=1))
        return 0
    _draw(manifest.id, found, rule, profile)
    return 0


def size_bytes(option: str, text: str) -> int:
    """Return a size in bytes. Raises RefusalSignal invalid-input naming the option.

    >>> size_bytes("--ram", "1.5GiB"), size_bytes("--ram", "4096")
    (1610612736, 4096)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise usage(f"{option} is no size; write 3GiB, 512MiB or a number of bytes")
    whole, part, unit = found.group(1), found.group(2) or ".0", found.group(3) or "B"
    scale = _UNITS[unit]
    digits = part[1:]
    return int(whole) * scale + int(digits) * scale // int(f"1{len(digits) * '0'}")


def _rule(types: str, slots: int, full_local: bool) -> CacheRule:
    names = types.split(",")
    if len(names) > 2 or not set(names) <= CACHE_TYPES.keys():
        raise usage(f"--cache takes one or two of {', '.join(CACHE_TYPES)}")
    return CacheRule(names[0], names[-1], slots, full_local)


def _device(name: str) -> DeviceProfile:
    if name in DEVICES:
        return DEVICES[name]
    if not Path(name).exists():
        raise usage(f"--device is neither one of {', '.join(DEVICES)} nor a file")
    from planner.wire.parse import parse_record

    return check_device(parse_record(DeviceProfile, read_input(name, MAX_DEVICE_BYTES)))


def _draw(bundle_id: str, found: DeviceFit, rule: CacheRule, profile: DeviceProfile | None) -> None:
    from planner.cli.draw import rows, say

    types = rule.key_type if rule.key_type == rule.value_type else f"{rule.key_type} keys, {rule.value_type} values"
    slots = "1 slot" if rule.slots == 1 else f"{rule.slots} slots"
    say(f"bundle {bundle_id}: estimate, not measured on a device", "bold")
    say(f"cache {types}, {slots}; the window is limited by {found.limited_by.replace('_', ' ')}")
    heads = ["window", "tokens", "cache MiB", "of it local", "fits"]
    if profile is not None:
        heads += [f"reading all of it on {profile.id}", "energy"]
    cells = []
    for row in found.rows:
        cell = [row.name, f"{row.window_tokens:,}", _mib(row.cache.total), _mib(row.cache.local),
                "yes" if row.fits else "no"]  # fmt: skip
        if profile is not None:
            cell += [_span(row.prefill_ms, "s"), _span(row.prefill_mj, "J")]
        cells.append(cell)
    rows(heads, cells, right=(1, 2, 3))
    for note in found.notes:
        say(f"note  {note}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.2f}"


def _span(interval: Interval | None, unit: str) -> str:
    return "not stated" if interval is None else f"{interval[0] / 1000:,.1f} to {interval[1] / 1000:,.1f} {unit}"
