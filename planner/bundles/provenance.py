"""Where the files of a bundle were copied from, and its adapter: the parts of bundle.json that `bundle add` writes.

None of this changes an id except the adapter's own files and scale; paths are for `planner bundle check` alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from planner.bundles.fields import Fields, invalid, matching, read_list, read_text
from planner.values.bundle import Adapter, FileEntry

_FILE = re.compile(r"[A-Za-z0-9._-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
MAX_ADAPTER_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Provenance:
    """A path on this machine, or a repository of the hub with the commit that was taken.

    `revision` is what was asked for; `overlaid` names files that came from elsewhere (a template that was given,
    an adapter's folder); `adapter_path` is where the adapter's files stay, which are not copied.
    """

    path: str | None = None
    repository: str | None = None
    revision: str | None = None
    commit: str | None = None
    overlaid: tuple[str, ...] = ()
    adapter_path: str | None = None


def read_provenance(value: Any, path: str) -> Provenance:
    """Read `{"path": ..}` or `{"repository": .., "revision": .., "commit": ..}`. Raises manifest_invalid."""
    row = Fields(value, path)
    found = Provenance(
        path=row.take("path", read_text, None),
        repository=row.take("repository", matching(REPOSITORY), None),
        revision=row.take("revision", read_text, None),
        commit=row.take("commit", matching(COMMIT), None),
        overlaid=tuple(row.take("overlaid", lambda rows, at: read_list(rows, at, matching(_FILE)), [])),
    )
    row.close()
    if (found.path is None) == (found.repository is None) or (found.repository is None) != (found.commit is None):
        raise invalid(path, "must name a path, or a repository with its commit")
    return found


def dump_provenance(provenance: Provenance) -> dict[str, Any]:
    """Return the JSON of `read_provenance`."""
    value: dict[str, Any] = {
        "path": provenance.path,
        "repository": provenance.repository,
        "revision": provenance.revision,
        "commit": provenance.commit,
        "overlaid": list(provenance.overlaid),
    }
    return {key: item for key, item in value.items() if item}


def combined(provenance: Provenance | None, adapter_path: str | None) -> Provenance | None:
    """Return one value of both places; without a place of the files an adapter's is of no use."""
    return None if provenance is None else replace(provenance, adapter_path=adapter_path)


def read_adapter(value: Any, path: str) -> tuple[Adapter, str | None]:
    """Read `{"files": [..], "scale": 1.0, "path": ..}`. Raises manifest_invalid."""
    row = Fields(value, path)
    files = row.take("files", lambda rows, at: read_list(rows, at, _file))
    scale = row.take("scale", _scale, 1.0)
    place = row.take("path", read_text, None)
    row.close()
    if not files or len({entry.path for entry in files}) != len(files):
        raise invalid(f"{path}.files", "must name at least one file, and none twice")
    return Adapter(tuple(files), scale), place


def dump_adapter(adapter: Adapter | None, provenance: Provenance | None) -> dict[str, Any] | None:
    """Return the JSON of `read_adapter`, None where there is no adapter."""
    if adapter is None:
        return None
    rows = [{"path": one.path, "sizeBytes": one.size_bytes, "sha256": one.sha256} for one in adapter.files]
    value: dict[str, Any] = {"files": rows, "scale": adapter.scale}
    if provenance is not None and provenance.adapter_path is not None:
        value["path"] = provenance.adapter_path
    return value


def _file(value: Any, path: str) -> FileEntry:
    row = Fields(value, path)
    entry = FileEntry(
        row.take("path", matching(_FILE)), row.take("sizeBytes", _size), row.take("sha256", matching(_SHA256))
    )
    row.close()
    return entry


def _size(value: Any, path: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ADAPTER_BYTES:
        raise invalid(path, "must be a number of bytes")
    return value


def _scale(value: Any, path: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise invalid(path, "must be a number")
    return float(value)
