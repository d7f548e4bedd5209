"""A reader of kits that shares no code with the planner: digests by the page in the kit, comparing by plain JSON.

It stands for a port: everything it knows is in the kit's README and `kit.json`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


class Kit:
    """One kit on disk."""

    def __init__(self, folder: Path) -> None:
        """Read its head."""
        self.folder = folder
        self.head: dict[str, Any] = json.loads((folder / "kit.json").read_bytes())

    def vectors(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give name and content of each vector that `kit.json` lists."""
        for row in self.head["files"]:
            yield row["path"], json.loads((self.folder / row["path"]).read_bytes())

    def value(self, shape: str, tree: dict[str, Any]) -> dict[str, Any]:
        """Return a value of ours as the canonical form has it, before it is written."""
        out: dict[str, Any] = {}
        for field in self.head["shapes"][shape]:
            found = self._filled(field, tree)
            if found is not None and found != []:
                out[field["name"]] = found
        return out

    def _filled(self, field: dict[str, Any], tree: dict[str, Any]) -> Any:
        if field["wire"] not in tree:
            return field["default"]
        given = tree[field["wire"]]
        if field["holds"] is not None and given is not None:
            many = isinstance(given, list)
            return [self.value(field["holds"], one) for one in given] if many else self.value(field["holds"], given)
        return float(given) if field["double"] and given is not None else given

    def digest(self, shape: str, tree: dict[str, Any]) -> bytes:
        """Return the digest of a value of ours."""
        return sha256(written(self.value(shape, tree)).encode()).digest()

    def fingerprints(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return what `fingerprints` of a vector must be."""
        turns = sorted(request.get("turns", []), key=lambda turn: turn["sequence"])
        digests = [self.digest("Turn", turn) for turn in turns]
        return {
            "turns": [{"id": turn["id"], "digest": one.hex()} for turn, one in zip(turns, digests, strict=True)],
            "turnChain": chained("turns", digests).hex(),
            **self._sources(turns),
            "runs": [self._run(one, turns) for one in request.get("summaries", [])],
        }

    def _run(self, summary: dict[str, Any], turns: list[dict[str, Any]]) -> dict[str, Any]:
        covered = [turn for turn in turns if summary["coversFrom"] <= turn["sequence"] <= summary["coversTo"]]
        return {"summary": summary["id"], "turns": [turn["id"] for turn in covered], **self._sources(covered)}

    def _sources(self, turns: list[dict[str, Any]]) -> dict[str, str]:
        shown, marked = [], []
        for turn in turns:
            placed = [
                {**message, "sequence": message.get("sequence", turn["sequence"] + place)}
                for place, message in enumerate(turn["messages"])
            ]
            accepted = sorted((one for one in placed if one.get("accepted", True)), key=lambda one: one["sequence"])
            shown.append(self.digest("Turn", {**turn, "messages": accepted}))
            marked += [[one["sequence"], one["id"], one["protectionReason"]] for one in placed
                       if "protectionReason" in one]  # fmt: skip
        protected = sha256(written(sorted(marked, key=lambda entry: entry[0])).encode())
        return {"source": chained("fp1", shown).hex(), "protected": protected.hexdigest()}

    def request_digest(self, request: dict[str, Any], chain: str) -> str:
        """Return the digest of a request."""
        rule = self.head["requestDigest"]
        whole = self.value("PlanRequest", request)
        body = {name: whole[name] for name in rule["own"]
                if name in whole and whole[name] != rule["defaults"].get(name)}  # fmt: skip
        for name in rule["digested"]:
            if name in whole:
                found = whole[name]
                if name == "passages":
                    found = sorted(found, key=lambda one: one["citation_id"])
                body[name] = sha256(written(found).encode()).hexdigest()
        return sha256(written({**body, "turns": chain}).encode()).hexdigest()

    def plan_id(self, bundle_digest: str, request_digest: str) -> str:
        """Return the id of a planning call."""
        text = "\0".join((self.head["plannerVersion"], bundle_digest, request_digest))
        return "p-" + sha256(text.encode()).hexdigest()[:32]


def final_input(bundle_digest: str, ids: list[int]) -> str:
    """Return the digest of what the runtime gets."""
    return sha256(bundle_digest.encode() + b"\0" + struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def chained(start: str, digests: list[bytes]) -> bytes:
    """Return the value of a chain of digests."""
    value = sha256(start.encode()).digest()
    for one in digests:
        value = sha256(value + one).digest()
    return value


def written(value: Any) -> str:
    """Write canonical JSON by the rules of the page."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _escaped(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    return f"\\u{ord(letter):04x}" if letter < " " else letter
