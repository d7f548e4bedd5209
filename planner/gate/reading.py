"""The input files of the gate: candidate, samples, matrix. A fault names the file and the path, never a value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from planner.gate.lifecycle import is_event
from planner.values.account import wire_field
from planner.values.candidate import Candidate, MatrixCell
from planner.values.check import check_request
from planner.values.digest import canonical
from planner.values.field_rules import ID_RULE, VERSION_RULE, invalid, is_id, is_version
from planner.values.gate import FAMILIES, Sample, WrittenFor
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.strict_json import REQUEST_BOUNDS, load_strict
from planner.wire.parse import parse_record

_T = TypeVar("_T")
_is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch


def read_candidate(path: Path) -> Candidate:
    """Read a candidate. Raises RefusalSignal invalid-input, PlannerFault file_not_readable."""
    found = _read(Candidate, path, path.name)
    for place, what in _flaws(found):
        invalid(f"{path.name}: $.{place}", what)
    return found


def _flaws(found: Candidate) -> Iterator[tuple[str, str]]:
    """Give what would bind a release to nothing: no digest, a version without a name, a cap that caps nothing."""
    digests = {"toolSetDigest": found.tool_set_digest, "hardeningDigest": found.hardening_digest,
               "policyDigest": found.policy_digest}  # fmt: skip
    digests |= {f"bundleDigests[{place}]": one for place, one in enumerate(found.bundle_digests)}
    yield from ((place, "expected a sha256 in lower-case hex") for place, one in digests.items() if not _is_sha256(one))
    if not found.bundle_digests:
        yield "bundleDigests", "is empty"
    versions = {"appVersion": found.app_version, "summarySchemaVersion": found.summary_schema_version}
    yield from ((place, VERSION_RULE) for place, one in versions.items() if not is_version(one))
    if not all(is_version(one) for one in found.template_versions):
        yield "templateVersion", f"{VERSION_RULE}; several have commas between them"
    if not 0 < found.caps.fixed_share <= 1:
        yield "caps.fixedShare", "expected a share above 0 and at most 1"
    for name in ("policy", "fresh", "growth"):
        if (getattr(found.caps, name) or 0) < 0:
            yield f"caps.{name}", "is negative"


def read_samples(folder: Path) -> Iterator[Sample]:
    """Read every `*.json` in the folders of the families, by path, one at a time.

    Raises RefusalSignal invalid-input for a file that is no sample, lies in another family's folder, breaks a rule of
    requests or has an id twice, and for a folder that no sample would be read from; PlannerFault file_not_readable.
    """
    _check_places(folder)
    seen: set[str] = set()
    for path in sorted(path for family in FAMILIES for path in (folder / family).glob("*.json")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file():
            raise PlannerFault("file_not_readable", f"{name} cannot be read")
        sample = _read(Sample, path, name)
        if not is_id(sample.id):
            invalid(f"{name}: $.id", ID_RULE)
        if sample.family != path.parent.name:
            invalid(name, "is of another family than its folder")
        if sample.id in seen:
            invalid(name, "has the id of another sample")
        seen.add(sample.id)
        for place, what in _origin_flaws(sample.written_for):
            invalid(f"{name}: $.writtenFor.{place}", what)
        for event in sample.events:
            if not is_event(event):
                invalid(name, "has an event of an unknown kind, or with fields of another form")
        played = {event.fields.get("id") for event in sample.events if event.kind == "summary"}
        if sample.events and not {record.id for record in sample.request.summaries} <= played:
            invalid(f"{name}: $.request.summaries", "holds one that no step of the script stores")
        try:
            check_request(sample.request)
        except RefusalSignal as signal:
            raise RefusalSignal(signal.reason, f"{name}: {signal.detail}") from None
        yield sample


def _origin_flaws(found: WrittenFor) -> Iterator[tuple[str, str]]:
    for name in ("tool_set_digest", "hardening_digest", "policy_digest"):
        value = getattr(found, name)
        if value is not None and not _is_sha256(value):
            yield wire_field(name), "expected a sha256 in lower-case hex"
    for name in ("template_version", "summary_schema_version"):
        value = getattr(found, name)
        if value is not None and not is_version(value):
            yield wire_field(name), VERSION_RULE


def _check_places(folder: Path) -> None:
    """Refuse samples that nothing would read: what is passed over in silence looks like what passed (R191).

    Folders and files whose names begin with a dot are those of other tools, and so is what is no JSON.
    """
    try:
        for path in _shown(folder):
            if path.is_dir() and path.name not in FAMILIES:
                invalid(_named(path), f"is no family's folder; {_nearest(path.name)}")
            if path.suffix == ".json" and not path.is_dir():
                invalid(_named(path), "lies beside the families' folders; a sample lies in that of its family")
        for path in (path for family in FAMILIES if (folder / family).is_dir() for path in _shown(folder / family)):
            # What is named like a sample is read as one, and then cannot be.
            if path.is_dir() and path.suffix != ".json":
                invalid(f"{path.parent.name}/{_named(path)}", "is a folder in a family's folder; samples lie beside it")
    except OSError:
        raise PlannerFault("file_not_readable", "the folder of the samples cannot be read") from None


def _shown(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _named(path: Path) -> str:
    """Return the name of what was found, where it is one that a line, a table and a page can show."""
    return path.name if is_id(path.name) else "$"


def _nearest(name: str) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), FAMILIES, n=1)
    return f"the nearest is {near[0]}" if near else f"the families are {', '.join(FAMILIES)}"


def read_matrix(path: Path) -> tuple[MatrixCell, ...]:
    """Read a list of matrix cells (X59). Raises as `read_candidate` does."""
    try:
        tree = load_strict(_bytes(path, path.name))
    except RefusalSignal as signal:
        raise RefusalSignal(signal.reason, f"{path.name}: {signal.detail}") from None
    if not isinstance(tree, list):
        invalid(path.name, "must be a list of cells")
    return tuple(_cell(entry, f"{path.name}: $[{place}]") for place, entry in enumerate(tree))


def _cell(entry: Any, name: str) -> MatrixCell:
    try:
        return parse_record(MatrixCell, canonical(entry))
    except RefusalSignal as signal:
        raise RefusalSignal(signal.reason, f"{name}: {signal.detail}") from None


def found_bytes(path: Path, most: int = REQUEST_BOUNDS.total_bytes) -> bytes:
    """Return the bytes of a file that was found in a folder, not named by a person: a pipe there would never end.

    Raises OSError for what is no file, cannot be read, or is larger than `most` bytes.
    """
    if not path.is_file() or path.stat().st_size > most:
        raise OSError("no file, or too large")
    return path.read_bytes()


def _read(kind: type[_T], path: Path, name: str) -> _T:
    try:
        return parse_record(kind, _bytes(path, name))
    except RefusalSignal as signal:
        raise RefusalSignal(signal.reason, f"{name}: {signal.detail}") from None


def _bytes(path: Path, name: str) -> bytes:
    try:
        if path.stat().st_size > REQUEST_BOUNDS.total_bytes:
            invalid(name, "is too large")
        return path.read_bytes()
    except OSError:
        raise PlannerFault("file_not_readable", f"{name} cannot be read") from None
