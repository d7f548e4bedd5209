"""Settings of a planner that change its speed and none of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from planner.values.bundle import EngineChoice


class Tuning(TypedDict, total=False):
    """`cache_bytes` bounds each bundle's cache of encoded runs, `engine` names what encodes."""

    cache_bytes: int | None
    engine: EngineChoice


def check_tuning(tuning: Mapping[str, Any]) -> None:
    """Refuse a setting that does not exist. Raises TypeError, as a call with a wrong keyword does."""
    unknown = tuning.keys() - Tuning.__annotations__
    if unknown:
        raise TypeError(f"Planner got unexpected settings: {', '.join(sorted(unknown))}")
