"""Reading model files safely: opened once, read whole, hashed from the bytes that are then parsed.

Bounds follow threats.md §2.6. Nothing is followed out of the folder, unpickled, imported or fetched.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from planner.bundles.digest import sha256_hex
from planner.values.bundle import FileEntry
from planner.values.reasons import PlannerFault

MIB = 1 << 20
MAX_TOKENIZER_BYTES = 64 * MIB
MAX_SENTENCEPIECE_BYTES = 32 * MIB
MAX_CONFIG_BYTES = 16 * MIB
MAX_TEMPLATE_BYTES = 4 * MIB
MAX_FOLDER_ENTRIES = 65_536
MAX_JSON_DEPTH = 32

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_SAFE_FLAGS = (
    os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)  # fmt: skip


def check_name(name: str) -> None:
    """Accept a file name of a bundle: at most three levels of plain characters, no way up.

    Raises PlannerFault bundle_path for anything else: absolute, `..`, backslash, drive letter, blank.
    """
    levels = name.split("/")
    plain = len(levels) <= 3 and all(_NAME.fullmatch(level) and level.strip(".") for level in levels)
    if not plain:
        raise PlannerFault("bundle_path", f"{name[:80]!a} is not a plain file name inside the folder")


class FolderFiles:
    """The files of one folder. `entries` lists what was read, in order of first reading.

    `expected` are the manifest's entries: then nothing else can be read, and what is read must equal them.
    `follow_links` is for installed distributions, whose installers may link files; the digest judges there.
    """

    def __init__(
        self, root: Path, expected: Mapping[str, FileEntry] | None = None, *, follow_links: bool = False
    ) -> None:
        """Name the folder; nothing is read yet. Raises bundle_not_found where it is no folder."""
        if not root.is_dir():
            raise PlannerFault("bundle_not_found", "the path is no folder")
        self.root = root
        self.entries: dict[str, FileEntry] = {}
        self._expected = expected
        self._follow_links = follow_links
        self._names: frozenset[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """Names in the folder itself, folders and links included. Raises bundle_unsafe beyond the bound."""
        if self._names is None:
            names = set()
            try:
                with os.scandir(self.root) as entries:
                    for entry in entries:
                        names.add(entry.name)
                        if len(names) > MAX_FOLDER_ENTRIES:
                            raise PlannerFault("bundle_unsafe", "the folder holds too many entries")
            except OSError:
                raise PlannerFault("file_not_readable", "the folder cannot be listed") from None
            self._names = frozenset(names)
        return self._names

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return a file's bytes and remember its entry.

        Raises bundle_path, bundle_incomplete (absent), bundle_unsafe (too large, a Git LFS pointer),
        bundle_mismatch (differs from the manifest, or from its first reading).
        """
        return self._kept(name, lambda: self._read_bytes(name, limit_bytes))

    def read_head(self, name: str, cut: Callable[[BinaryIO, int], bytes], *, scattered: bool = False) -> bytes:
        """Return the beginning of a file too large to be read whole; the entry is that of the beginning.

        cut        takes the opened file and its size in bytes and returns the beginning; where an entry is
                   known already, it gets the bytes that were compared with it
        scattered  `cut` returns stretches of the file one after another, which are compared behind it
        Raises what `read` raises, and bundle_mismatch where the file changed while it was read.
        """

        def read() -> bytes:
            known = (self.entries if self._expected is None else self._expected).get(name)
            handle, status, _ = self._opened(name)
            with handle:
                try:
                    if known is None or scattered:
                        data = cut(handle, status.st_size)
                    else:
                        data = handle.read(known.size_bytes)
                        self._compare(name, data)
                        data = cut(io.BytesIO(data), status.st_size)
                    after = os.fstat(handle.fileno())
                except OSError:
                    raise PlannerFault("file_not_readable", f"{name} cannot be read") from None
            if (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
                raise PlannerFault("bundle_mismatch", f"{name} changed while it was read")
            return data

        return self._kept(name, read)

    def _kept(self, name: str, read: Callable[[], bytes]) -> bytes:
        check_name(name)
        if self._expected is not None and name not in self._expected:
            raise PlannerFault("bundle_mismatch", f"{name} is not named by the manifest")
        data = read()
        if data.startswith(_LFS_HEAD):
            raise PlannerFault("bundle_unsafe", f"{name} is a Git LFS pointer, not the file; run git lfs pull")
        self.entries[name] = self._compare(name, data)
        return data

    def _compare(self, name: str, data: bytes) -> FileEntry:
        entry = FileEntry(name, len(data), sha256_hex(data))
        wanted = (self.entries if self._expected is None else self._expected).get(name, entry)
        if (entry.size_bytes, entry.sha256) != (wanted.size_bytes, wanted.sha256):
            raise PlannerFault("bundle_mismatch", f"{name} differs from the manifest")
        return entry

    def _opened(self, name: str) -> tuple[BinaryIO, os.stat_result, Path | None]:
        """Open a regular file inside the folder; the third value is the hub blob that its link stands for."""
        path, blob = self.root.joinpath(*name.split("/")), None
        if self._follow_links:
            path = Path(os.path.realpath(path))
        else:
            blob = hub_blob(self.root, name)
            if blob is None:
                self._refuse_way_out(path, name)
            path = blob or path
        try:
            before = os.lstat(path)
            if not stat.S_ISREG(before.st_mode):
                raise PlannerFault("bundle_path", f"{name} is no regular file")
            descriptor = os.open(path, _SAFE_FLAGS)
        except FileNotFoundError:
            raise PlannerFault("bundle_incomplete", f"{name} is absent") from None
        except OSError:
            raise PlannerFault("file_not_readable", f"{name} cannot be opened") from None
        handle = os.fdopen(descriptor, "rb")
        status = os.fstat(handle.fileno())
        # The name may have been pointed elsewhere between the look and the opening.
        if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != (before.st_dev, before.st_ino):
            handle.close()
            raise PlannerFault("bundle_path", f"{name} changed while it was opened")
        return handle, status, blob

    def _read_bytes(self, name: str, limit_bytes: int) -> bytes:
        handle, _, blob = self._opened(name)
        with handle:
            try:
                data = handle.read(limit_bytes + 1)
            except OSError:
                raise PlannerFault("file_not_readable", f"{name} cannot be read") from None
        if len(data) > limit_bytes:
            raise PlannerFault("bundle_unsafe", f"{name} is larger than {limit_bytes} bytes")
        if blob is not None and blob.name not in (sha256_hex(data), _git_digest(data)):
            raise PlannerFault("bundle_mismatch", f"{name} differs from the digest its blob is named by")
        return data

    def _refuse_way_out(self, path: Path, name: str) -> None:
        real_root, real_path = os.path.realpath(self.root), os.path.realpath(path)
        inside = real_path.startswith(real_root.rstrip(os.sep) + os.sep)
        if not inside or path.is_symlink():
            raise PlannerFault("bundle_path", f"{name} is a link; the real file must lie in the folder")


def hub_blob(root: Path, name: str) -> Path | None:
    """Return the blob a snapshot's link stands for in a hub cache, None for anything else (ADR 0006).

    The cache keeps `blobs/<digest>` and, beside it, `snapshots/<revision>/<name>` as relative links to them.
    Only that exact shape is taken: link text, folder names and a digest as the blob's name; the caller
    compares the digest with the bytes.
    """
    real = Path(os.path.realpath(root))
    link = real.joinpath(*name.split("/"))
    if real.parent.name != "snapshots" or not link.is_symlink() or link.parent != Path(os.path.realpath(link.parent)):
        return None
    up, _, digest = os.readlink(link).replace(os.sep, "/").rpartition("/blobs/")
    levels = len(link.relative_to(real.parent.parent).parts) - 1
    if up.split("/") != [".."] * levels or not _BLOB.fullmatch(digest):
        return None
    blob = real.parent.parent / "blobs" / digest
    return blob if Path(os.path.realpath(blob)) == blob else None


def _git_digest(data: bytes) -> str:
    # Small files are named as git names them; this tells a damaged file, it keeps no secret.
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def parse_json(data: bytes, name: str) -> Any:
    """Parse a model's JSON file. Raises bundle_unsafe where it is damaged or nested too deeply."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise PlannerFault("bundle_unsafe", f"{name} is nested too deeply") from None
    except ValueError:
        raise PlannerFault("bundle_unsafe", f"{name} is not valid JSON") from None
    if depth_of(value) > MAX_JSON_DEPTH:
        raise PlannerFault("bundle_unsafe", f"{name} is nested deeper than {MAX_JSON_DEPTH} levels")
    if holds_half(data, value):
        raise PlannerFault("bundle_unsafe", f"{name} holds half of a character")
    return value


def holds_half(data: bytes, value: Any) -> bool:
    """Tell whether a JSON value read from these bytes has a lone surrogate, which no tokenizer takes.

    >>> [holds_half(text, json.loads(text)) for text in (b'"\\\\ud83d"', b'"\\\\ud83d\\\\ude00"')]
    [True, False]
    """
    if _HALF.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return True
    return False


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON file whose top must be an object. Raises bundle_unsafe."""
    value = parse_json(data, name)
    if not isinstance(value, dict):
        raise PlannerFault("bundle_unsafe", f"{name} is no JSON object")
    return value


def depth_of(value: Any) -> int:
    """Return how many levels of objects and arrays a JSON value has, without recursion.

    >>> depth_of({"a": [1]}), depth_of(3)
    (2, 0)
    """
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def parse_text(data: bytes, name: str) -> str:
    """Decode a UTF-8 file. Raises bundle_unsafe where it is none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PlannerFault("bundle_unsafe", f"{name} is not UTF-8 text") from None
