"""Write the gate's samples and the candidate of the shipped bundles, or check that they are current.

    python tools/gate_samples/make.py [--check]

Samples are made, not recorded: each says what must come out on every bundle, before any bundle has answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from planner.bundles.manifest import MANIFEST_FILE, parse_manifest
from planner.values.candidate import Candidate
from planner.values.digest import canonical, digest
from planner.wire.dump import dump_record
from tools.gate_samples.families import FAMILIES
from tools.gate_samples.parts import POLICY, TOOLS

SAMPLES = ROOT / "fixtures" / "samples"
CANDIDATE = ROOT / "fixtures" / "gate" / "candidate.json"


def files() -> dict[Path, bytes]:
    """Return every file with its bytes."""
    found = {CANDIDATE: _readable(dump_record(candidate()))}
    for family, make in FAMILIES.items():
        for sample in make():
            found[SAMPLES / family / f"{sample.id}.json"] = _readable(dump_record(sample))
    return found


def candidate() -> Candidate:
    """Return the candidate that ships the shipped bundles."""
    manifests = [parse_manifest(path.read_bytes()).manifest for path in ROOT.glob(f"model_bundles/*/{MANIFEST_FILE}")]
    return Candidate(
        app_version="1.0.0",
        bundle_digests=tuple(sorted(manifest.digest for manifest in manifests)),
        template_version="1",
        tool_set_digest=digest(canonical(TOOLS)),
        summary_schema_version="1.0",
        hardening_digest=digest(b"none"),
        policy_digest=digest(canonical(POLICY)),
    )


def _readable(line: bytes) -> bytes:
    tree: Any = json.loads(line)
    return (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode()


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit status."""
    made = files()
    there = {path for family in FAMILIES for path in (SAMPLES / family).glob("*.json")} | {CANDIDATE}
    if arguments == ["--check"]:
        wrong = sorted(
            path.relative_to(ROOT).as_posix()
            for path in there | made.keys()
            if path not in made or not path.is_file() or path.read_bytes() != made[path]
        )
        if wrong:
            sys.stderr.write(f"not current, run tools/gate_samples/make.py: {', '.join(wrong[:8])}\n")
        return 1 if wrong else 0
    if arguments:
        sys.stderr.write(__doc__ or "")
        return 2
    for path in there - made.keys():
        path.unlink(missing_ok=True)
    for path, data in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
