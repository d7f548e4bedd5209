"""Reading a kit back: does a planner answer its vectors? Comparing is plain JSON against plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.gate.numbers import fragile_numbers
from planner.gate.vectors import KIT_FILE, expected_of, fingerprints_of
from planner.values.digest import canonical, digest
from planner.values.field_rules import invalid
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.request import PlanRequest
from planner.values.strict_json import Bounds, load_strict
from planner.wire.parse import parse_request

_BOUNDS = Bounds(total_bytes=64 * 1024 * 1024, field_bytes=16 * 1024 * 1024, list_items=2_000_000)
Answering = Callable[[PlanRequest], Plan | Refusal]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer is not the expected one: the vector's file and a JSON path, never a value."""

    file: str
    path: str


def read_kit(folder: Path) -> dict[str, Any]:
    """Read the head of a kit. Raises RefusalSignal invalid-input, PlannerFault file_not_readable."""
    tree = _read(folder / KIT_FILE)
    if not isinstance(tree, dict) or not isinstance(tree.get("files"), list) or not tree["files"]:
        invalid(KIT_FILE, "is no head of a kit with files")
    if any(not isinstance(row, dict) or {"path", "sha256"} - row.keys() for row in tree["files"]):
        invalid(KIT_FILE, "has a file without its path and digest")
    return tree


def bundle_digests(kit: dict[str, Any]) -> dict[str, str]:
    """Return the digest of each bundle of a kit by its id. Raises RefusalSignal invalid-input."""
    rows = kit.get("bundles")
    if not isinstance(rows, list) or any(not isinstance(row, dict) or {"id", "digest"} - row.keys() for row in rows):
        invalid(KIT_FILE, "has a bundle without its id and digest")
    return {str(row["id"]): str(row["digest"]) for row in rows}


def check_kit(
    folder: Path, kit: dict[str, Any], plan: Answering, answers: Path | None = None
) -> Iterator[tuple[str, list[Difference]]]:
    """Give each vector's file with its differences; none for a right answer.

    plan     answers where `answers` is None.
    answers  a folder of a port: under the same names `{"expected": .., "fingerprints": ..}`, as the kit has them.
    Raises PlannerFault as planning does.
    """
    listed = {str(row["path"]) for row in kit["files"]}
    there = {path.relative_to(folder).as_posix() for path in (folder / "vectors").rglob("*.json")}
    for name in sorted(there - listed):
        yield name, [Difference(name, "is not in kit.json")]
    for row in kit["files"]:
        yield str(row["path"]), _check(folder, row, plan, answers)


def _check(folder: Path, row: dict[str, Any], plan: Answering, answers: Path | None) -> list[Difference]:
    name = str(row["path"])
    try:
        data = _bytes(_inside(folder, name))
        vector = load_strict(data, _BOUNDS)
        if digest(data) != row["sha256"]:
            return [Difference(name, "is not the file that kit.json lists")]
        if not isinstance(vector, dict) or {"request", "expected", "fingerprints"} - vector.keys():
            return [Difference(name, "is no vector")]
        found = _ours(vector, plan) if answers is None else _theirs(answers, name)
    except (RefusalSignal, OSError, ValueError):
        return [Difference(name, "cannot be read")]
    wanted = {key: vector[key] for key in found if key in vector}
    return [Difference(name, path) for path in differences(wanted, found)]


def _ours(vector: dict[str, Any], plan: Answering) -> dict[str, Any]:
    request = parse_request(canonical(vector["request"]))
    return {
        "expected": expected_of(plan(request)),
        "fingerprints": fingerprints_of(request),
        "fragileNumbers": fragile_numbers(vector["request"]),
    }


def _theirs(answers: Path, name: str) -> dict[str, Any]:
    given = load_strict(_bytes(_inside(answers, name)), _BOUNDS)
    given = given if isinstance(given, dict) else {}
    return {key: given.get(key) for key in ("expected", "fingerprints")}


def differences(wanted: Any, found: Any, path: str = "$") -> Iterator[str]:
    """Give the JSON paths at which two trees differ; numbers are equal where their kind is too.

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    ['$.a[1]']
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in (*wanted, *(key for key in found if key not in wanted)):
            if (key in wanted) != (key in found):
                yield f"{path}.{key}"
            else:
                yield from differences(wanted[key], found[key], f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list):
        for place in range(min(len(wanted), len(found))):
            yield from differences(wanted[place], found[place], f"{path}[{place}]")
        if len(wanted) != len(found):
            yield f"{path}[{min(len(wanted), len(found))}]"
    elif type(wanted) is not type(found) or wanted != found:
        yield path


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError("leads out of the kit")
    return path


def _read(path: Path) -> Any:
    try:
        data = _bytes(path)
    except (OSError, ValueError):
        raise PlannerFault("file_not_readable", f"{path.name} cannot be read") from None
    return load_strict(data, _BOUNDS)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _BOUNDS.total_bytes:
        raise ValueError("is too large")
    return path.read_bytes()


def kit_bytes(tree: Any) -> bytes:
    """Return a file of a kit: readable JSON, UTF-8, keys in our order."""
    return (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode()
