"""Which bundles and tiers a run is over: each bundle once, each tier where it is approved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from planner.values.gate import FAMILIES
from planner.wire.dump import dump_record
from tests.cli.support import planner as command
from tests.gate.gate_support import candidate, sample

FOUR = [{"id": "4k", "maxInputTokens": 4096, "validTo": None}]
REFERENCE = Path(__file__).resolve().parents[2] / "model_bundles" / "reference"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One sample of each family."""
    for family in FAMILIES:
        (tmp_path / "samples" / family).mkdir(parents=True)
        (tmp_path / "samples" / family / "one.json").write_bytes(dump_record(sample(family, family=family)))
    return tmp_path


def bundle(folder: Path, name: str, **changes: Any) -> str:
    """Write a copy of the embedded bundle with parts of its manifest changed; returns its digest."""
    from planner.cli.asking import planner_for

    shutil.copytree(REFERENCE, folder / name)
    manifest = json.loads((folder / name / "bundle.json").read_text())
    (folder / name / "bundle.json").write_text(json.dumps(manifest | changes))
    return planner_for(folder / name).encoder().bundle.manifest.digest


def run(folder: Path, bundles: str, digests: tuple[str, ...], *more: str) -> Any:
    """Run the gate for a candidate that ships these bundles."""
    (folder / "candidate.json").write_bytes(dump_record(candidate(bundle_digests=digests)))
    return command(
        "gate", "run", "--candidate", folder / "candidate.json", "--samples", folder / "samples", "--bundles", bundles,
        "--json", *more,
    )  # fmt: skip


def test_two_bundles_of_one_id_are_refused(folder: Path) -> None:
    """A cell names its bundle by the id that a request names: one of the two would never have been planned with."""
    own = candidate().bundle_digests[0]
    other = bundle(folder, "other", tiers=FOUR)
    assert own == other, "context and tiers are no part of a digest"
    said = "context plan rejected: invalid-input: --bundles names two bundles of one id, or one bundle twice\n"
    for refs, digests in ((f"reference,{folder / 'other'}", (own,)), ("reference,reference", (own,))):
        done = run(folder, refs, digests, "--tiers", "4k")
        assert (2, said) == (done.code, done.err)


def test_a_tier_is_run_where_it_is_approved_and_nowhere_else(folder: Path) -> None:
    """A bundle without a tier is not blocked for it, and it still runs in the tiers it has."""
    digests = (candidate().bundle_digests[0], bundle(folder, "small", id="small", tiers=FOUR))
    done = run(folder, f"reference,{folder / 'small'}", digests, "--results", str(folder / "out.jsonl"))
    assert (0, "pass", []) == (done.code, done.json["verdict"], done.json["reasons"])
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert {("reference", "4k"), ("reference", "8k"), ("reference", "32k"), ("small", "4k")} == {
        (row["bundleId"], row["tier"]) for row in rows
    }


def test_tiers_that_leave_a_bundle_out_are_refused(folder: Path) -> None:
    """Samples without a limit would not be run on it, and nothing would say so."""
    digest = candidate().bundle_digests[0]
    for tiers in ("64k", "4k,64k"):
        done = run(folder, "reference", (digest,), "--tiers", tiers)
        assert (2, "context plan rejected: invalid-input: --tiers names a tier that no bundle approves\n") == (
            done.code, done.err,
        )  # fmt: skip
    wide = [{"id": "16k", "maxInputTokens": 16_384, "validTo": None}]
    other = bundle(folder, "wide", id="wide", tiers=wide)
    done = run(folder, f"reference,{folder / 'wide'}", (digest, other), "--tiers", "4k")
    assert (2, "context plan rejected: invalid-input: --tiers leaves out every tier of a bundle\n") == (
        done.code, done.err,
    )  # fmt: skip


def test_limits_that_changed_under_the_same_digest_are_run_again(folder: Path) -> None:
    """A tier's size and the context are no part of a bundle's digest, and everything in what a cell shows."""
    digest = bundle(folder, "own", id="own", tiers=FOUR)
    old = str(folder / "old.jsonl")
    assert 0 == run(folder, str(folder / "own"), (digest,), "--results", old).code
    assert 6 == run(folder, str(folder / "own"), (digest,), "--earlier", old).json["reused"]
    shutil.rmtree(folder / "own")
    assert digest == bundle(folder, "own", id="own", tiers=[{**FOUR[0], "maxInputTokens": 70}])
    done = run(folder, str(folder / "own"), (digest,), "--earlier", old)
    assert (2, 0, 6) == (done.code, done.json["reused"], done.json["blocked"])
