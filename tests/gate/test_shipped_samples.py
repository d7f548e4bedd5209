"""The shipped samples on the shipped bundles: the six families as the acceptance list names them (R191)."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from planner import Planner
from planner.gate.cells import Subject, cells_of, run_cell
from planner.gate.reading import read_candidate, read_samples
from planner.gate.verdict import Tally
from planner.values.candidate import Candidate
from planner.values.gate import FAMILIES, CellResult, Family, Sample
from planner.values.reasons import PlannerFault

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
BUNDLES = ("qwen3-0.6b", "mistral-nemo", "reference")


@cache
def subject(bundle_id: str) -> Subject:
    """A shipped bundle under the gate; skips where its files are not here."""
    try:
        planner = Planner(bundle_id)
        bundle = planner.encoder().bundle
    except PlannerFault as fault:
        pytest.skip(f"{bundle_id}: {fault.code}")
    reference = Planner("reference").encoder().bundle
    return Subject(bundle_id, bundle, planner.plan, {"reference": reference})


@cache
def samples() -> tuple[Sample, ...]:
    """Every shipped sample."""
    return tuple(read_samples(FIXTURES / "samples"))


@cache
def shipped() -> Candidate:
    """The shipped candidate."""
    return read_candidate(FIXTURES / "gate" / "candidate.json")


def results(family: Family, bundle_id: str) -> list[CellResult]:
    """Run a family on a bundle, on its smallest tier."""
    there = subject(bundle_id)
    bundles = [(bundle_id, there.bundle.manifest.digest)]
    chosen = [one for one in samples() if one.family == family]
    return [run_cell(cell, there) for cell in cells_of(chosen, bundles, ["4k"], shipped())]


def passes(family: Family, bundle_id: str) -> None:
    """Check that nothing of a family blocks, and that the two samples at the limit are there."""
    found = results(family, bundle_id)
    assert [] == [(one.sample_id, one.reasons) for one in found if one.verdict == "block"]
    edges = Counter(one.boundary for one in samples() if one.family == family)
    assert min(edges["exact"], edges["one_over"]) >= 1
    assert len(found) >= 10


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_over_budget(bundle_id: str) -> None:
    """What cannot move is kept or the call is refused."""
    passes("over_budget", bundle_id)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_turn_truncation(bundle_id: str) -> None:
    """Turns leave whole and in order."""
    passes("turn_truncation", bundle_id)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_old_summary(bundle_id: str) -> None:
    """A summary stands while its sources are what they were."""
    passes("old_summary", bundle_id)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_permission_withdrawn(bundle_id: str) -> None:
    """What may not be used is in no prompt."""
    passes("permission_withdrawn", bundle_id)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_retrieval_conflict(bundle_id: str) -> None:
    """Evidence against a fact is shown, or the answer refused."""
    passes("retrieval_conflict", bundle_id)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_gate_lifecycle(bundle_id: str) -> None:
    """Kills, rotations, branches and switches keep or void what they must."""
    passes("lifecycle", bundle_id)


def test_every_family_has_ten_samples() -> None:
    """Fewer are no family."""
    assert all(count >= 10 for count in Counter(one.family for one in samples()).values())
    assert set(FAMILIES) == {one.family for one in samples()}


def test_the_shipped_candidate_passes() -> None:
    """Over every bundle that is here; a bundle that is not is named as missing and nothing else is."""
    there = []
    for bundle_id in BUNDLES:
        try:
            there.append((bundle_id, Planner(bundle_id).encoder().bundle.manifest.digest))
        except PlannerFault:
            continue
    tally = Tally(shipped(), there)
    for family in FAMILIES:
        for bundle_id, _ in there:
            for one in results(family, bundle_id):
                tally.add(one)
    codes = {reason.code for reason in tally.result().reasons}
    assert codes == (set() if len(there) == len(BUNDLES) else {"bundle_missing"})
