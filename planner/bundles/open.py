"""Opening a bundle by id or path: shipped, in the user's folder, or any model folder (design.md §7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from planner.bundles.bundle import FolderBundle
from planner.bundles.control_tokens import check_control_tokens
from planner.bundles.files import FolderFiles
from planner.bundles.foreign import cleanly
from planner.bundles.from_manifest import distribution_root, load, load_config, located, reads_apart
from planner.bundles.gguf import open_gguf
from planner.bundles.gguf_header import MAGIC as GGUF
from planner.bundles.hf_config import FolderConfig
from planner.bundles.hf_folder import open_folder
from planner.bundles.litertlm import open_litertlm
from planner.bundles.litertlm_header import MAGIC as LITERTLM
from planner.bundles.loaded import Loaded
from planner.bundles.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, ManifestFile, parse_manifest
from planner.bundles.overlay import Overlay, opened_for_apps
from planner.bundles.registry import whole_model_file
from planner.values.bundle import EngineChoice, Manifest
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


def open_bundle(
    ref: str | Path, *, user_folder: Path | None = None, cache_dir: Path | None = None, engine: EngineChoice = "exact"
) -> FolderBundle:
    """Open the bundle that `ref` names: an id, or the path of a model folder, a GGUF or a LiteRT-LM file.

    An id is looked for among the shipped bundles, then in `user_folder`; only then is it taken as a path.
    cache_dir  where measured template profiles and passed self-tests are kept between processes; None keeps none.
    engine     `fast` encodes with kitoken where it gave the same ids, tried once for a digest; account and receipt too.
    A plain folder is admitted here: its short self-test runs, once for its digest. A folder with a manifest
    of the user's is admitted when its template is first used; a shipped one was certified.
    Raises bundle_not_found, bundle_unavailable, bundle_mismatch, manifest_invalid, tokenizer_failed,
    template_rejected, template_content_dependent, engine_not_admitted, environment, and what `open_folder` raises.
    """
    bundle = cleanly(lambda: _open(ref, user_folder, cache_dir))
    if engine == "fast":
        bundle.use_fast_engine()
    return bundle


def _open(ref: str | Path, user_folder: Path | None, cache_dir: Path | None) -> FolderBundle:
    listed = _listed(ref, user_folder)
    if listed is not None:
        return _open_id(listed[0], user_folder, shipped=listed[1], cache_dir=cache_dir)
    path = Path(ref)
    if path.is_dir():
        if (path / MANIFEST_FILE).is_file():
            return _opened(path, _located_manifest(path, None), None, shipped=False, cache_dir=cache_dir)
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


def manifest_folder(ref: str | Path, user_folder: Path | None) -> Path | None:
    """Return the folder of the manifest that an id or a path names, None for a model without one."""
    listed = _listed(ref, user_folder)
    if listed is not None:
        return listed[0]
    return Path(ref) if (Path(ref) / MANIFEST_FILE).is_file() else None


def is_bundle_id(ref: str, user_folder: Path | None) -> bool:
    """Tell whether `open_bundle` takes a reference as an id; one that nothing here has as id or path is an id too."""
    return _listed(ref, user_folder) is not None or (_ID.fullmatch(ref) is not None and not Path(ref).exists())


def _listed(ref: str | Path, user_folder: Path | None) -> tuple[Path, bool] | None:
    """Return the folder of the bundle that a reference is the id of, and whether it is a shipped one."""
    if isinstance(ref, str) and _ID.fullmatch(ref):
        for folder, shipped in _places(user_folder):
            if (folder / ref / MANIFEST_FILE).is_file():
                return folder / ref, shipped
    return None


def _list_one(folder: Path, shipped: bool) -> Listed:
    row = Listed(folder.name, folder, shipped)
    try:
        parsed = _read_manifest(folder, folder.name)
        row = replace(row, manifest=parsed.manifest)
        for entry, place in located(folder, parsed):
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


def _located_manifest(folder: Path, wanted_id: str | None) -> ManifestFile:
    parsed = _read_manifest(folder, wanted_id)
    if parsed.origin is not None:
        distribution_root(parsed.origin)
    return parsed


def _open_id(folder: Path, user_folder: Path | None, *, shipped: bool, cache_dir: Path | None) -> FolderBundle:
    """Open a bundle of a known place, with the template that is activated for it in the user's folder."""
    parsed = _located_manifest(folder, folder.name)
    open_with = partial(_opened, folder, parsed, shipped=shipped, cache_dir=cache_dir)
    if user_folder is None:
        return open_with(None)
    own = user_folder / folder.name
    return opened_for_apps(parsed.manifest, own, open_with, bare=partial(open_with, None))


def open_with_template(
    bundle_id: str, overlay: Callable[[Manifest], Overlay], *, user_folder: Path | None, cache_dir: Path | None
) -> FolderBundle:
    """Open a bundle named by id with what `overlay` makes of its own manifest; what is activated is not looked at.

    Raises bundle_not_found for anything but an id, and what opening raises.
    """
    for folder, shipped in _places(user_folder):
        if _ID.fullmatch(bundle_id) and (folder / bundle_id / MANIFEST_FILE).is_file():
            parsed = _located_manifest(folder / bundle_id, bundle_id)
            made = overlay(parsed.manifest)
            return _opened(folder / bundle_id, parsed, made, shipped=shipped, cache_dir=cache_dir)
    raise PlannerFault("bundle_not_found", "templates are activated for bundles named by id")


def _opened(
    folder: Path, parsed: ManifestFile, overlay: Overlay | None, *, shipped: bool, cache_dir: Path | None
) -> FolderBundle:
    manifest = parsed.manifest if overlay is None else overlay.manifest
    template = None if overlay is None else overlay.template
    reviewed = shipped and template is None
    loading = partial(load, folder, parsed, shipped, cache_dir)
    if template is not None:
        loading = partial(_load_with, loading, manifest, template)
    check = None if reviewed else partial(admitted, cache_dir=cache_dir)
    bundle = FolderBundle(loading, manifest, cache_dir=cache_dir, reviewed=reviewed, admit=check)
    if template is None and reads_apart(manifest):
        bundle.reads_config_by(partial(load_config, folder, parsed))
    return bundle


def _load_with(
    loading: Callable[[], tuple[Loaded, FolderConfig]], manifest: Manifest, template: str
) -> tuple[Loaded, FolderConfig]:
    loaded, config = loading()
    check_control_tokens(loaded, manifest)
    return loaded, replace(config, template=template)


def admitted(bundle: FolderBundle, cache_dir: Path | None) -> FolderBundle:
    """Run a bundle's self-test, once for its digest, and return it. Raises what `admit` raises."""
    from planner.bundles.selftest import admit

    if admit(bundle, cache_dir=cache_dir).encode_mode != bundle.manifest.encode_mode:
        bundle.encode_whole()
    return bundle
