"""Reading files: only plain names inside the folder, bounded, hashed from the bytes that are parsed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from planner.bundles.files import FolderFiles, check_name, parse_json, parse_object
from planner.values.bundle import FileEntry
from planner.values.reasons import PlannerFault


def code_of(files: FolderFiles, name: str, limit: int = 100) -> str:
    """Return the code that reading ends with."""
    with pytest.raises(PlannerFault) as caught:
        files.read(name, limit)
    return caught.value.code


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "C:\\x",
        "a\\b",
        "",
        ".",
        "..",
        "a//b",
        "a/b/c/d",
        "a\x00b",
        "ü.json",
        "a b",
    ],
)
def test_names_that_lead_out_are_refused_before_anything_is_opened(name: str) -> None:
    """Only plain characters, at most three levels."""
    with pytest.raises(PlannerFault, match="bundle_path"):
        check_name(name)


@pytest.mark.parametrize("name", ["a.json", "a/b/c.json", "tokenizer.model.v3", "._-"])
def test_plain_names_pass(name: str) -> None:
    """The nearest legal neighbours."""
    check_name(name)


def test_links_devices_and_folders_are_no_files(tmp_path: Path) -> None:
    """A link out, a link in a parent, a FIFO and a folder are bundle_path; none of them blocks."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.json").write_text("{}", encoding="utf-8")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    os.symlink(outside / "x.json", root / "link.json")
    os.symlink(outside, root / "way")
    files = FolderFiles(root)
    names = ["link.json", "way/x.json", "sub"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(root / "fifo")
        names.append("fifo")
    assert {code_of(files, name) for name in names} == {"bundle_path"}


def test_a_folder_that_is_itself_reached_by_a_link_is_fine(tmp_path: Path) -> None:
    """The user named that path; only what lies in it may not lead out."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.json").write_text("{}", encoding="utf-8")
    os.symlink(tmp_path / "real", tmp_path / "alias")
    assert FolderFiles(tmp_path / "alias").read("x.json", 10) == b"{}"


def test_size_is_bounded_and_the_entry_is_of_the_bytes_read(tmp_path: Path) -> None:
    """A file of exactly the limit is read, one byte more is not."""
    (tmp_path / "x").write_bytes(b"a" * 10)
    files = FolderFiles(tmp_path)
    assert code_of(files, "x", 9) == "bundle_unsafe"
    assert files.read("x", 10) == b"a" * 10
    assert files.entries["x"] == FileEntry("x", 10, hashlib.sha256(b"a" * 10).hexdigest())
    assert code_of(files, "absent") == "bundle_incomplete"


def test_what_differs_from_the_manifest_is_never_returned(tmp_path: Path) -> None:
    """One changed byte, an unnamed file, and a file that changes between two readings."""
    (tmp_path / "x").write_bytes(b"good")
    entry = FileEntry("x", 4, hashlib.sha256(b"good").hexdigest())
    files = FolderFiles(tmp_path, {"x": entry})
    assert files.read("x", 10) == b"good"
    (tmp_path / "x").write_bytes(b"goof")
    assert code_of(files, "x") == "bundle_mismatch"
    assert code_of(files, "y") == "bundle_mismatch"
    free = FolderFiles(tmp_path)
    free.read("x", 10)
    (tmp_path / "x").write_bytes(b"other")
    assert code_of(free, "x") == "bundle_mismatch"


def test_json_is_refused_when_damaged_deep_or_no_object() -> None:
    """32 levels pass, 33 do not; a hundred thousand levels are no crash."""
    assert parse_json(b"[" * 32 + b"]" * 32, "x") is not None
    for data in (b"[" * 33 + b"]" * 33, b"[" * 100_000, b"{", b"\xff"):
        with pytest.raises(PlannerFault, match="bundle_unsafe"):
            parse_json(data, "x")
    with pytest.raises(PlannerFault, match="no JSON object"):
        parse_object(b"[]", "x")


def hub_cache(root: Path, name: str = "tokenizer.json", data: bytes = b"{}", digest: str | None = None) -> Path:
    """Write a model's hub cache with one file and return its snapshot."""
    model = root / "models--org--name"
    blob = model / "blobs" / (digest or hashlib.sha256(data).hexdigest())
    blob.parent.mkdir(parents=True)
    blob.write_bytes(data)
    snapshot = model / "snapshots" / "0123abc"
    link = snapshot / name
    link.parent.mkdir(parents=True)
    os.symlink("../" * (2 + name.count("/")) + f"blobs/{blob.name}", link)
    return snapshot


@pytest.mark.parametrize("name", ["tokenizer.json", "additional/chat_template.jinja"])
def test_the_links_of_a_hub_cache_are_read(tmp_path: Path, name: str) -> None:
    """By either of the two digests that blobs are named by, and the entry is that of a plain file."""
    data = b'{"a": 1}'
    git = hashlib.sha1(b"blob 8\x00" + data).hexdigest()
    for place, digest in (("long", None), ("short", git)):
        files = FolderFiles(hub_cache(tmp_path / place, name, data, digest))
        assert data == files.read(name, 100)
        assert files.entries[name] == FileEntry(name, 8, hashlib.sha256(data).hexdigest())
    os.symlink(hub_cache(tmp_path / "other", name, data), tmp_path / "alias")
    assert data == FolderFiles(tmp_path / "alias").read(name, 100)


def test_a_blob_that_differs_from_its_name_is_a_mismatch(tmp_path: Path) -> None:
    """A download that broke off, or bytes that somebody put there."""
    snapshot = hub_cache(tmp_path)
    next((snapshot.parent.parent / "blobs").iterdir()).write_bytes(b"[]")
    assert code_of(FolderFiles(snapshot), "tokenizer.json") == "bundle_mismatch"


def test_a_blob_that_is_absent_or_too_large_says_so(tmp_path: Path) -> None:
    """As for a plain file."""
    snapshot = hub_cache(tmp_path, data=b"a" * 101)
    assert code_of(FolderFiles(snapshot), "tokenizer.json") == "bundle_unsafe"
    next((snapshot.parent.parent / "blobs").iterdir()).unlink()
    assert code_of(FolderFiles(snapshot), "tokenizer.json") == "bundle_incomplete"


def test_H36_a_link_of_any_other_shape_stays_refused(tmp_path: Path) -> None:
    """Absolute, by a detour, to another name, outside a snapshot, a blob that is a link, a folder that is one."""
    snapshot = hub_cache(tmp_path)
    blobs = snapshot.parent.parent / "blobs"
    blob = next(blobs.iterdir())
    (blobs / "plain-name").write_bytes(b"{}")
    (tmp_path / "outside.json").write_bytes(b"{}")
    linked = "f" * 64
    os.symlink(tmp_path / "outside.json", blobs / linked)
    targets = {
        "absolute.json": str(blob),
        "detour.json": f"../../blobs/../blobs/{blob.name}",
        "higher.json": f"../../../{snapshot.parent.parent.name}/blobs/{blob.name}",
        "named.json": "../../blobs/plain-name",
        "outside.json": "../../../outside.json",
        "linked.json": f"../../blobs/{linked}",
    }
    for name, target in targets.items():
        os.symlink(target, snapshot / name)
    elsewhere = tmp_path / "models--org--name" / "elsewhere" / "0123abc"
    elsewhere.mkdir(parents=True)
    os.symlink(f"../../blobs/{blob.name}", elsewhere / "tokenizer.json")
    assert code_of(FolderFiles(elsewhere), "tokenizer.json") == "bundle_path"
    os.symlink(elsewhere, snapshot / "sub")
    files = FolderFiles(snapshot)
    assert {code_of(files, name) for name in (*targets, "sub/tokenizer.json")} == {"bundle_path"}
    assert files.read("tokenizer.json", 10) == b"{}"
