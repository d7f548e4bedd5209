"""The shipped sample conversations under one bundle: what each costs, kept by the bundle's digest alone (R180).

A package of another runtime or model is another digest, so every sample is encoded again and no count is carried
over. The conversations are our own (`conversations.json`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.bundles.kept import keep, read_kept
from planner.values.plan import Plan, Refusal

Planning = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Plan | Refusal]
_FILE = "conversations.json"


@dataclass(frozen=True, slots=True)
class SampleCount:
    """One sample under one bundle: its ids and the digest of its prompt, or the code it is refused with."""

    id: str
    ids: tuple[int, ...] = ()
    prompt_sha256: str | None = None
    reason: str | None = None


@cache
def conversations() -> tuple[Mapping[str, Any], ...]:
    """Return the shipped samples: `id`, `messages` and `tools` each, in the form of chat completions."""
    return tuple(json.loads(_shipped())["conversations"])


@cache
def _shipped() -> bytes:
    return (Path(__file__).parent / _FILE).read_bytes()


def sample_counts(bundle_digest: str, planning: Planning, cache_dir: Path | None = None) -> tuple[SampleCount, ...]:
    """Return every sample under the bundle of this digest: as it was kept for exactly this digest, or planned now.

    Raises what planning raises: PlannerFault for a bundle that cannot be used.
    """
    told = json.dumps([bundle_digest, hashlib.sha256(_shipped()).hexdigest()])
    name = "samples-" + hashlib.sha256(told.encode()).hexdigest()
    known = _read(read_kept(cache_dir, name), bundle_digest)
    if known is None:
        known = tuple(_count(row, planning) for row in conversations())
        keep(cache_dir, name, {"bundleDigest": bundle_digest, "samples": [_as_json(one) for one in known]})
    return known


def _count(row: Mapping[str, Any], planning: Planning) -> SampleCount:
    answer = planning(row["messages"], row["tools"])
    if isinstance(answer, Refusal):
        return SampleCount(row["id"], reason=answer.reason)
    prompt = hashlib.sha256((answer.prompt or "").encode("utf-8", "surrogatepass")).hexdigest()
    return SampleCount(row["id"], tuple(answer.ids), prompt)


def _as_json(one: SampleCount) -> dict[str, Any]:
    return {"id": one.id, "ids": list(one.ids), "promptSha256": one.prompt_sha256, "reason": one.reason}


def _read(value: Any, bundle_digest: str) -> tuple[SampleCount, ...] | None:
    """Read what was kept; None unless it is of this digest and has every sample."""
    with suppress(KeyError, TypeError):
        rows = value["samples"]
        found = tuple(SampleCount(one["id"], tuple(one["ids"]), one["promptSha256"], one["reason"]) for one in rows)
        whole = [one.id for one in found] == [row["id"] for row in conversations()]
        return found if whole and value["bundleDigest"] == bundle_digest else None
    return None
