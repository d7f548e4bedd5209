"""Drawing of `planner bundle show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.cli.draw import rows, say

_MANIFEST = (
    "digest", "base_model", "licence", "origin", "tokenizer_format", "context_tokens", "runtime",
    "template_entry", "template_version", "template_digest", "template_fallback",
    "encode_mode", "concessions", "rewrites",
)  # fmt: skip
_NOT_DRAWN = frozenset({"normalisations", "template_literals", "trims", "parsed_strings", "template_digest"})
"""Long or of little use to a person; --json has them."""


def draw_bundle(described: Mapping[str, Any]) -> None:
    """Draw manifest, files, tiers, tokens and profile of one described bundle."""
    manifest, profile, added = described["manifest"], described["profile"], described["textTokens"]
    say(f"bundle {manifest['id']}", "bold")
    manifest = {**manifest, "runtime": _runtime(manifest["runtime"])}
    rows(("manifest", ""), [(name, _cell(manifest[name])) for name in _MANIFEST])
    files = [(one["path"], f"{one['size_bytes']:,}", one["sha256"]) for one in manifest["files"]]
    rows(("file", "bytes", "sha256"), files, right=(1,))
    tiers = [(tier["id"], f"{tier['max_input_tokens']:,}") for tier in manifest["tiers"]]
    rows(("tier", "tokens"), tiers, right=(1,))
    controls = [token["text"] for token in manifest["control_tokens"]]
    tokens = [
        ("control: content may spell them and stays text", len(controls), _first(controls)),
        ("added, but ordinary text", len(added), _first(added)),
    ]
    rows(("tokens", "count", "first"), tokens, right=(1,))
    if profile is None:
        say("profile  none: the folder holds no chat template and can only count")
    else:
        shown = [(name, _cell(value)) for name, value in profile.items() if name not in _NOT_DRAWN]
        rows(("profile", "measured"), shown)
        rows(("changed before rendering",), [(one["name"],) for one in profile["normalisations"]])
    if described["addedFrom"] is not None:
        rows(("added from", ""), [(name, _ascii(_cell(value))) for name, value in described["addedFrom"].items()])
    records = described["runtimeRecords"]
    if records["certifiedModes"]:
        say(f"certified beside ids for mode {', '.join(records['certifiedModes'])}")
    if records["blockedBy"] is not None:
        say(f"blocked  {records['blockedBy']}")
    for warning in manifest["warnings"]:
        say(f"warning  {warning}")


def _first(texts: Sequence[str]) -> str:
    """Name the first few in ASCII."""
    named = " ".join(f"{text[:24]!a}"[1:-1] for text in texts[:6])
    return named + (" ..." if len(texts) > 6 else "")


def _runtime(found: Mapping[str, Any] | None) -> str | None:
    """Name the engine, its version and what the deployment declares."""
    if found is None:
        return None
    version = found["version"] or "version not stated"
    declared = [f"{name} {found[name]:,}" for name in ("context_tokens", "slots", "overhead_tokens") if found[name]]
    return ", ".join([found["profile"]["name"], version, *declared])


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "-"
    return "-" if value is None else str(value)
