"""bundle.json <-> Manifest: strict, standard library only, unknown keys refused (design.md §7)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from planner.bundles.digest import bundle_digest
from planner.bundles.fields import (
    Fields,
    between,
    invalid,
    matching,
    no_constant,
    no_twins,
    one_of,
    read_count,
    read_flag,
    read_list,
    read_positive,
    read_text,
)
from planner.bundles.files import MAX_TOKENIZER_BYTES, check_name, holds_half
from planner.bundles.geometry import geometry_from_json, geometry_to_json
from planner.bundles.part_costs import check_part_costs, part_cost_from_json, part_cost_to_json
from planner.bundles.provenance import (
    Provenance,
    combined,
    dump_adapter,
    dump_provenance,
    read_adapter,
    read_provenance,
)
from planner.bundles.runtime_json import runtime_from_json, runtime_to_json
from planner.values.bundle import ControlToken, EncodeMode, FileEntry, Manifest, Tier, TokenizerFormat
from planner.values.field_rules import VERSION_PATTERN
from planner.values.reasons import PlannerFault

SCHEMA_VERSION = "1.0"
MANIFEST_FILE = "bundle.json"
MAX_MANIFEST_BYTES = 1 << 20
CONCESSIONS = frozenset({"serialise_parallel_calls", "omit_text_beside_call", "join_same_role"})
PREFIX_RULES = frozenset({"each_stretch", "each_stretch_without_space", "first_stretch", "suffix_each_stretch"})

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T[0-9:.]+(Z|[+-]\d{2}:\d{2}))?")


@dataclass(frozen=True, slots=True)
class Origin:
    """An installed distribution that brings files; `folder` lies below its installation root.

    `extra` names the extra of this package that brings it together with what reading it needs.
    """

    distribution: str
    version: str
    folder: str
    extra: str | None = None

    def install_line(self) -> str:
        """Return the command that brings it, without what it would pull in beside what is needed."""
        if self.extra is not None:
            return f'pip install "context-planner[{self.extra}]"'
        return f"pip install --no-deps {self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A parsed bundle.json: the manifest, and where its files lie.

    `in_origin` are the paths that come from the distribution; the others lie beside bundle.json. `provenance`
    says where the files were copied from, where `planner bundle add` made the manifest.
    """

    manifest: Manifest
    origin: Origin | None = None
    in_origin: frozenset[str] = frozenset()
    template_file: str | None = None
    provenance: Provenance | None = None


def parse_manifest(data: bytes) -> ManifestFile:
    """Parse bundle.json. Raises manifest_invalid with the JSON path of what is wrong, never its value."""
    top = Fields(_value(data), "$")
    if top.take("schemaVersion", read_text) != SCHEMA_VERSION:
        raise invalid("$.schemaVersion", f"must be {SCHEMA_VERSION}")
    origin = top.take("origin", _origin, None)
    rows = top.take("files", lambda rows, at: read_list(rows, at, lambda row, inner: _file(row, inner, origin)))
    entries = tuple(entry for entry, _ in rows)
    if not entries or len({entry.path.lower() for entry in entries}) != len(entries):
        raise invalid("$.files", "must name at least one file, and none twice")
    template = top.take("template", _template, None)
    if template is not None and template[0] not in {entry.path for entry in entries}:
        raise invalid("$.template.file", "is not among the files")
    adapter = top.take("adapter", read_adapter, None)
    provenance = top.take("provenance", read_provenance, None)
    manifest = Manifest(
        id=top.take("id", matching(_ID)),
        digest="",
        tokenizer_format=top.take("tokenizerFormat", one_of(get_args(TokenizerFormat))),
        files=entries,
        template_digest=None if template is None else template[1],
        template_entry=None if template is None else template[2],
        template_version=None if template is None else template[3],
        base_model=top.take("baseModel", read_text, None),
        adapter=None if adapter is None else adapter[0],
        runtime=top.take("runtime", runtime_from_json, None),
        context_tokens=top.take("contextTokens", read_positive, None),
        tiers=tuple(top.take("tiers", lambda rows, at: read_list(rows, at, _tier), [])),
        reserved_output_tokens=top.take("reservedOutputTokens", read_positive, None),
        safety_margin_tokens=top.take("safetyMarginTokens", read_count, None),
        compact_at=top.take("compactAt", between(0.6, 0.7), None),
        encode_mode=top.take("encodeMode", one_of(get_args(EncodeMode)), "runs"),
        prefix_space=top.take("prefixSpace", one_of(PREFIX_RULES), None),
        variables=top.take("variables", _variables, {}),
        concessions=tuple(top.take("concessions", lambda rows, at: read_list(rows, at, one_of(CONCESSIONS)), [])),
        rewrites=tuple(top.take("rewrites", lambda rows, at: read_list(rows, at, matching(_ID)), [])),
        control_tokens=tuple(top.take("controlTokens", lambda rows, at: read_list(rows, at, _control), [])),
        longest_token_bytes=top.take("longestTokenBytes", read_positive, None),
        origin=None if origin is None else f"{origin.distribution}=={origin.version}",
        licence=top.take("licence", read_text, None),
        kv=top.take("kv", geometry_from_json, None),
        parts=tuple(top.take("parts", lambda rows, at: read_list(rows, at, part_cost_from_json), [])),
        warnings=tuple(top.take("notes", lambda rows, at: read_list(rows, at, read_text), [])),
    )
    top.close()
    _check_unique(manifest)
    in_origin = frozenset(entry.path for entry, inside in rows if inside)
    return ManifestFile(
        replace(manifest, digest=bundle_digest(manifest)),
        origin,
        in_origin,
        None if template is None else template[0],
        combined(provenance, None if adapter is None else adapter[1]),
    )


def _value(data: bytes) -> Any:
    if len(data) > MAX_MANIFEST_BYTES:
        raise invalid("$", "is too large")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=no_twins, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise invalid("$", "is no JSON, or has a key twice") from None
    if holds_half(data, value):
        raise invalid("$", "holds half of a character")
    return value


def dump_manifest(parsed: ManifestFile) -> bytes:
    """Return bundle.json as people read it; `parse_manifest` gives the same value back."""
    manifest, origin = parsed.manifest, parsed.origin
    value: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "id": manifest.id}
    value["baseModel"] = manifest.base_model
    value["adapter"] = dump_adapter(manifest.adapter, parsed.provenance)
    value["licence"] = manifest.licence
    value["origin"] = None if origin is None else {
        "distribution": origin.distribution, "version": origin.version, "folder": origin.folder,
        **({"extra": origin.extra} if origin.extra else {}),
    }  # fmt: skip
    value["tokenizerFormat"] = manifest.tokenizer_format
    value["files"] = [_dump_file(entry, parsed) for entry in manifest.files]
    value["template"] = None if parsed.template_file is None else {
        "file": parsed.template_file, "entry": manifest.template_entry,
        "version": manifest.template_version, "sha256": manifest.template_digest,
    }  # fmt: skip
    value |= {"runtime": runtime_to_json(manifest.runtime), "contextTokens": manifest.context_tokens}
    value["tiers"] = [
        {"id": tier.id, "maxInputTokens": tier.max_input_tokens, "validTo": tier.valid_to} for tier in manifest.tiers
    ]
    value |= {
        "reservedOutputTokens": manifest.reserved_output_tokens,
        "safetyMarginTokens": manifest.safety_margin_tokens,
        **({} if manifest.compact_at is None else {"compactAt": manifest.compact_at}),
        "encodeMode": manifest.encode_mode,
        "prefixSpace": manifest.prefix_space,
        "longestTokenBytes": manifest.longest_token_bytes,
        "variables": dict(manifest.variables),
        "concessions": list(manifest.concessions),
        "rewrites": list(manifest.rewrites),
        "controlTokens": [
            {"id": token.id, "text": token.text, "lstrip": token.lstrip, "rstrip": token.rstrip}
            for token in manifest.control_tokens
        ],
        "notes": list(manifest.warnings),
    }
    if manifest.kv is not None:
        value["kv"] = geometry_to_json(manifest.kv)
    if parsed.provenance is not None:
        value["provenance"] = dump_provenance(parsed.provenance)
    if manifest.parts:
        value["parts"] = [part_cost_to_json(cost) for cost in manifest.parts]
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _dump_file(entry: FileEntry, parsed: ManifestFile) -> dict[str, Any]:
    row: dict[str, Any] = {"path": entry.path, "sizeBytes": entry.size_bytes, "sha256": entry.sha256}
    if parsed.origin is not None:
        row["place"] = "origin" if entry.path in parsed.in_origin else "folder"
    return row


def _plain_path(value: Any, path: str) -> str:
    text = read_text(value, path)
    try:
        check_name(text)
    except PlannerFault:
        raise PlannerFault("bundle_path", f"{path} is not a plain path inside the folder") from None
    return text


def _origin(value: Any, path: str) -> Origin:
    row = Fields(value, path)
    origin = Origin(
        row.take("distribution", matching(_ID)),
        row.take("version", matching(_VERSION)),
        row.take("folder", _plain_path),
        row.take("extra", matching(_ID), None),
    )
    row.close()
    return origin


def _file(value: Any, path: str, origin: Origin | None) -> tuple[FileEntry, bool]:
    row = Fields(value, path)
    size = row.take("sizeBytes", read_count)
    if size > MAX_TOKENIZER_BYTES:
        raise invalid(f"{path}.sizeBytes", "is larger than any file that is read")
    entry = FileEntry(row.take("path", _plain_path), size, row.take("sha256", matching(_SHA256)))
    place = row.take("place", one_of(("folder", "origin")), "folder" if origin is None else "origin")
    row.close()
    if place == "origin" and origin is None:
        raise invalid(f"{path}.place", "names an origin that is not stated")
    return entry, place == "origin"


def _template(value: Any, path: str) -> tuple[str, str, str, str | None]:
    row = Fields(value, path)
    read = (
        row.take("file", _plain_path),
        row.take("sha256", matching(_SHA256)),
        row.take("entry", matching(_ID), "default"),
        row.take("version", matching(re.compile(VERSION_PATTERN)), None),
    )
    row.close()
    return read


def _tier(value: Any, path: str) -> Tier:
    row = Fields(value, path)
    tier = Tier(
        row.take("id", matching(_ID)),
        row.take("maxInputTokens", read_positive),
        row.take("validTo", matching(_DATE), None),
    )
    row.close()
    return tier


def _control(value: Any, path: str) -> ControlToken:
    row = Fields(value, path)
    text = row.take("text", lambda item, at: item if isinstance(item, str) and item else read_text(None, at))
    token = ControlToken(
        text,
        row.take("id", read_count),
        row.take("lstrip", read_flag, False),
        row.take("rstrip", read_flag, False),
    )
    row.close()
    return token


def _variables(value: Any, path: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise invalid(path, "must be an object")
    for position, (name, text) in enumerate(value.items()):
        if not name.isidentifier() or not isinstance(text, str):
            raise invalid(f"{path}[{position}]", "must map a variable's name to a text")
    return dict(value)


def _check_unique(manifest: Manifest) -> None:
    for field, values in (
        ("tiers", [tier.id for tier in manifest.tiers]),
        ("controlTokens", [token.text for token in manifest.control_tokens]),
        ("controlTokens", [token.id for token in manifest.control_tokens]),
    ):
        if len(set(values)) != len(values):
            raise invalid(f"$.{field}", "holds one twice")
    check_part_costs(manifest.parts, {token.text for token in manifest.control_tokens}, "$.parts")
    if manifest.context_tokens is not None:
        beyond = [tier for tier in manifest.tiers if tier.max_input_tokens > manifest.context_tokens]
        if beyond:
            raise invalid("$.tiers", "holds a tier beyond contextTokens")
