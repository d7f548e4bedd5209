"""Decide whether a template may be activated; every reason against it is named (R175, R176, X59)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import get_args

from planner.values.activation_evidence import ActivationEvidence, BudgetRun, Probed
from planner.values.app_version import outside, version_key
from planner.values.candidate import MatrixCell
from planner.values.policy_file import Finding
from planner.values.profile import Carried, TemplateProfile

_BETTER_FIRST: tuple[str, ...] = get_args(Carried)
_CHOICE = frozenset({"old_reasoning"})
"""Fields that say what a template leaves out on purpose, whose cost is measured like any other."""


@dataclass(frozen=True, slots=True)
class ActivationVerdict:
    """`findings` keep the template from activation; none of them means that it may be.

    cells      of this bundle and of versions within the bounds, as they count for the new template.
    uncovered  of them, those in which nothing was run: listed whether or not they block (R209).
    """

    findings: tuple[Finding, ...]
    cells: tuple[MatrixCell, ...]
    uncovered: tuple[MatrixCell, ...]

    @property
    def passes(self) -> bool:
        """True where nothing speaks against it."""
        return not self.findings


def activation_verdict(evidence: ActivationEvidence) -> ActivationVerdict:
    """Return the verdict on a candidate. Pure: the evidence was gathered before.

    A template with another digest than the stated one is judged by nothing else. Raises nothing.
    """
    found = [*_hash(evidence), *_bounds(evidence)]
    cells = target_cells(evidence)
    uncovered = tuple(cell for cell in cells if cell.status == "uncovered")
    if not found:
        found += _cells(evidence, cells, uncovered)
        found += _probe(evidence.probed)
        found += [
            Finding("differs_on_renderer", one.shapes, f"{one.renderer} renders it otherwise")
            for one in evidence.differences
            if one.shapes
        ]
        if evidence.probed is not None and evidence.probed.after is not None:
            found += _budgets(evidence.runs, evidence.template.bundle_digest)
    return ActivationVerdict(tuple(found), cells, uncovered)


def target_cells(evidence: ActivationEvidence) -> tuple[MatrixCell, ...]:
    """Return the matrix's cells that the template would serve: this bundle, and app versions within its bounds.

    What was measured with another digest than the candidate's is no measurement of it: it counts as simulated.
    """
    template = evidence.template
    bounds = (template.min_app, template.max_app)
    return tuple(
        cell
        if cell.status != "measured" or cell.bundle_digest == template.bundle_digest
        else replace(cell, status="simulated")
        for cell in evidence.cells or ()
        if cell.bundle_digest in evidence.digests and outside(cell.app_version, bounds) is None
    )


def cell_name(cell: MatrixCell) -> str:
    """Return how a finding names a cell.

    >>> cell_name(MatrixCell("2.1", "0" * 64, "llama.cpp", "b9", "android", "arm64-v8a", "acme"))
    '2.1/llama.cpp-b9/android/arm64-v8a/acme'
    """
    return f"{cell.app_version}/{cell.runtime}-{cell.runtime_version}/{cell.os}/{cell.abi}/{cell.vendor}"


def _hash(evidence: ActivationEvidence) -> Iterator[Finding]:
    if evidence.found_sha256 is None:
        yield Finding("not_fetched", (), "the template's file is not at hand")
    elif evidence.found_sha256 != evidence.template.sha256:
        yield Finding("digest_differs", (), "the template is not the one its publisher named")


def _bounds(evidence: ActivationEvidence) -> Iterator[Finding]:
    template = evidence.template
    keys = [None if bound is None else version_key(bound) for bound in (template.min_app, template.max_app)]
    unreadable = [b for b, key in zip((template.min_app, template.max_app), keys, strict=True) if b and key is None]
    if unreadable:
        yield Finding("bounds_unreadable", (), "a bound is no version of numbers and dots")
        return
    least, most = keys
    if least is not None and most is not None and most < least:
        yield Finding("bounds_reversed", (), "the least version of the app is above the greatest")
        return
    if evidence.app_version is not None or evidence.cells is None:
        reason = outside(evidence.app_version, (template.min_app, template.max_app))
        if reason is not None:
            yield Finding(reason, (), "the template is not meant for the app that activates it")


def _cells(
    evidence: ActivationEvidence, cells: Sequence[MatrixCell], uncovered: Sequence[MatrixCell]
) -> Iterator[Finding]:
    if evidence.cells is not None and not cells:
        yield Finding("no_target_cell", (), "the matrix has no cell of this bundle within the bounds")
    for cell in uncovered:
        yield Finding("uncovered_cell", (cell_name(cell),), "nothing was run there")


def _probe(probed: Probed | None) -> Iterator[Finding]:
    if probed is None:
        yield Finding("not_measured", (), "the template was not probed")
    elif probed.after is None:
        yield Finding("probe_refused", (), probed.fault or "the probe refused it")
    else:
        worse = tuple(_worse(probed.before, probed.after))
        if worse:
            yield Finding("carries_less", worse, "are lost or refused by it, and are not by the template in force")


def _worse(before: TemplateProfile, after: TemplateProfile) -> Iterator[str]:
    """Name what the new template drops or raises on where the old one did better."""
    for one in fields(TemplateProfile):
        old, new = getattr(before, one.name), getattr(after, one.name)
        if one.type == "Carried" and one.name not in _CHOICE and _BETTER_FIRST.index(new) > _BETTER_FIRST.index(old):
            yield one.name
    for name in ("reasoning", "reasoning_beside_text"):
        if (getattr(before, name), getattr(after, name)) == ("passed", "raises"):
            yield name
    if before.user_slot and not after.user_slot:
        yield "user_slot"


def _budgets(runs: tuple[BudgetRun, ...] | None, bundle_digest: str) -> Iterator[Finding]:
    """Judge the samples: none that had a plan may lose it, and no id that may never leave may be gone.

    A figure that another bundle counted is none (R42): it never stands for the candidate.
    """
    if not runs:
        yield Finding("not_measured", (), "no budget was computed")
        return
    foreign = dict.fromkeys(run.sample for run in runs if run.after.bundle_digest not in (None, bundle_digest))
    if foreign:
        yield Finding("not_measured", tuple(foreign), "were counted by another bundle")
        return
    for limit in dict.fromkeys((run.app_version, run.limit) for run in runs):
        here = [run for run in runs if (run.app_version, run.limit) == limit]
        where = "/".join(part for part in limit if part) or "the sample's own limit"
        if all(run.after.reason is not None for run in here):
            why = ", ".join(dict.fromkeys(run.after.reason or "" for run in here))
            yield Finding("nothing_planned", (where,), f"no sample has a plan there: {why}")
        for run in here:
            if run.before.reason is None and run.after.reason is not None:
                yield Finding("no_plan", (run.sample, where), f"{run.after.reason}; it has a plan before")
    gone: dict[str, None] = {}
    for run in runs:
        if run.before.reason is None and run.after.reason is None:
            kept = dict(run.after.immutable)
            gone.update(dict.fromkeys(name for name, _ in run.before.immutable if name not in kept))
    if gone:
        yield Finding("id_vanished", tuple(gone), "may never leave and are no longer in the prompt")
