"""Reading the files that a manifest names, each from its place, and comparing them with it (design.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from planner.bundles.control_tokens import check_control_tokens
from planner.bundles.digest import text_digest
from planner.bundles.files import MAX_CONFIG_BYTES, MAX_TEMPLATE_BYTES, MAX_TOKENIZER_BYTES, FolderFiles, parse_text
from planner.bundles.gguf import load_gguf
from planner.bundles.hf_config import CONFIG, PROCESSOR_TEMPLATE, FolderConfig, read_config
from planner.bundles.hf_folder import check_named_tokens
from planner.bundles.litertlm import load_litertlm, read_sections
from planner.bundles.loaded import Loaded, check_floor
from planner.bundles.manifest import ManifestFile, Origin
from planner.bundles.registry import Source, row_of
from planner.values.bundle import FileEntry, Manifest
from planner.values.reasons import PlannerFault


def located(folder: Path, parsed: ManifestFile) -> list[tuple[FileEntry, FolderFiles]]:
    """Return each file of a manifest with the place it is read from. Raises bundle_unavailable."""
    entries = {entry.path: entry for entry in parsed.manifest.files}
    beside: Mapping[str, FileEntry] = {p: e for p, e in entries.items() if p not in parsed.in_origin}
    inside: Mapping[str, FileEntry] = {p: e for p, e in entries.items() if p in parsed.in_origin}
    places = [(beside, FolderFiles(folder, beside))]
    if parsed.origin is not None and inside:
        root = distribution_root(parsed.origin)
        places.append((inside, FolderFiles(root, inside, follow_links=True)))
    return [(entry, files) for table, files in places for entry in table.values()]


def compare_file(files: FolderFiles, name: str) -> None:
    """Compare a file with its entry as its format is read: a whole model's is over the parts that are read of it.

    Raises bundle_mismatch, bundle_incomplete, and what reading raises.
    """
    if name.lower().endswith(".litertlm"):
        read_sections(files, name)
    elif name.lower().endswith(".gguf"):
        files.read_head(name, lambda handle, _: handle.read())
    else:
        files.read(name, MAX_TOKENIZER_BYTES)


class _ManifestFiles(FolderFiles):
    """The files of a manifest, each read from the place that it names."""

    def __init__(self, folder: Path, parsed: ManifestFile) -> None:
        super().__init__(folder)
        self._by_name = {entry.path: files for entry, files in located(folder, parsed)}

    def read(self, name: str, limit_bytes: int) -> bytes:
        if name not in self._by_name:
            raise PlannerFault("bundle_mismatch", f"{name} is not named by the manifest")
        return self._by_name[name].read(name, limit_bytes)

    def read_head(self, name: str, cut: Callable[[BinaryIO, int], bytes], *, scattered: bool = False) -> bytes:
        if name not in self._by_name:
            raise PlannerFault("bundle_mismatch", f"{name} is not named by the manifest")
        return self._by_name[name].read_head(name, cut, scattered=scattered)


def load(folder: Path, parsed: ManifestFile, shipped: bool, cache_dir: Path | None) -> tuple[Loaded, FolderConfig]:
    """Read tokenizer and configuration of a manifest and compare them with it.

    Raises manifest_invalid, bundle_mismatch, and what the format's loader raises.
    """
    manifest = parsed.manifest
    files = _ManifestFiles(folder, parsed)
    if manifest.tokenizer_format in _WHOLE:
        return _load_whole(files, parsed, cache_dir)
    config = _config(files, parsed)
    named = frozenset(entry.path for entry in manifest.files)
    row = row_of(manifest.tokenizer_format)
    chosen = row.choose(named)
    if not chosen:
        raise PlannerFault("manifest_invalid", "$.files: the file of the tokenizer is not among them")
    loaded = row.load(Source(files, chosen, config, reviewed=shipped))
    if loaded.tokenizer_format != manifest.tokenizer_format:
        raise PlannerFault("bundle_mismatch", f"the tokenizer is {loaded.tokenizer_format}, not what is stated")
    check_named_tokens(loaded, config)
    check_floor(loaded)
    check_control_tokens(loaded, manifest)
    return loaded, config


def reads_apart(manifest: Manifest) -> bool:
    """Tell whether a bundle's configuration can be read without its tokenizer."""
    return manifest.tokenizer_format not in _WHOLE


def load_config(folder: Path, parsed: ManifestFile) -> FolderConfig:
    """Compare every file with the manifest and read the configuration; the tokenizer is not loaded.

    Raises bundle_mismatch, and what reading raises.
    """
    files = _ManifestFiles(folder, parsed)
    for entry in parsed.manifest.files:
        files.read(entry.path, MAX_TOKENIZER_BYTES)
    return _config(files, parsed)


_WHOLE = {"gguf": load_gguf, "litertlm": load_litertlm}
"""Formats whose one file holds tokenizer and template; its name ends with the format's."""


def _load_whole(files: FolderFiles, parsed: ManifestFile, cache_dir: Path | None) -> tuple[Loaded, FolderConfig]:
    manifest = parsed.manifest
    kind = manifest.tokenizer_format
    name = next((entry.path for entry in manifest.files if entry.path.lower().endswith(f".{kind}")), None)
    if name is None:
        raise PlannerFault("manifest_invalid", "$.files: the file of the tokenizer is not among them")
    outer = None
    if parsed.template_file not in (None, name):
        outer = parse_text(files.read(parsed.template_file, MAX_TEMPLATE_BYTES), parsed.template_file)
    entry = manifest.template_entry or "default"
    loaded, config = _WHOLE[kind](files, name, entry=entry, outer=outer, cache_dir=cache_dir)
    if parsed.template_file is None:
        config = replace(config, template=None)
    check_floor(loaded)
    check_control_tokens(loaded, manifest)
    _check_template(config, manifest)
    return loaded, config


def _config(files: FolderFiles, parsed: ManifestFile) -> FolderConfig:
    manifest = parsed.manifest
    present = frozenset(entry.path for entry in manifest.files)
    name = parsed.template_file
    if name in (None, CONFIG, PROCESSOR_TEMPLATE):
        config = read_config(files, present & {CONFIG, name}, manifest.template_entry or "default")
        config = replace(config, template=None) if name is None else config
    else:
        config = read_config(files, present & {CONFIG}) if CONFIG in present else FolderConfig()
        limit = MAX_TEMPLATE_BYTES if name.endswith(".jinja") else MAX_CONFIG_BYTES
        config = replace(config, template=parse_text(files.read(name, limit), name))
    _check_template(config, manifest)
    return config


def _check_template(config: FolderConfig, manifest: Manifest) -> None:
    if config.template is not None and text_digest(config.template) != manifest.template_digest:
        raise PlannerFault("bundle_mismatch", "the chat template differs from the manifest")


def distribution_root(origin: Origin) -> Path:
    """Return the folder of an installed distribution that holds a bundle's files; nothing is imported.

    Raises bundle_unavailable with the line that installs it.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(origin.distribution)
        root = Path(str(found.locate_file(origin.folder)))
    except PackageNotFoundError:
        root = None
    if root is None or not root.is_dir():
        raise PlannerFault("bundle_unavailable", f"run: {origin.install_line()}")
    return root
