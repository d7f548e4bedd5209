"""Opening a bundle by id or path: shipped, in the user's folder, or any model folder (design.md §7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from planner.bundles.bundle import FolderBundle
from planner.bundles.control_tokens import check_control_tokens
from planner.bundles.digest import text_digest
from planner.bundles.files import MAX_CONFIG_BYTES, MAX_TEMPLATE_BYTES, FolderFiles, parse_text
from planner.bundles.foreign import cleanly
from planner.bundles.gguf import load_gguf, open_gguf
from planner.bundles.gguf_header import MAGIC as GGUF
from planner.bundles.hf_config import CONFIG, FolderConfig, read_config
from planner.bundles.hf_folder import check_named_tokens, open_folder
from planner.bundles.litertlm import load_litertlm, open_litertlm
from planner.bundles.litertlm_header import MAGIC as LITERTLM
from planner.bundles.loaded import Loaded, check_floor
from planner.bundles.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, ManifestFile, Origin, parse_manifest
from planner.bundles.registry import Source, row_of, whole_model_file
from planner.values.bundle import FileEntry, Manifest
from planner.values.reasons import PlannerFault

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Listed:
    """One bundle that can be named by id. `fault` says why it cannot be used as it stands."""

    id: str
    folder: Path
    shipped: bool
    manifest: Manifest | None = None
    fault: PlannerFault | None = None


def open_bundle(ref: str | Path, *, user_folder: Path | None = None, cache_dir: Path | None = None) -> FolderBundle:
    """Open the bundle that `ref` names: an id, or the path of a model folder, a GGUF or a LiteRT-LM file.

    An id is looked for among the shipped bundles, then in `user_folder`; only then is it taken as a path.
    cache_dir  where measured template profiles and passed self-tests are kept between processes; None keeps none.
    A plain folder is admitted here: its short self-test runs, once for its digest. A folder with a manifest
    of the user's is admitted when its template is first used; a shipped one was certified.
    Raises bundle_not_found, bundle_unavailable, bundle_mismatch, manifest_invalid, tokenizer_failed,
    template_rejected, template_content_dependent, and what `open_folder` raises.
    """
    return cleanly(lambda: _open(ref, user_folder, cache_dir))


def _open(ref: str | Path, user_folder: Path | None, cache_dir: Path | None) -> FolderBundle:
    if isinstance(ref, str) and _ID.fullmatch(ref):
        for folder, shipped in _places(user_folder):
            if (folder / ref / MANIFEST_FILE).is_file():
                return _open_manifest(folder / ref, ref, shipped=shipped, cache_dir=cache_dir)
    path = Path(ref)
    if path.is_dir():
        if (path / MANIFEST_FILE).is_file():
            return _open_manifest(path, None, shipped=False, cache_dir=cache_dir)
        beside = FolderFiles(path).names
        inside = whole_model_file(beside)
        if inside is None:
            return admitted(open_folder(path, cache_dir=cache_dir), cache_dir)
        return admitted(opener_of(path / inside)(path / inside, beside=beside, cache_dir=cache_dir), cache_dir)
    if path.is_file() or path.is_symlink():
        return admitted(opener_of(path)(path, cache_dir=cache_dir), cache_dir)
    name = f"{str(ref)[:120]!a}"
    raise PlannerFault("bundle_not_found", f"no bundle has the id {name} and no folder has that path")


def list_bundles(user_folder: Path | None = None) -> tuple[Listed, ...]:
    """List the bundles that can be named by id, shipped ones first, and whether their files are here.

    Files are not read, so a file that was altered shows only when the bundle is opened.
    """
    found: dict[str, Listed] = {}
    for folder, shipped in _places(user_folder):
        children = sorted(folder.iterdir()) if folder.is_dir() else []
        for child in children:
            # A folder that is being prepared has a name that no id can have.
            if _ID.fullmatch(child.name) and child.name not in found and (child / MANIFEST_FILE).is_file():
                found[child.name] = _list_one(child, shipped)
    return tuple(found.values())


def shipped_ids() -> frozenset[str]:
    """Return the ids of the shipped bundles, which no bundle of the user's can have."""
    folder, _ = _places(None)[0]
    return frozenset(child.name for child in folder.iterdir() if (child / MANIFEST_FILE).is_file())


def _list_one(folder: Path, shipped: bool) -> Listed:
    row = Listed(folder.name, folder, shipped)
    try:
        parsed = _read_manifest(folder, folder.name)
        row = replace(row, manifest=parsed.manifest)
        for entry, place in _located(folder, parsed):
            if not place.root.joinpath(*entry.path.split("/")).is_file():
                raise PlannerFault("bundle_incomplete", f"{entry.path} is absent")
    except PlannerFault as fault:
        row = replace(row, fault=fault)
    return row


def _places(user_folder: Path | None) -> tuple[tuple[Path, bool], ...]:
    # In a wheel the shipped manifests travel inside the package, in a checkout they stand at its root.
    inside = _PACKAGE / "_model_bundles"
    shipped = inside if inside.is_dir() else _PACKAGE.parent / "model_bundles"
    return ((shipped, True),) if user_folder is None else ((shipped, True), (user_folder, False))


def opener_of(path: Path) -> Callable[..., FolderBundle]:
    """Return what opens a file by what it is, GGUF or LiteRT-LM. Raises bundle_path, file_not_readable."""
    try:
        with path.open("rb") as handle:
            head = handle.read(16)
    except OSError:
        raise PlannerFault("file_not_readable", "the bundle's path cannot be read") from None
    if head.startswith(LITERTLM) or path.suffix.lower() == ".litertlm":
        return open_litertlm
    if head.startswith(GGUF) or path.suffix.lower() == ".gguf":
        return open_gguf
    raise PlannerFault("bundle_path", "the path is a file; name the folder of the model, or a GGUF or LiteRT-LM file")


def _read_manifest(folder: Path, wanted_id: str | None) -> ManifestFile:
    parsed = parse_manifest(FolderFiles(folder).read(MANIFEST_FILE, MAX_MANIFEST_BYTES))
    if wanted_id is not None and parsed.manifest.id != wanted_id:
        raise PlannerFault("manifest_invalid", "$.id: differs from the name of the bundle's folder")
    return parsed


def _open_manifest(folder: Path, wanted_id: str | None, *, shipped: bool, cache_dir: Path | None) -> FolderBundle:
    parsed = _read_manifest(folder, wanted_id)
    if parsed.origin is not None:
        distribution_root(parsed.origin)
    load = partial(_load, folder, parsed, shipped, cache_dir)
    check = None if shipped else partial(admitted, cache_dir=cache_dir)
    return FolderBundle(load, parsed.manifest, cache_dir=cache_dir, reviewed=shipped, admit=check)


def admitted(bundle: FolderBundle, cache_dir: Path | None) -> FolderBundle:
    """Run a bundle's self-test, once for its digest, and return it. Raises what `admit` raises."""
    from planner.bundles.selftest import admit

    if admit(bundle, cache_dir=cache_dir).encode_mode != bundle.manifest.encode_mode:
        bundle.encode_whole()
    return bundle


def _located(folder: Path, parsed: ManifestFile) -> list[tuple[FileEntry, FolderFiles]]:
    entries = {entry.path: entry for entry in parsed.manifest.files}
    beside: Mapping[str, FileEntry] = {p: e for p, e in entries.items() if p not in parsed.in_origin}
    inside: Mapping[str, FileEntry] = {p: e for p, e in entries.items() if p in parsed.in_origin}
    places = [(beside, FolderFiles(folder, beside))]
    if parsed.origin is not None and inside:
        root = distribution_root(parsed.origin)
        places.append((inside, FolderFiles(root, inside, follow_links=True)))
    return [(entry, files) for table, files in places for entry in table.values()]


class _ManifestFiles(FolderFiles):
    """The files of a manifest, each read from the place that it names."""

    def __init__(self, folder: Path, parsed: ManifestFile) -> None:
        super().__init__(folder)
        self._by_name = {entry.path: files for entry, files in _located(folder, parsed)}

    def read(self, name: str, limit_bytes: int) -> bytes:
        if name not in self._by_name:
            raise PlannerFault("bundle_mismatch", f"{name} is not named by the manifest")
        return self._by_name[name].read(name, limit_bytes)

    def read_head(self, name: str, cut: Callable[[BinaryIO, int], bytes], *, scattered: bool = False) -> bytes:
        if name not in self._by_name:
            raise PlannerFault("bundle_mismatch", f"{name} is not named by the manifest")
        return self._by_name[name].read_head(name, cut, scattered=scattered)


def _load(folder: Path, parsed: ManifestFile, shipped: bool, cache_dir: Path | None) -> tuple[Loaded, FolderConfig]:
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
    if name is None or name == CONFIG:
        config = read_config(files, present & {CONFIG}, manifest.template_entry or "default")
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
