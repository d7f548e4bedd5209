"""What is known of a bundle beside its manifest: drift, certificates, learned meanings; text-free JSON files.

They stand in the user's folder of bundles under the bundle's digest, so that a bundle changed by a byte has none.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import get_ident
from typing import Any

from planner.bundles.digest import sha256_hex
from planner.values.account import wire_field
from planner.values.observation import Learned, Observation, Reported
from planner.values.reasons import PlannerFault
from planner.values.runtime import MEANINGS, Meaning, Runtime, ValidWhen

FOLDER = ".records"
DRIFT, LIFTED, MEANING = "drift", "drift-lifted", "meaning"
SCHEMA_VERSION = "1.0"
MAX_RECORD_BYTES = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Records:
    """The records of one bundle. `user_folder` None keeps none."""

    def __init__(self, user_folder: Path | None, bundle_digest: str) -> None:
        """Take the folder; it need not exist."""
        # A receipt that was written down may state anything as a digest; it never becomes a path.
        stated = bundle_digest.encode("utf-8", "replace")
        name = bundle_digest if _SHA256.fullmatch(bundle_digest) else sha256_hex(stated)
        self._folder = None if user_folder is None else user_folder / FOLDER / name[:40]
        self._digest = bundle_digest

    @property
    def kept(self) -> bool:
        """Whether there is a folder to keep records in."""
        return self._folder is not None

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record, None where there is none.

        Raises record_damaged for one that cannot be read or is another bundle's: it may be what blocks this one.
        """
        if self._folder is None:
            return None
        data: bytes | None = None
        absent = False
        try:
            with (self._folder / f"{name}.json").open("rb") as handle:
                data = handle.read(MAX_RECORD_BYTES + 1)
        except FileNotFoundError:
            absent = True
        except OSError:
            data = None
        if absent:
            return None
        value: Any = None
        with suppress(ValueError, RecursionError):
            value = json.loads(data) if data is not None and len(data) <= MAX_RECORD_BYTES else None
        if not isinstance(value, dict) or value.get("bundleDigest") != self._digest:
            raise PlannerFault("record_damaged", f"the record {name} of the bundle cannot be read")
        return value

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Write a record whole or not at all; one that was there is replaced. Raises file_not_readable."""
        if self._folder is None:
            return
        tree = {"schemaVersion": SCHEMA_VERSION, "bundleDigest": self._digest, **value}
        data = json.dumps(tree, indent=1, sort_keys=True).encode()
        # Of this thread alone: two may see a drift at once.
        part = self._folder / f".{name}.{os.getpid()}.{get_ident()}.part"
        failed = False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            part.replace(self._folder / f"{name}.json")
        except OSError:
            failed = True
            with suppress(OSError):
                part.unlink()
        if failed:
            raise PlannerFault("file_not_readable", "the user's folder of bundles cannot be written")

    def lift(self) -> bool:
        """Put a drift aside after the bundle was measured again; tell whether there was one (X60)."""
        if self._folder is None or not (self._folder / f"{DRIFT}.json").exists():
            return False
        failed = False
        try:
            (self._folder / f"{DRIFT}.json").replace(self._folder / f"{LIFTED}.json")
        except OSError:
            failed = True
        if failed:
            raise PlannerFault("file_not_readable", "the user's folder of bundles cannot be written")
        return True


def any_drift(user_folder: Path | None) -> bool:
    """Tell whether any bundle has a drift; looks at names only."""
    if user_folder is None:
        return False
    with suppress(OSError):
        return any(True for _ in (user_folder / FOLDER).glob(f"*/{DRIFT}.json"))
    return False


def check_drift(records: Records) -> None:
    """Refuse a bundle whose runtime counted otherwise than planned (X60). Raises bundle_blocked_by_drift."""
    found = records.read(DRIFT)
    if found is not None:
        planned, reported = found.get("plannedTokens"), found.get("reportedTokens")
        known = type(planned) is int and type(reported) is int
        raise blocked_by(f"{planned} tokens planned, {reported} reported" if known else "see its record")


def blocked_by(figures: str) -> PlannerFault:
    """Return the fault of a bundle whose runtime counted otherwise."""
    return PlannerFault("bundle_blocked_by_drift", f"its runtime counted otherwise: {figures}")


def meaning_of(runtime: Runtime | None, records: Records, reported: Reported) -> tuple[Meaning, ValidWhen]:
    """Return what a count means and when: as the caller says, else as the profile does, else as it was learned."""
    if reported.meaning is not None:
        return reported.meaning, "always"
    if runtime is not None and runtime.profile.reported_meaning != "unknown":
        return runtime.profile.reported_meaning, runtime.profile.reported_when
    kept = (records.read(MEANING) or {}).get("meaning")
    return next(((one, "always") for one in MEANINGS if one == kept), ("unknown", "always"))


def observation_fields(observation: Observation) -> dict[str, Any]:
    """Return an observation as a record: numbers, ids and words of ours."""
    return {wire_field(name): value for name, value in asdict(observation).items()}


def learned_fields(learned: Learned) -> dict[str, Any]:
    """Return what was learned as a record, with the three calls."""
    calls = [
        {
            "plannedTokens": one.planned_tokens,
            "sharedTokens": one.shared_tokens,
            "frameTokens": one.frame_tokens,
            "reported": {wire_field(name): value for name, value in asdict(one.reported).items()},
        }
        for one in learned.calls
    ]
    return {
        "meaning": learned.meaning, "calls": calls, "runtime": learned.runtime,
        "runtimeVersion": learned.runtime_version,
    }  # fmt: skip
