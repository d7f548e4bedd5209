"""A GGUF file as a bundle: its header holds the tokenizer, the chat templates and the model's figures.

Identity is the digest of the header's bytes, all that can change ids; weights are never read. The bytes are
read by position into memory, hashed and parsed there: a memory map would end the process where another
program cuts the file meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from planner.bundles.begin_token import with_begin
from planner.bundles.bundle import FolderBundle
from planner.bundles.digest import sha256_hex
from planner.bundles.files import MAX_TEMPLATE_BYTES, FolderFiles, parse_text
from planner.bundles.geometry import read_geometry
from planner.bundles.gguf_header import MAX_HEADER_BYTES, Header, HeaderShort, parse_header, unsafe
from planner.bundles.gguf_vocab import read_gguf_vocabulary
from planner.bundles.hf_config import FolderConfig
from planner.bundles.hf_folder import id_of, ignored_files, make_manifest
from planner.bundles.loaded import Loaded, check_floor
from planner.values.reasons import PlannerFault

_FIRST_WINDOW_BYTES = 16 << 20
_TEMPLATE = "tokenizer.chat_template"
_NONSENSE = 1_000_000_000
_ENTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


CUT_SHORT = "the file ends before its weights do"


def open_gguf(
    path: Path, *, beside: frozenset[str] = frozenset(), outer: str | None = None, cache_dir: Path | None = None
) -> FolderBundle:
    """Open a GGUF file by its path; a manifest is made for it, named by the file.

    beside  names in its folder, where the folder was named and not the file: they are ignored with a warning
    outer   name of a file beside it whose template replaces those of the file

    Raises bundle_path, bundle_unsafe, bundle_incomplete (no tokenizer), format_not_supported naming the
    tokenizer model or splitting rule, tokenizer_failed, template_rejected, template_content_dependent.
    """
    files = FolderFiles(path.parent)
    template = None if outer is None else parse_text(files.read(outer, MAX_TEMPLATE_BYTES), outer)
    loaded, config = load_gguf(files, path.name, outer=template, cache_dir=cache_dir)
    config = replace(config, warnings=(*config.warnings, *ignored_files(beside - {path.name})))
    check_floor(loaded)
    return FolderBundle(
        lambda: (loaded, config),
        None,
        lambda bundle: make_manifest(id_of(path.name.removesuffix(".gguf")), files, bundle),
        cache_dir=cache_dir,
    )


def load_gguf(
    files: FolderFiles, name: str, *, entry: str = "default", outer: str | None = None, cache_dir: Path | None = None
) -> tuple[Loaded, FolderConfig]:
    """Load a file's tokenizer and configuration; `entry` chooses among named templates, `outer` replaces them.

    Raises as `open_gguf`, and manifest_invalid for a template entry that is not there.
    """
    header, data = read_header_bytes(files, name)
    vocabulary = read_gguf_vocabulary(header)
    if vocabulary.model == "llama":
        from planner.bundles.gguf_spm import load_gguf_spm

        loaded = load_gguf_spm(vocabulary)
    else:
        from planner.bundles.gguf_bpe import load_gguf_bpe
        from planner.bundles.kept_tokenizer import KeptTokenizer

        kept = KeptTokenizer(cache_dir, sha256_hex(data))
        loaded = load_gguf_bpe(vocabulary, lambda: read_gguf_vocabulary(read_header(files, name)), kept)
    template, used, warnings = _template(header, entry) if outer is None else (outer, entry, ())
    if template is not None and vocabulary.adds_bos:
        template, begun = with_begin(template, vocabulary.variables, cache_dir)
        warnings += begun
    if vocabulary.adds_eos:
        warnings += ("the file asks for an end token after every prompt; a plan ends where the answer begins",)
    if header.cut_short:
        warnings += (CUT_SHORT,)
    context = header.whole(f"{header.text('general.architecture') or ''}.context_length")
    config = FolderConfig(
        context_tokens=context if context is not None and 0 < context < _NONSENSE else None,
        template=template,
        template_entry=used,
        kv=read_geometry(header),
        warnings=warnings,
    )
    return loaded, config


def read_header(files: FolderFiles, name: str) -> Header:
    """Read and parse the header; its bytes become the file's entry. Raises bundle_unsafe, what reading raises."""
    return read_header_bytes(files, name)[0]


def read_header_bytes(files: FolderFiles, name: str) -> tuple[Header, bytes]:
    """Read and parse the header and return it with its bytes. Raises as `read_header`."""
    found: list[Header] = []

    def cut(handle: BinaryIO, size: int) -> bytes:
        data, wanted = b"", _FIRST_WINDOW_BYTES
        while True:
            data += handle.read(min(wanted, size) - len(data))
            try:
                found.append(parse_header(data, size))
            except HeaderShort as short:
                if len(data) < min(wanted, size):
                    raise PlannerFault("bundle_mismatch", f"{name} changed while it was read") from None
                wanted = min(MAX_HEADER_BYTES, max(short.needed, 4 * wanted))
                continue
            return data[: found[0].length]

    data = files.read_head(name, cut)
    return found[0], data


def _template(header: Header, entry: str) -> tuple[str | None, str | None, tuple[str, ...]]:
    named = {
        key[len(_TEMPLATE) + 1 :] or "default": header.text(key) or ""
        for key in header.values
        if key == _TEMPLATE or key.startswith(f"{_TEMPLATE}.")
    }
    named = {name: text for name, text in named.items() if text and _ENTRY.fullmatch(name)}
    if any(len(text.encode()) > MAX_TEMPLATE_BYTES for text in named.values()):
        raise unsafe(f"a chat template is larger than {MAX_TEMPLATE_BYTES} bytes")
    if entry != "default" or "default" in named:
        if entry not in named:
            raise PlannerFault("manifest_invalid", "the GGUF file has no template of the entry the manifest names")
        return named[entry], entry, _others(named, entry)
    if len(named) == 1:
        used = next(iter(named))
        return named[used], used, ()
    return None, None, _others(named, None)


def _others(named: dict[str, str], used: str | None) -> tuple[str, ...]:
    rest = sorted(name for name in named if name != used)
    if not rest:
        return ()
    which = "none of which is the default one" if used is None else f"of which {used} is used"
    return (f"the file names {len(named)} templates, {which}: {', '.join(rest[:8])}",)
