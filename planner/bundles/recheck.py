"""Whether the model that a bundle was added from is still the one that was added, and so are its adapter's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from planner.bundles.adapter import check_adapter
from planner.bundles.files import FolderFiles
from planner.bundles.from_manifest import compare_file, located
from planner.bundles.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, ManifestFile, parse_manifest
from planner.bundles.open import manifest_folder
from planner.bundles.provenance import Provenance
from planner.values.reasons import PlannerFault


@dataclass(frozen=True, slots=True)
class Rechecked:
    """One row: `code` names the fault of a failed one."""

    name: str
    result: Literal["passed", "note", "failed"]
    detail: str = ""
    code: str = ""


def recheck(ref: str, user_folder: Path) -> tuple[Rechecked, ...]:
    """Compare the files that a bundle was copied from with the copies; () for a bundle that was not added.

    ref  an id, or the path of a bundle's folder
    A model that is gone is a note: the copies are planned with. Raises manifest_invalid.
    """
    parsed = _parsed(ref, user_folder)
    return () if parsed is None else tuple(_rows(parsed))


def added_from(ref: str, user_folder: Path) -> Provenance | None:
    """Return where the files of a bundle were copied from, None for one that was not added. Raises manifest_invalid."""
    parsed = _parsed(ref, user_folder)
    return None if parsed is None else parsed.provenance


def verify_files(ref: str, user_folder: Path) -> None:
    """Compare every file of a bundle's manifest with it, those too that no plan reads; nothing without a manifest.

    Raises bundle_mismatch, bundle_incomplete, manifest_invalid, and what reading raises.
    """
    folder = manifest_folder(ref, user_folder)
    if folder is not None:
        for entry, files in located(folder, _read_manifest(folder)):
            compare_file(files, entry.path)


def _parsed(ref: str, user_folder: Path) -> ManifestFile | None:
    folder = manifest_folder(ref, user_folder)
    return None if folder is None else _read_manifest(folder)


def _read_manifest(folder: Path) -> ManifestFile:
    return parse_manifest(FolderFiles(folder).read(MANIFEST_FILE, MAX_MANIFEST_BYTES))


def _rows(parsed: ManifestFile) -> Iterator[Rechecked]:
    provenance = parsed.provenance
    if provenance is None:
        return
    if provenance.path is not None:
        yield _row("the model it was added from is the same", Path(provenance.path), lambda path: _files(path, parsed))
    else:
        yield Rechecked("the model it was added from", "note", f"{provenance.repository} at {provenance.commit}")
    adapter = parsed.manifest.adapter
    if adapter is not None and provenance.adapter_path is not None:
        path = Path(provenance.adapter_path)
        yield _row("the adapter's files are the same", path, lambda place: check_adapter(place, adapter))


def _row(name: str, path: Path, check: Callable[[Path], None]) -> Rechecked:
    if not path.exists():
        return Rechecked(name, "note", "it is not where it was any more")
    try:
        check(path)
    except PlannerFault as fault:
        return Rechecked(name, "failed", f"{fault.detail}; add it again with --replace", fault.code)
    return Rechecked(name, "passed")


def _files(path: Path, parsed: ManifestFile) -> None:
    overlaid = () if parsed.provenance is None else parsed.provenance.overlaid
    entries = {entry.path: entry for entry in parsed.manifest.files if entry.path not in overlaid}
    files = FolderFiles(path if path.is_dir() else path.parent, entries)
    for name in entries:
        compare_file(files, name)
