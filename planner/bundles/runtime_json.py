"""`runtime` of bundle.json <-> Runtime: the name of a reviewed engine, or an object with what is deployed of it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, get_args

from planner.bundles.fields import Fields, invalid, matching, one_of, read_count, read_positive, read_text
from planner.values.account import wire_field
from planner.values.runtime import MEANINGS, Runtime, RuntimeProfile, ValidWhen
from planner.values.runtime_rows import RUNTIMES

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_STATED = {
    "output_limit": read_positive,
    "total_limit": read_positive,
    "min_prefill_tokens": read_count,
    "prefill_multiple": read_positive,
    "reported_meaning": one_of(MEANINGS),
    "reported_when": one_of(get_args(ValidWhen)),
}
"""Rules that differ from one deployment of an engine to the next; its manifest may state them."""


def runtime_from_json(value: Any, path: str) -> Runtime:
    """Read a name, or an object {name, version, slots, contextTokens, overheadTokens, ..}.

    Raises manifest_invalid, also for an engine without a reviewed row: no other one's limits are taken (R173).
    """
    if isinstance(value, str):
        return Runtime(_row(value, path))
    row = Fields(value, path)
    profile = row.take("name", _row)
    stated: dict[str, Any] = {}
    for name, read in _STATED.items():
        found = row.take(wire_field(name), read, None)
        if found is not None:
            stated[name] = found
    runtime = Runtime(
        profile=replace(profile, **stated),
        version=row.take("version", matching(_VERSION), None),
        slots=row.take("slots", read_positive, 1),
        context_tokens=row.take("contextTokens", read_positive, None),
        overhead_tokens=row.take("overheadTokens", read_count, 0),
    )
    row.close()
    if runtime.context_tokens is not None and runtime.context_tokens < runtime.slots:
        raise invalid(f"{path}.contextTokens", "is less than one token a slot")
    return runtime


def runtime_named(text: str, path: str) -> Runtime:
    """Read `NAME` or `NAME@VERSION`. Raises manifest_invalid.

    >>> runtime_named("onnx-genai@0.18.0", "--runtime").reviewed
    True
    """
    name, _, version = text.partition("@")
    return runtime_from_json({"name": name, "version": version or None}, path)


def runtime_to_json(runtime: Runtime | None) -> Any:
    """Return what `runtime_from_json` reads back: the name alone where nothing is declared."""
    if runtime is None:
        return None
    row = RUNTIMES[runtime.name]
    value: dict[str, Any] = {"name": runtime.name}
    for name in ("version", "slots", "context_tokens", "overhead_tokens"):
        found = getattr(runtime, name)
        if found != getattr(Runtime(row), name):
            value[wire_field(name)] = found
    for name in _STATED:
        if getattr(runtime.profile, name) != getattr(row, name):
            value[wire_field(name)] = getattr(runtime.profile, name)
    return value if len(value) > 1 else runtime.name


def _row(value: Any, path: str) -> RuntimeProfile:
    found = RUNTIMES.get(read_text(value, path))
    if found is None:
        raise invalid(path, f"is none of the reviewed engines {', '.join(sorted(RUNTIMES))}")
    return found
