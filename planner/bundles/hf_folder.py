"""A plain model folder, as people have it: it loads by path, a manifest is made for it (design.md §7)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from planner.bundles.bundle import FolderBundle
from planner.bundles.control_tokens import choose_control_tokens, encode_mode
from planner.bundles.digest import bundle_digest, text_digest
from planner.bundles.files import FolderFiles
from planner.bundles.hf_config import (
    CONFIG,
    GENAI_CONFIG,
    LEGACY_NAMES,
    MODEL_CONFIG,
    MORE_TEMPLATES,
    PROCESSOR_TEMPLATE,
    TEMPLATE_FILE,
    FolderConfig,
    read_config,
)
from planner.bundles.loaded import Loaded, check_floor
from planner.bundles.registry import Source, choose_format
from planner.values.bundle import Manifest
from planner.values.reasons import PlannerFault

CONFIG_FILES = frozenset({CONFIG, MODEL_CONFIG, GENAI_CONFIG, TEMPLATE_FILE, LEGACY_NAMES, PROCESSOR_TEMPLATE})
"""What is read beside the tokenizer's own files."""
_ALWAYS_KNOWN = CONFIG_FILES | {"bundle.json", MORE_TEMPLATES}


_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9._:-]+")


def open_folder(path: Path, *, cache_dir: Path | None = None) -> FolderBundle:
    """Open a Hugging Face folder, or one with a `.model` or tekken file.

    Files are read and the tokenizer is loaded here, so that a folder that is wrong is refused at once; the
    template is measured when the manifest is asked for.
    Raises bundle_not_found, bundle_path, bundle_incomplete, bundle_unsafe, bundle_mismatch,
    tokenizer_failed, format_not_supported.
    """
    files = FolderFiles(path)
    present = files.names
    row, names = choose_format(present)
    config = read_config(files, present)
    loaded = row.load(Source(files, names, config, cache_dir=cache_dir))
    config = replace(config, warnings=(*config.warnings, *ignored_files(present - _ALWAYS_KNOWN - set(names))))
    check_named_tokens(loaded, config)
    check_floor(loaded)
    folder_id = id_of(path.resolve().name)
    return FolderBundle(
        lambda: (loaded, config),
        None,
        lambda bundle: make_manifest(folder_id, files, bundle),
        cache_dir=cache_dir,
    )


def id_of(name: str) -> str:
    """Return a bundle's id made from the name of its folder or file."""
    return _NOT_OF_AN_ID.sub("-", name)[:128].strip("-") or "folder"


def check_named_tokens(loaded: Loaded, config: FolderConfig) -> None:
    """Refuse a configuration whose bos or eos the tokenizer lacks (facts-bundles.md fact 10).

    Loaders that follow the named class add such tokens as new ids, which the model does not have.
    Raises bundle_mismatch.
    """
    lacking = [
        name
        for name in ("bos_token", "eos_token")
        if name in config.tokens and loaded.lookup(config.tokens[name]) is None
    ]
    if lacking:
        named = f"class {config.tokenizer_class[:60]!a}" if config.tokenizer_class else "the configuration"
        raise PlannerFault(
            "bundle_mismatch",
            f"{named} adds ids the tokenizer file lacks: {' and '.join(lacking)} of {CONFIG}",
        )


def ignored_files(names: frozenset[str]) -> tuple[str, ...]:
    """Return the warning that names files nothing reads, () where there are none."""
    return (f"ignored files: {listed_names(names)}",) if names else ()


def listed_names(names: Iterable[str]) -> str:
    """Return names of files for one line: ASCII, at most twelve."""
    rest = sorted(names)
    shown = ", ".join(f"{name[:60]!a}"[1:-1] for name in rest[:12])
    return shown + (f" and {len(rest) - 12} more" if len(rest) > 12 else "")


def make_manifest(folder_id: str, files: FolderFiles, bundle: FolderBundle) -> Manifest:
    """Return the manifest of files that have none; measures the template. Raises what the profile raises."""
    loaded, config = bundle.parts
    variables = bundle.variables
    written: tuple[str, ...] = ()
    if config.template is not None:
        from planner.encoding.template import literals

        profile = bundle.profile
        written = (*profile.template_literals, *literals(config.template))
    controls = choose_control_tokens(loaded, variables, written)
    manifest = Manifest(
        id=folder_id,
        digest="",
        tokenizer_format=loaded.tokenizer_format,
        files=tuple(files.entries[name] for name in sorted(files.entries)),
        template_digest=None if config.template is None else text_digest(config.template),
        template_entry=config.template_entry,
        context_tokens=config.context_tokens,
        encode_mode=encode_mode(loaded, controls),
        prefix_space=loaded.prefix_space,
        variables=variables,
        control_tokens=controls,
        longest_token_bytes=loaded.longest_token_bytes,
        kv=config.kv,
        warnings=(*config.warnings, *loaded.warnings),
    )
    return replace(manifest, digest=bundle_digest(manifest))
