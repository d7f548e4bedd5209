"""Copying what a model's folder or file needs into a folder of our own: read once, by allowed names alone.

Weights stay where they are. Of a GGUF file the header is copied, of a LiteRT-LM file its header, metadata and
tokenizer: all that is read of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planner.bundles.files import MAX_TEMPLATE_BYTES, MAX_TOKENIZER_BYTES, FolderFiles, parse_text
from planner.bundles.gguf import CUT_SHORT, read_header_bytes
from planner.bundles.hf_config import MORE_TEMPLATES, TEMPLATE_FILE, more_templates, read_config
from planner.bundles.hf_folder import CONFIG_FILES, listed_names
from planner.bundles.litertlm import open_litertlm, read_sections, without_weights
from planner.bundles.open import opener_of
from planner.bundles.registry import FORMATS, choose_format, whole_model_file
from planner.bundles.user_folder import Staged
from planner.values.bundle import FileEntry
from planner.values.reasons import PlannerFault

_WEIGHTS = re.compile(r".*\.(safetensors|gguf|onnx|onnx\.data|data|h5|msgpack|tflite|npz)(\.index\.json)?")
_PICKLES = re.compile(r".*\.(bin|pt|pth|pkl|pickle|ckpt|joblib|npy)(\.index\.json)?")
_CODE = re.compile(r".*\.(py|so|dll|dylib|sh)")


@dataclass(frozen=True, slots=True)
class Taken:
    """What was copied, by name; `whole` is the name of a GGUF or LiteRT-LM file, None for a folder of files."""

    whole: str | None
    warnings: tuple[str, ...]
    entries: Mapping[str, FileEntry]


def stage(path: Path, staged: Staged) -> Taken:
    """Copy the tokenizer, template and configuration of a model folder, a GGUF or a LiteRT-LM file.

    Raises bundle_not_found, bundle_path, bundle_incomplete, bundle_unsafe, format_not_supported, bundle_exists
    (the folder has a manifest already).
    """
    if not path.is_dir():
        return _stage_whole(path, staged, frozenset())
    files = FolderFiles(path)
    if "bundle.json" in files.names:
        raise PlannerFault("bundle_exists", "the folder has a manifest of its own; name it by its path, or copy it")
    inside = whole_model_file(files.names)
    if inside is not None:
        return _stage_whole(path / inside, staged, files.names - {inside})
    return _stage_folder(files, staged)


def _stage_folder(files: FolderFiles, staged: Staged) -> Taken:
    _, names = choose_format(files.names)
    chosen = {*names, *(files.names & CONFIG_FILES)}
    for name in sorted(chosen):
        staged.write(name, files.read(name, MAX_TOKENIZER_BYTES))
    warnings = (*unread(files.names - chosen - {MORE_TEMPLATES}), *more_templates(files.names))
    return Taken(None, warnings, files.entries)


def _stage_whole(path: Path, staged: Staged, beside: frozenset[str]) -> Taken:
    files = FolderFiles(path.parent)
    if opener_of(path) is open_litertlm:
        read = read_sections(files, path.name)
        data, cut_short = without_weights(read), read.cut_short
    else:
        header, data = read_header_bytes(files, path.name)
        cut_short = header.cut_short
    staged.write(path.name, data)
    return Taken(path.name, (*((CUT_SHORT,) if cut_short else ()), *unread(beside)), files.entries)


def unread(names: frozenset[str]) -> tuple[str, ...]:
    """Say what of a folder is not used, by what it is.

    >>> unread(frozenset({"model.safetensors", "a.bin", "README.md"}))[0]
    'weights are not read: model.safetensors'
    """
    kinds = (("weights are not read", _WEIGHTS), ("pickles are never opened", _PICKLES), ("code is never run", _CODE))
    found: list[str] = []
    rest = set(names)
    for title, pattern in kinds:
        some = {name for name in rest if pattern.fullmatch(name.lower())}
        rest -= some
        if some:
            found.append(f"{title}: {listed_names(some)}")
    return (*found, f"ignored files: {listed_names(rest)}") if rest else tuple(found)


def put_template(staged: Staged, text: str) -> None:
    """Make a text the template of what was copied, over whatever the files hold."""
    staged.write(TEMPLATE_FILE, text.encode("utf-8"))


def read_template(path: Path) -> str:
    """Read a template file of the user's. Raises bundle_path, file_not_readable, bundle_unsafe."""
    if not path.parent.is_dir():
        raise PlannerFault("file_not_readable", "the file of the template does not exist")
    # Its own name may be anything; it is read by the rules of a bundle's files all the same.
    return parse_text(FolderFiles(path.parent).read(path.name, MAX_TEMPLATE_BYTES), "the file of the template")


def overlay(folder: Path, staged: Staged, taken: Taken) -> tuple[str, ...]:
    """Copy the tokenizer and template that an adapter's folder brings over those of the base model.

    Returns the warnings. Raises format_not_supported for a tokenizer beside a base in one file, which keeps its own.
    """
    files = FolderFiles(folder)
    formats = {name for row in FORMATS for name in row.choose(files.names)}
    brought = {*formats, *(files.names & CONFIG_FILES)} - {"config.json", "genai_config.json"}
    template = read_config(files, files.names & CONFIG_FILES).template
    if taken.whole is not None:
        return _over_whole(staged, formats, template)
    base = FolderFiles(staged.root)
    base_template = read_config(base, base.names & CONFIG_FILES).template
    changed = [name for name in sorted(brought) if not _equal(files, base, name)]
    if formats & set(changed):
        for name in {name for row in FORMATS for name in row.choose(base.names)} - formats:
            staged.drop(name)
    for name in changed:
        staged.write(name, files.read(name, MAX_TOKENIZER_BYTES))
    warnings: list[str] = []
    if set(changed) - {TEMPLATE_FILE}:
        warnings.append(f"the adapter's folder replaces files of the base model: {listed_names(changed)}")
    kept, now = template if template is not None else base_template, FolderFiles(staged.root)
    if kept is not None and read_config(now, now.names & CONFIG_FILES).template != kept:
        put_template(staged, kept)
    if template is not None and template != base_template:
        warnings.append("the adapter's folder brings a chat template of its own, which is used")
    return tuple(warnings)


def _over_whole(staged: Staged, formats: set[str], template: str | None) -> tuple[str, ...]:
    if formats:
        raise PlannerFault(
            "format_not_supported",
            "an adapter's folder with a tokenizer beside a file that holds a tokenizer itself; name the adapter's file",
        )
    if template is None:
        return ()
    put_template(staged, template)
    return ("the adapter's folder brings a chat template of its own, which is used",)


def _equal(files: FolderFiles, base: FolderFiles, name: str) -> bool:
    if name not in base.names:
        return False
    return files.read(name, MAX_TOKENIZER_BYTES) == base.read(name, MAX_TOKENIZER_BYTES)
