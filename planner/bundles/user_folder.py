"""The user's folder of bundles: a bundle is prepared beside it and stands there whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from planner.bundles.activated import STATE_FILE, TEMPLATE_FOLDER
from planner.bundles.digest import sha256_hex
from planner.bundles.files import FolderFiles
from planner.bundles.from_manifest import compare_file
from planner.bundles.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, ManifestFile, parse_manifest
from planner.values.reasons import PlannerFault

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|.*\.")
"""Names that Windows gives to devices or shortens: no folder of a bundle has one, on whatever system."""
Placed = Literal["new", "same", "replaced"]
_PREFIX, _OLD = ".adding-", "-old"


@dataclass(frozen=True, slots=True)
class Staged:
    """A folder that is being prepared, on the same disk as the place it will have."""

    root: Path
    user_folder: Path

    def write(self, name: str, data: bytes) -> None:
        """Write one file. Raises file_not_readable."""
        with writing(), (self.root / name).open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())

    def drop(self, name: str) -> None:
        """Remove one file. Raises file_not_readable."""
        with writing():
            (self.root / name).unlink(missing_ok=True)


@contextmanager
def writing() -> Iterator[None]:
    """Turn what a disk says about writing into one fault. Raises file_not_readable."""
    failed = False
    try:
        yield
    except OSError:
        failed = True
    if failed:
        raise PlannerFault("file_not_readable", "the user's folder of bundles cannot be written")


@contextmanager
def staging(user_folder: Path) -> Iterator[Staged]:
    """Give a new folder inside the user's; whatever is left of it afterwards is removed."""
    with writing():
        user_folder.mkdir(parents=True, exist_ok=True)
        _restore(user_folder)
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=user_folder))
    try:
        yield Staged(root, user_folder)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def place(staged: Staged, made: ManifestFile, *, may_replace: bool) -> Placed:
    """Give the prepared folder its place under the manifest's id.

    Raises bundle_exists where another bundle has the id and may not be replaced, bundle_mismatch where the
    same one is there and its files are damaged.
    """
    for _ in range(2):
        target = _taken(staged.user_folder, made.manifest.id)
        if target is None:
            target = staged.user_folder / made.manifest.id
            with suppress(OSError):
                staged.root.rename(target)
                return "new"
            # Another process may have taken the place since it was looked for.
            if target.exists():
                continue
            raise PlannerFault("file_not_readable", "the user's folder of bundles cannot be written")
        if target.name != made.manifest.id:
            raise PlannerFault("bundle_exists", "another bundle has this id in other letters, large or small")
        if not may_replace:
            _check_same(target, made)
            return "same"
        _exchange(staged, target)
        return "replaced"
    raise PlannerFault("file_not_readable", "the user's folder of bundles is changed by another process")


def _taken(user_folder: Path, bundle_id: str) -> Path | None:
    """Return the folder that has the id, whatever the case of its letters: some disks know no case."""
    with writing():
        names = [entry.name for entry in os.scandir(user_folder)]
    return next((user_folder / name for name in sorted(names) if name.lower() == bundle_id.lower()), None)


def _check_same(target: Path, made: ManifestFile) -> None:
    there = _manifest_in(target)
    if there is None or not _alike(there, made):
        raise PlannerFault("bundle_exists", "another bundle of the user's has this id")
    files = FolderFiles(target, {entry.path: entry for entry in there.manifest.files})
    for entry in there.manifest.files:
        compare_file(files, entry.path)


def _manifest_in(folder: Path) -> ManifestFile | None:
    """Return the manifest of a folder, None where there is none that can be read."""
    with suppress(PlannerFault):
        return parse_manifest(FolderFiles(folder).read(MANIFEST_FILE, MAX_MANIFEST_BYTES))
    return None


def _alike(one: ManifestFile, other: ManifestFile) -> bool:
    # Notes are words for people, they make no other bundle.
    return replace(one.manifest, warnings=()) == replace(other.manifest, warnings=())


def _exchange(staged: Staged, target: Path) -> None:
    old = staged.root.with_name(staged.root.name + _OLD)
    with writing():
        _keep_records(target, staged.root)
        target.rename(old)
        try:
            staged.root.rename(target)
        except OSError:
            # Where another process has put it back already, there is nothing to take back.
            with suppress(OSError):
                old.rename(target)
            raise
    shutil.rmtree(old, ignore_errors=True)


def _restore(user_folder: Path) -> None:
    """Put a bundle back that a process took away to replace it, and then died."""
    for old in user_folder.glob(f"{_PREFIX}*{_OLD}"):
        with suppress(PlannerFault, OSError):
            bundle_id = parse_manifest(FolderFiles(old).read(MANIFEST_FILE, MAX_MANIFEST_BYTES)).manifest.id
            if not (user_folder / bundle_id).exists():
                old.rename(user_folder / bundle_id)
        shutil.rmtree(old, ignore_errors=True)


def _keep_records(target: Path, root: Path) -> None:
    """Keep what was activated for the bundle that leaves: in force for the same one, else as a record alone."""
    there, made = _manifest_in(target), _manifest_in(root)
    same = there is not None and made is not None and _alike(there, made)
    for path in sorted(target.glob("activation*.json")):
        name = path.name
        if name == STATE_FILE and not same:
            digest = sha256_hex((target / MANIFEST_FILE).read_bytes()) if (target / MANIFEST_FILE).is_file() else ""
            name = f"activation-{digest[:12] or 'before'}.json"
        shutil.copyfile(path, root / name)
    if same and (target / TEMPLATE_FOLDER).is_dir():
        shutil.copytree(target / TEMPLATE_FOLDER, root / TEMPLATE_FOLDER)
