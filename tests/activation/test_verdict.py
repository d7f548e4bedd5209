"""The verdict is pure: each thing that speaks against a template is a finding, and its nearest neighbour is none."""

from __future__ import annotations

import doctest
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.steps import activation_verdict as module
from planner.steps.activation_verdict import activation_verdict, target_cells
from planner.values import activation, app_version
from planner.values.activation import TemplateVersion
from planner.values.activation_evidence import ActivationEvidence, BudgetRun, Cost, Differences, Probed
from planner.values.app_version import outside, version_key
from planner.values.candidate import CellStatus, MatrixCell
from planner.values.profile import TemplateProfile

OLD, NEW, OTHER = "1" * 64, "2" * 64, "3" * 64
TEMPLATE = TemplateVersion("a" * 64, NEW, version="7", min_app="2", max_app="3")
PROFILE = TemplateProfile("old")
CELL = MatrixCell("2.1", OLD, "llama.cpp", "b9", "android", "arm64-v8a", "acme", ("4k",), "measured")
KEPT = Cost(OLD, None, 20, 4096, (("policy/tone", 5), ("request/q", 3)))
RUN = BudgetRun("s", "2.1", "4k", KEPT, replace(KEPT, bundle_digest=NEW))
GOOD = ActivationEvidence(
    "b",
    TEMPLATE,
    "a" * 64,
    "2.5",
    (OLD, NEW),
    (CELL,),
    Probed(PROFILE, replace(PROFILE, template_digest="new")),
    (RUN,),
)


def codes(evidence: ActivationEvidence) -> list[str]:
    """Return the codes of a verdict."""
    return [one.code for one in activation_verdict(evidence).findings]


def test_nothing_against_it_passes() -> None:
    """The evidence that every other test changes in one place."""
    assert [] == codes(GOOD)
    assert activation_verdict(GOOD).passes


LOST = replace(RUN, after=Cost(NEW, "context_policy_overflow", 5000, 4096))
NEVER = replace(LOST, before=Cost(OLD, "context_policy_overflow", 5000, 4096))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (["not_fetched"], {"found_sha256": None}),
        (["digest_differs"], {"found_sha256": "b" * 64}),
        (["app_version_out_of_range"], {"app_version": "1.9.9"}),
        ([], {"app_version": "3.0"}),
        (["app_version_out_of_range"], {"app_version": "3.0.1"}),
        ([], {"app_version": None}),
        (["app_version_unknown"], {"app_version": None, "cells": None}),
        (["app_version_unknown"], {"app_version": "2-beta"}),
        (["bounds_reversed"], {"template": replace(TEMPLATE, min_app="3.1")}),
        ([], {"template": replace(TEMPLATE, min_app="2.5", max_app="2.5"), "cells": None}),
        (["bounds_unreadable"], {"template": replace(TEMPLATE, max_app="x")}),
        (["no_target_cell"], {"cells": ()}),
        (["no_target_cell"], {"cells": (replace(CELL, bundle_digest=OTHER),)}),
        (["no_target_cell"], {"cells": (replace(CELL, app_version="4"),)}),
        ([], {"cells": (CELL, replace(CELL, app_version="4", status="uncovered"))}),
        ([], {"cells": (CELL, replace(CELL, bundle_digest=OTHER, status="uncovered"))}),
        (["uncovered_cell"], {"cells": (CELL, replace(CELL, bundle_digest=NEW, status="uncovered"))}),
        ([], {"cells": (replace(CELL, status="simulated"),)}),
        (["not_measured"], {"probed": None}),
        (["probe_refused"], {"probed": Probed(PROFILE, None, "template_rejected: no")}),
        (["not_measured"], {"runs": None}),
        (["not_measured"], {"runs": ()}),
        (["not_measured"], {"runs": (RUN, replace(RUN, after=KEPT))}),
        (["no_plan"], {"runs": (RUN, replace(LOST, sample="t"))}),
        (["nothing_planned", "no_plan"], {"runs": (LOST,)}),
        (["nothing_planned"], {"runs": (NEVER,)}),
        ([], {"runs": (RUN, replace(NEVER, sample="t"))}),
        (["nothing_planned"], {"runs": (RUN, replace(NEVER, limit="8k"))}),
        (["differs_on_renderer"], {"differences": (Differences("other", ("null_content",)),)}),
        ([], {"differences": (Differences("same", ()),)}),
    ],
)
def test_each_reason_has_its_code(expected: list[str], changes: dict[str, Any]) -> None:
    """One change, one finding; where a change is legal there is none."""
    assert expected == codes(replace(GOOD, **changes))


@given(
    old=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9)),
    new=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9)),
)
def test_exactly_the_ids_that_vanished_are_named(old: dict[str, int], new: dict[str, int]) -> None:
    """Set difference, in the order of the old prompt; new ids and other costs block nothing."""
    run = replace(RUN, before=replace(KEPT, immutable=tuple(old.items())),
                  after=replace(RUN.after, immutable=tuple(new.items())))  # fmt: skip
    found = activation_verdict(replace(GOOD, runs=(RUN, run))).findings
    gone = tuple(name for name in old if name not in new)
    assert ([("id_vanished", gone)] if gone else []) == [(one.code, one.ids) for one in found]


CARRIED = [one.name for one in fields(TemplateProfile) if one.type == "Carried"]
ORDER = {"kept": 2, "dropped": 1, "raises": 0}


@given(data=st.data())
def test_a_template_that_carries_less_is_named_field_by_field(data: st.DataObject) -> None:
    """Kept is better than dropped, dropped than raised on; old reasoning is the template's own choice."""
    before, after = ({name: data.draw(st.sampled_from(sorted(ORDER))) for name in CARRIED} for _ in range(2))
    worse = {name for name in CARRIED if ORDER[after[name]] < ORDER[before[name]]} - {"old_reasoning"}
    evidence = replace(GOOD, probed=Probed(replace(PROFILE, **before), replace(PROFILE, **after)))
    found = [one for one in activation_verdict(evidence).findings if one.code == "carries_less"]
    assert worse == {name for one in found for name in one.ids}


@pytest.mark.parametrize("name", ["reasoning", "reasoning_beside_text"])
def test_a_template_that_raises_on_reasoning_carries_less(name: str) -> None:
    """Passed before and raised on now is a loss, the other way a gain; so is a lost place for summaries."""
    worse = replace(PROFILE, **{name: "raises"})
    assert ["carries_less"] == codes(replace(GOOD, probed=Probed(PROFILE, worse)))
    assert [] == codes(replace(GOOD, probed=Probed(worse, PROFILE)))
    slot = replace(PROFILE, user_slot=True)
    assert ["carries_less"] == codes(replace(GOOD, probed=Probed(slot, PROFILE)))
    assert [] == codes(replace(GOOD, probed=Probed(PROFILE, slot)))


@given(status=st.sampled_from(get_args(CellStatus)), digest=st.sampled_from((OLD, NEW)))
def test_measured_means_measured_with_this_very_bundle(status: CellStatus, digest: str) -> None:
    """A cell of the bundle before counts as simulated at best; what is uncovered stays uncovered (R180, R210)."""
    cell = replace(CELL, status=status, bundle_digest=digest)
    expected = "simulated" if (status, digest) == ("measured", OLD) else status
    assert [expected] == [one.status for one in target_cells(replace(GOOD, cells=(cell,)))]


VERSIONS = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@given(low=VERSIONS, here=VERSIONS, high=VERSIONS)
def test_bounds_compare_numbers_and_not_letters(low: list[int], here: list[int], high: list[int]) -> None:
    """Against a comparison of padded lists: 2 is 2.0, and 1.10 comes after 1.9."""
    low4, here4, high4 = (one + [0] * (4 - len(one)) for one in (low, here, high))
    least, version, most = (".".join(map(str, one)) for one in (low, here, high))
    assert (low4 <= here4 <= high4) == (outside(version, (least, most)) is None)
    assert (low4 <= here4) == (outside(version, (least, None)) is None)


@pytest.mark.parametrize("text", ["", "v1", "1.", "1..2", "1.2-beta", "1.2.3.4.5.6.7", "١", "1" * 10])
def test_what_is_no_list_of_numbers_is_not_compared(text: str) -> None:
    """Nothing is guessed of a version with letters in it."""
    assert version_key(text) is None
    assert "app_version_unknown" == outside(text, ("1", None))
    assert outside(text, (None, None)) is None


@pytest.mark.parametrize("one", [module, app_version, activation])
def test_examples_of_the_modules_hold(one: object) -> None:
    """Each docstring's example is run."""
    found = doctest.testmod(one)  # type: ignore[arg-type]
    assert (True, 0) == (found.attempted > 0, found.failed)
