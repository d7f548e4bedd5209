"""Digests of bundles: canonical JSON, sha256, and the identity that every cache and receipt is keyed by."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from planner.bundles.part_costs import part_cost_to_json
from planner.values.bundle import Adapter, Manifest


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value: keys sorted, no spaces, UTF-8.

    >>> canonical_json({"b": 1, "a": ["ü"]}).decode()
    '{"a":["ü"],"b":1}'
    """
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_hex(data: bytes) -> str:
    """Return the sha256 of bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes; lone surrogates count as they are."""
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


def bundle_digest(manifest: Manifest) -> str:
    """Return the digest over everything of a manifest that can change ids (R174; design.md §7).

    The base model is in it where it is stated: two models of one tokenizer share ids, and nothing that a runtime
    computed from them (R42, R172). The id, context, tiers, reserves, licence and warnings are left out.
    """
    stated: dict[str, Any] = {} if manifest.base_model is None else {"baseModel": manifest.base_model}
    # Left out where there are none, so that the identity of a bundle of text alone is what it always was.
    if manifest.parts:
        stated["parts"] = [part_cost_to_json(cost) for cost in manifest.parts]
    return sha256_hex(
        canonical_json(
            {
                **stated,
                "adapter": _adapter(manifest.adapter),
                "concessions": sorted(manifest.concessions),
                "controlTokens": sorted(
                    [token.id, token.text, token.lstrip, token.rstrip] for token in manifest.control_tokens
                ),
                "encodeMode": manifest.encode_mode,
                "files": sorted([entry.path, entry.size_bytes, entry.sha256] for entry in manifest.files),
                "prefixSpace": manifest.prefix_space,
                "rewrites": sorted(manifest.rewrites),
                "runtime": None if manifest.runtime is None else manifest.runtime.identity(),
                "template": manifest.template_digest,
                "templateEntry": manifest.template_entry,
                "tokenizerFormat": manifest.tokenizer_format,
                "variables": dict(manifest.variables),
            }
        )
    )


def _adapter(adapter: Adapter | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    files = sorted([entry.path, entry.size_bytes, entry.sha256] for entry in adapter.files)
    return {"files": files, "scale": float(adapter.scale)}
