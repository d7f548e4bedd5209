"""Every field of candidate, plan, receipt and summary dropped, changed and swapped, over all shipped samples (R193).

Which mutations are harmful stands in harm.json and was written down before the first was run. A harmful one must be
blocked with one of its reasons; an untouched answer never is. PLANNER_FULL=1 takes every sample on every bundle.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import Cell, run_cell
from planner.gate.checks import check_answer
from planner.gate.lifecycle import Played
from planner.gate.limits import AS_ASKED
from planner.values.candidate import Candidate
from planner.values.gate import Sample
from planner.values.plan import Plan
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from tests.gate.test_shipped_samples import samples, shipped, subject

HARM: dict[str, Any] = json.loads((Path(__file__).parent / "harm.json").read_text(encoding="utf-8"))
FULL = os.environ.get("PLANNER_FULL") == "1"
BUNDLES = ("reference", "qwen3-0.6b", "mistral-nemo") if FULL else ("reference",)


def plain_samples() -> list[Sample]:
    """Samples that are one plan; every third by default."""
    found = [one for one in samples() if not one.events]
    return found if FULL else found[::3]


def answered(sample: Sample, bundle_id: str) -> Played:
    """Return what a cell asks and gets, before it is judged."""
    from planner.gate import cells as module

    there = subject(bundle_id)
    cell = Cell(sample, bundle_id, there.bundle.manifest.digest, AS_ASKED, shipped())
    request = module._request(cell, there)
    assert isinstance(request, PlanRequest)
    return Played(request, there.plan(request), sample.expect, there.bundle)


def other(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return ("1" if value[:1] == "0" else "0") + value[1:] if value else "x"
    if isinstance(value, array):
        return array("i", [*value[:-1], value[-1] + 1])
    if isinstance(value, tuple):
        return (*value[:-1], other(value[-1])) if value else ("x",)
    if isinstance(value, Mapping):
        return {**value, "x/y": 1}
    if is_dataclass(value) and not isinstance(value, type):
        first = next(entry for entry in fields(value) if entry.init)
        before = getattr(value, first.name)
        return replace(value, **{first.name: 1 if before is None and "int" in str(first.type) else other(before)})
    return "x"


def dropped(kind: Any, name: str, value: Any) -> Any:
    """Return the value of a field that is left out, or nothing of its kind."""
    entry = next(one for one in fields(kind) if one.name == name)
    if entry.default is not MISSING:
        return entry.default
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    if isinstance(value, array):
        return array("i", value[:-1])
    return type(value)() if isinstance(value, str | tuple | int) else None


def mutations(subject_of: Any, neighbour: Any) -> Iterator[tuple[str, str, Any]]:
    """Give field, way and value for each field dropped, changed, and swapped with a neighbour's; no-ops left out."""
    kind: Any = type(subject_of)
    for entry in fields(kind):
        value = getattr(subject_of, entry.name)
        for way, mutated in (
            ("dropped", dropped(kind, entry.name, value)), ("changed", other(value)),
            ("swapped", getattr(neighbour, entry.name, value)),
        ):  # fmt: skip
            # A list of records that was empty, or an absent record, has no value that could be changed.
            unknown = mutated in (("x",), "x") and "str" not in str(entry.type)
            if mutated != value and mutated is not None and not unknown:
                yield entry.name, way, mutated


def told(played: Played, answer: Any, candidate: Candidate) -> set[str]:
    """Return the codes the gate gives; a mutant on which it cannot even be formed counts as rejected structure."""
    try:
        return {reason.code for reason in check_answer(played.request, answer, played.expect, played.bundle, candidate)}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {"structure_rejected", "account_differs"}


def judge(part: str, name: str, codes: set[str], tally: Counter[str], where: str) -> None:
    """Hold one mutant against what was written down."""
    label = HARM[part].get(name)
    assert label is not None, f"{part}.{name} is a new field: write down whether changing it is harmful"
    if isinstance(label, str):
        tally["harmless"] += 1
        return
    tally["harmful"] += 1
    assert codes & set(label), f"{where}: {part}.{name} gives {sorted(codes)}"
    tally["blocked"] += 1


def without_immutables(plan: Plan) -> Iterator[Plan]:
    """Give the plan without one thing that may never leave, its receipt likewise: no list contradicts another."""
    for key in plan.kept:
        if key.partition("/")[0] in ("policy", "scope", "tool", "schema", "parameter", "request"):
            kept = tuple(name for name in plan.kept if name != key)
            yield replace(plan, kept=kept, receipt=replace(plan.receipt, kept=kept))


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_R193_any_immutable_or_constraint_loss_blocks(bundle_id: str) -> None:
    """All harmful mutants of plans, receipts and candidates are blocked for the right reason, no untouched one is."""
    tally: Counter[str] = Counter()
    chosen = plain_samples()
    answers = [answered(sample, bundle_id) for sample in chosen]
    plans = [played for played in answers if isinstance(played.answer, Plan)]
    for sample, played in zip(chosen, answers, strict=True):
        assert set() == told(played, played.answer, shipped()), sample.id
        tally["untouched"] += 1
        where = f"{sample.id} on {bundle_id}"
        for name, way, value in mutations(shipped(), replace(shipped(), app_version="9", policy_digest="9" * 64)):
            codes = told(played, played.answer, replace(shipped(), **{name: value}))
            judge("candidate", name, codes, tally, f"{where} {way}")
        if not isinstance(played.answer, Plan):
            continue
        for mutant in without_immutables(played.answer):
            tally["losses"] += 1
            assert "immutable_missing" in told(played, mutant, shipped()), where
        neighbour = plans[(plans.index(played) + 1) % len(plans)].answer
        assert isinstance(neighbour, Plan)
        for name, way, value in mutations(played.answer, neighbour):
            codes = told(played, replace(played.answer, **{name: value}), shipped())
            judge("plan", name, codes, tally, f"{where} {way}")
        for name, way, value in mutations(played.answer.receipt, neighbour.receipt):
            mutant = replace(played.answer, receipt=replace(played.answer.receipt, **{name: value}))
            judge("receipt", name, told(played, mutant, shipped()), tally, f"{where} {way}")
    print(f"\n{bundle_id}: {dict(tally)}")
    assert tally["harmful"] == tally["blocked"] > 500
    assert tally["losses"] > len(plans)


@pytest.mark.parametrize("bundle_id", BUNDLES)
def test_a_mutated_summary_stands_for_nothing(bundle_id: str) -> None:
    """Every field of a summary that its sources or versions decide makes it stale or invalid."""
    tally: Counter[str] = Counter()
    for sample in samples():
        if "used" not in sample.expect.summaries.values() or sample.boundary is None:
            continue
        for name, way, value in mutations(sample.request.summaries[0], replace(sample.request.summaries[0], id="s9")):
            mutant = replace(sample.request.summaries[0], **{name: value})
            request = replace(sample.request, summaries=(mutant,))
            cell = Cell(
                replace(sample, request=request),
                bundle_id,
                subject(bundle_id).bundle.manifest.digest,
                AS_ASKED,
                shipped(),
            )
            found = run_cell(cell, subject(bundle_id))
            codes = {reason.code for reason in found.reasons}
            if found.outcome == "invalid-input":
                codes.add("summary_fate_differs")  # the request with such a record is refused as a whole
            if name in ("summary_text", "state") and way != "dropped":
                codes.add("text")  # no gate can tell one wording from another (R196)
            judge("summary", name, codes, tally, f"{sample.id} on {bundle_id} {way}")
    print(f"\n{bundle_id}: {dict(tally)}")
    assert tally["harmful"] == tally["blocked"] > 60


def test_gate_immutable_missing_blocks() -> None:
    """A plan that lists every rule but one is named for that one."""
    played = answered(next(one for one in samples() if one.id == "over-budget-half"), "reference")
    plan = played.answer
    assert isinstance(plan, Plan)
    for key in [key for key in plan.kept if key.startswith("policy/")]:
        kept = tuple(name for name in plan.kept if name != key)
        mutant = replace(plan, kept=kept, receipt=replace(plan.receipt, kept=kept))
        found = check_answer(played.request, mutant, played.expect, played.bundle, shipped())
        assert ("immutable_missing", key) in [(reason.code, reason.id) for reason in found]


def test_gate_constraint_lost_blocks() -> None:
    """A constraint that only a passage carries is lost (X24), and so is one that nothing carries."""
    played = answered(next(one for one in samples() if one.id == "turns-rule-outlives-its-turn"), "reference")
    plan = played.answer
    assert isinstance(plan, Plan)
    for carriers in ((), (("passage/p1", ("C1",)),)):
        mutant = replace(plan, carriers=carriers)
        found = check_answer(played.request, mutant, played.expect, played.bundle, shipped())
        assert ("constraint_lost", "C1") in [(reason.code, reason.id) for reason in found]


def test_gate_raised_limit_does_not_clear() -> None:
    """Planning in a larger window than the sample, the tier or the bundle names blocks by itself."""
    played = answered(next(one for one in samples() if one.id == "over-budget-half"), "reference")
    wide = subject("reference").plan(replace(played.request, max_input_tokens=4000))
    codes = {one.code for one in check_answer(played.request, wide, played.expect, played.bundle, shipped())}
    assert "limit_raised" in codes


def test_every_field_has_a_label() -> None:
    """A field that is added later must be thought about before it is released."""
    for part, kind in {"candidate": Candidate, "plan": Plan, "receipt": Receipt, "summary": SummaryRecord}.items():
        assert {entry.name for entry in fields(kind)} == HARM[part].keys(), part
