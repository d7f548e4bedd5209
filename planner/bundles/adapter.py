"""LoRA and other adapters: their files are hashed in pieces and never parsed, their bytes are the identity."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from pathlib import Path

from planner.bundles.files import MAX_CONFIG_BYTES, FolderFiles, parse_object
from planner.values.bundle import Adapter, FileEntry
from planner.values.reasons import PlannerFault

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PIECE_BYTES = 1 << 20
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_ADDS_TOKENS = frozenset({"PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "MULTITASK_PROMPT_TUNING", "CPT"})


def split_scale(text: str) -> tuple[str, float]:
    """Take `PATH@SCALE` apart; without a number behind the last @ the whole is the path.

    >>> split_scale("lora@0.5"), split_scale("me@home/lora")
    (('lora', 0.5), ('me@home/lora', 1.0))
    """
    path, at, scale = text.rpartition("@")
    try:
        number = float(scale)
    except ValueError:
        return text, 1.0
    return (path, number) if at and path and math.isfinite(number) else (text, 1.0)


def read_adapter_files(path: Path, scale: float) -> Adapter:
    """Return the adapter of a PEFT folder or of a single file, by size and sha256.

    Raises bundle_not_found, bundle_incomplete, bundle_path, bundle_unsafe for a pickle, format_not_supported
    for a kind that puts tokens of its own into the prompt.
    """
    if path.is_dir():
        files = FolderFiles(path)
        if WEIGHTS not in files.names:
            if "adapter_model.bin" in files.names:
                raise PlannerFault("bundle_unsafe", "adapter_model.bin is a pickle; save the adapter as safetensors")
            raise PlannerFault("bundle_incomplete", f"the adapter's folder lacks {WEIGHTS}")
        config = parse_object(files.read(CONFIG, MAX_CONFIG_BYTES), CONFIG)
        kind = config.get("peft_type")
        if kind in _ADDS_TOKENS or config.get("num_virtual_tokens"):
            raise PlannerFault("format_not_supported", "an adapter that puts tokens of its own into every prompt")
        return Adapter((files.entries[CONFIG], _hashed(path / WEIGHTS)), scale)
    if not path.exists():
        raise PlannerFault("bundle_not_found", "the adapter's path does not exist")
    if path.suffix not in (".safetensors", ".gguf"):
        raise PlannerFault("bundle_path", "an adapter is a PEFT folder, a .safetensors or a .gguf file")
    return Adapter((_hashed(path),), scale)


def check_adapter(path: Path, adapter: Adapter) -> None:
    """Hash an adapter's files again where they are. Raises bundle_mismatch, and what reading them raises."""
    if read_adapter_files(path, adapter.scale).files != adapter.files:
        raise PlannerFault("bundle_mismatch", "the adapter's files differ from the manifest")


def _hashed(path: Path) -> FileEntry:
    """Hash one regular file in pieces; a link is followed, for the digest judges what it leads to."""
    digest, size = hashlib.sha256(), 0
    name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in path.name
    )
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise PlannerFault("bundle_path", "the adapter's weights are no regular file")
        with path.open("rb") as handle:
            while piece := handle.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
    except OSError:
        raise PlannerFault("file_not_readable", "the adapter's weights cannot be read") from None
    return FileEntry(name, size, digest.hexdigest())
