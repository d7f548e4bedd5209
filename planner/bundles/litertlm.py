"""A LiteRT-LM file as a bundle: its metadata and tokenizer sections are read by position, its weights never.

Identity is the digest of the header, the metadata section and the tokenizer section one after another, all that
can change ids.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from planner.bundles.begin_token import with_begin
from planner.bundles.bundle import FolderBundle
from planner.bundles.files import (
    MAX_SENTENCEPIECE_BYTES,
    MAX_TEMPLATE_BYTES,
    MAX_TOKENIZER_BYTES,
    FolderFiles,
    parse_text,
)
from planner.bundles.hf_config import FolderConfig
from planner.bundles.hf_folder import id_of, ignored_files, make_manifest
from planner.bundles.litertlm_header import (
    FIXED_BYTES,
    METADATA,
    SENTENCEPIECE,
    TOKENIZER_JSON,
    Header,
    Section,
    header_length,
    parse_header,
    unsafe,
)
from planner.bundles.litertlm_meta import (
    AFFIX_MODELS,
    MAX_METADATA_BYTES,
    Metadata,
    Token,
    affix_template,
    parse_metadata,
)
from planner.bundles.loaded import Loaded, check_floor
from planner.bundles.walked import walked_tokenizer_json
from planner.values.reasons import PlannerFault

MAX_PACKED_BYTES = MAX_SENTENCEPIECE_BYTES
_SIZE_BYTES = 8
JINJA, AFFIXES = "default", "affixes"
"""Entries of a file's template: the one it holds, and the one made from its prompt affixes."""


@dataclass(frozen=True, slots=True)
class Sections:
    """What was read of a file; `metadata` None where it has no such section, `start` the header's bytes."""

    header: Header
    start: bytes
    metadata: bytes | None
    tokenizer: bytes
    tokenizer_kind: int
    cut_short: bool


def open_litertlm(
    path: Path, *, beside: frozenset[str] = frozenset(), outer: str | None = None, cache_dir: Path | None = None
) -> FolderBundle:
    """Open a LiteRT-LM file by its path; a manifest is made for it, named by the file.

    beside  names in its folder, where the folder was named and not the file: they are ignored with a warning
    outer   name of a file beside it whose template replaces the file's own

    Raises bundle_path, bundle_unsafe, bundle_incomplete (no tokenizer, or several), bundle_mismatch (a start
    token that is none of the tokenizer's), format_not_supported, tokenizer_failed, template_rejected,
    template_content_dependent.
    """
    files = FolderFiles(path.parent)
    template = None if outer is None else parse_text(files.read(outer, MAX_TEMPLATE_BYTES), outer)
    loaded, config = load_litertlm(files, path.name, outer=template, cache_dir=cache_dir)
    config = replace(config, warnings=(*config.warnings, *ignored_files(beside - {path.name})))
    check_floor(loaded)
    return FolderBundle(
        lambda: (loaded, config),
        None,
        lambda bundle: make_manifest(id_of(path.name.removesuffix(".litertlm")), files, bundle),
        cache_dir=cache_dir,
    )


def load_litertlm(
    files: FolderFiles, name: str, *, entry: str = JINJA, outer: str | None = None, cache_dir: Path | None = None
) -> tuple[Loaded, FolderConfig]:
    """Load a file's tokenizer and configuration; `entry` is what a manifest names, `outer` replaces the template.

    Raises as `open_litertlm`, and manifest_invalid for a template entry that is not there.
    """
    read = read_sections(files, name)
    metadata = Metadata() if read.metadata is None else parse_metadata(read.metadata)
    loaded = replace(_tokenizer(files, name, read, cache_dir), tokenizer_format="litertlm")
    tokens = _named(loaded, metadata)
    template, used, warnings = _template(metadata, entry) if outer is None else (outer, entry, ())
    if template is not None and "bos_token" in tokens:
        template, begun = with_begin(template, {**loaded.variables, **tokens}, cache_dir)
        warnings += begun
    if read.metadata is None:
        warnings += ("the file has no metadata section: no template, no context",)
    if read.cut_short:
        warnings += ("the file ends before its weights do",)
    config = FolderConfig(
        tokens=tokens,
        context_tokens=metadata.context_tokens,
        template=template,
        template_entry=used,
        warnings=warnings,
    )
    return loaded, config


def read_sections(files: FolderFiles, name: str) -> Sections:
    """Read header, metadata and tokenizer; together they become the file's entry.

    Raises bundle_unsafe, bundle_incomplete, what reading raises.
    """
    found: list[Sections] = []

    def cut(handle: BinaryIO, size: int) -> bytes:
        start = handle.read(FIXED_BYTES)
        start += handle.read(header_length(start) - FIXED_BYTES)
        header = parse_header(start)
        tokenizer, metadata = _tokenizer_section(header), _metadata_section(header)
        stretches = [b"" if one is None else _read(handle, one, size) for one in (metadata, tokenizer)]
        cut_short = any(section.end > size for section in header.sections)
        data = None if metadata is None else stretches[0]
        found.append(Sections(header, start, data, stretches[1], tokenizer.kind, cut_short))
        return b"".join((start, *stretches))

    files.read_head(name, cut, scattered=True)
    return found[0]


def without_weights(read: Sections) -> bytes:
    """Return a file of the same sections' places that holds what was read and nothing else: the same bundle.

    Raises format_not_supported where those sections lie behind the weights.
    """
    placed = [(_tokenizer_section(read.header), read.tokenizer)]
    metadata = _metadata_section(read.header)
    if metadata is not None and read.metadata is not None:
        placed.append((metadata, read.metadata))
    size = max(section.end for section, _ in placed)
    if size > MAX_TOKENIZER_BYTES:
        raise PlannerFault("format_not_supported", "a LiteRT-LM file whose tokenizer lies behind its weights")
    made = bytearray(size)
    made[: len(read.start)] = read.start
    for section, data in placed:
        made[section.begin : section.end] = data
    return bytes(made)


def _tokenizer_section(header: Header) -> Section:
    rows = header.of_kind(SENTENCEPIECE, TOKENIZER_JSON)
    if len(rows) != 1:
        count = "no tokenizer" if not rows else f"{len(rows)} tokenizers and nothing says which is the model's"
        raise PlannerFault("bundle_incomplete", f"the LiteRT-LM file holds {count}")
    if rows[0].size_bytes > MAX_PACKED_BYTES:
        raise unsafe(f"the tokenizer section is larger than {MAX_PACKED_BYTES} bytes")
    return rows[0]


def _metadata_section(header: Header) -> Section | None:
    rows = header.of_kind(METADATA)
    if len(rows) > 1:
        raise unsafe("it has more than one metadata section")
    if rows and rows[0].size_bytes > MAX_METADATA_BYTES:
        raise unsafe(f"the metadata section is larger than {MAX_METADATA_BYTES} bytes")
    return rows[0] if rows else None


def _read(handle: BinaryIO, section: Section, size: int) -> bytes:
    if section.end > size:
        raise unsafe("a section that is needed leads out of the file")
    handle.seek(section.begin)
    data = handle.read(section.size_bytes)
    if len(data) != section.size_bytes:
        raise PlannerFault("bundle_mismatch", "the LiteRT-LM file changed while it was read")
    return data


def _tokenizer(files: FolderFiles, name: str, read: Sections, cache_dir: Path | None) -> Loaded:
    if read.tokenizer_kind == SENTENCEPIECE:
        from planner.bundles.spm import load_sentencepiece

        return load_sentencepiece(read.tokenizer, name)
    # Read anew each time, as a folder's is: the bytes are not held for as long as the bundle lives.
    return walked_tokenizer_json(lambda: unpacked(read_sections(files, name).tokenizer), cache_dir)


def unpacked(section: bytes) -> bytes:
    """Return the tokenizer.json of its section: its size in 8 bytes, then a zlib stream of exactly that.

    Raises bundle_unsafe; nothing beyond the stated size, itself bounded, is ever unpacked.
    """
    stated = int.from_bytes(section[:_SIZE_BYTES], "little")
    if len(section) < _SIZE_BYTES or not 0 < stated <= MAX_TOKENIZER_BYTES:
        raise unsafe(f"the tokenizer states no size up to {MAX_TOKENIZER_BYTES} bytes")
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(section[_SIZE_BYTES:], stated + 1)
    except zlib.error:
        data = b""
    if len(data) != stated or not stream.eof or stream.unused_data:
        raise unsafe("the tokenizer does not unpack to the size it states")
    return data


def _named(loaded: Loaded, metadata: Metadata) -> dict[str, str]:
    """Return the start token and the first stop token that is one of the tokenizer's, as a template reads them."""
    texts = {token.id: token.text for token in loaded.added}
    named = {}
    if metadata.start is not None and metadata.start != Token(text=""):
        start = _text(loaded, texts, metadata.start)
        if start is None:
            raise PlannerFault("bundle_mismatch", "the start token of the metadata is none of the tokenizer's")
        named["bos_token"] = start
    stops = [text for one in metadata.stops if (text := _text(loaded, texts, one)) is not None]
    if stops:
        named["eos_token"] = stops[0]
    return named


def _text(loaded: Loaded, texts: Mapping[int, str], token: Token) -> str | None:
    if token.text is not None:
        return token.text if loaded.lookup(token.text) is not None else None
    return texts.get(token.ids[0]) if len(token.ids) == 1 else None


def _template(metadata: Metadata, entry: str) -> tuple[str | None, str | None, tuple[str, ...]]:
    template, used, warnings = metadata.template, JINJA, tuple[str, ...]()
    if template is None and metadata.has_affixes:
        if metadata.model not in AFFIX_MODELS:
            warnings = ("the runtime has a template of its own for this kind of model; the file holds none",)
        else:
            template, used = affix_template(metadata), AFFIXES
            warnings = ("the file holds no chat template; one is made from its prompt affixes",)
    if template is None:
        return None, None, warnings
    if entry not in (JINJA, used):
        raise PlannerFault("manifest_invalid", "the LiteRT-LM file has no template of the entry the manifest names")
    return template, used, warnings
