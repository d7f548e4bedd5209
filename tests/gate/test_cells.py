"""Cells and the verdict over them, on the embedded bundle."""

from __future__ import annotations

from dataclasses import replace

from planner.gate.cells import cells_of, run_cell
from planner.gate.codes import GATE_CODES
from planner.gate.verdict import Tally
from planner.values.gate import FAMILIES, Event, Expectation, Reason
from tests.gate.gate_support import asked, candidate, cell, sample, subject, turns


def test_the_limit_to_the_token_keeps_everything_and_one_less_does_not() -> None:
    """`exact` is the smallest limit in which nothing leaves (R38, X3)."""
    exact = run_cell(cell(sample(boundary="exact", expect=Expectation(reduced=False))), subject())
    over = run_cell(cell(sample(boundary="one_over", expect=Expectation(reduced=True))), subject())
    assert ("pass", 0) == (exact.verdict, exact.account and exact.account.headroom_tokens)
    assert "pass" == over.verdict
    assert exact.account is not None
    assert over.account is not None
    assert exact.account.input_limit == over.account.input_limit + 1


def test_an_answer_the_sample_does_not_demand_blocks() -> None:
    """A refusal where a plan is demanded, something absent that must be there, something there that must not."""
    tiny = sample(request=asked(max_input_tokens=70))
    assert (Reason("outcome_differs", "context_policy_overflow"),) == run_cell(cell(tiny), subject()).reasons
    odd = sample(expect=Expectation(kept=("turn/t9",), absent=("turn/t1",), reduced=True))
    assert {"expected_missing", "unwanted_present", "reduction_differs"} == {
        reason.code for reason in run_cell(cell(odd), subject()).reasons
    }


def test_a_script_is_played_on_a_ledger() -> None:
    """Killed, rotated and restored the conversation is the same; a resend begins a new generation (X11, X12)."""
    events = (
        Event("plan"), Event("kill"), Event("plan"), Event("rotate"), Event("restore"), Event("plan"),
        Event("resend", {"turn": "t6"}), Event("late_answer", {"generation": 1}),
        Event("plan", {"absent": ("turn/t6",), "kept": ("turn/t5",)}),
    )  # fmt: skip
    played = run_cell(cell(sample(family="lifecycle", events=events, request=asked(max_input_tokens=2000))), subject())
    assert ("pass", ()) == (played.verdict, played.reasons)
    assert 4 == len(played.receipts)
    assert [1, 1, 1, 2] == [receipt.generation for receipt in played.receipts]


def test_a_step_that_ends_otherwise_is_named() -> None:
    """An answer of the current generation is no late one, and an unknown kind of event is no step."""
    for event in (Event("late_answer", {"generation": 1}), Event("unknown"), Event("resend", {"turn": "none"})):
        played = run_cell(
            cell(sample(family="lifecycle", events=(event, Event("plan")), request=asked(max_input_tokens=2000))),
            subject(),
        )
        assert Reason("lifecycle_broken", f"event 0 {event.kind}") in played.reasons


def test_equal_cells_have_equal_digests_and_nothing_else_has() -> None:
    """Sample, bundle, tier and every field of the candidate are in it (R190)."""
    one = cell(sample())
    others = [
        cell(sample("s2")), cell(sample(request=asked(turns=turns(5)))), replace(one, tier="4k"),
        replace(one, bundle_digest="1" * 64), cell(sample(), app_version="1.1"),
    ]  # fmt: skip
    assert one.digest == cell(sample()).digest
    assert len(others) + 1 == len({one.digest, *(other.digest for other in others)})


def test_R191_gate_six_families() -> None:
    """A bundle that lacks a family is blocked for it, one by one."""
    made = candidate()
    bundles = [("reference", made.bundle_digests[0])]
    for missing in (*FAMILIES, None):
        samples = [sample(family, family=family) for family in FAMILIES if family != missing]
        tally = Tally(made, bundles)
        for one in cells_of(samples, bundles, ["4k"], made):
            tally.add(run_cell(one, subject()))
        result = tally.result()
        expected = () if missing is None else (Reason("family_missing", f"{missing} on reference"),)
        assert (expected, "pass" if missing is None else "block") == (result.reasons, result.verdict)
    # Samples of one bundle say nothing of another one.
    two = candidate(bundle_digests=(*made.bundle_digests, "1" * 64))
    tally = Tally(two, [*bundles, ("other", "1" * 64)])
    for one in cells_of([sample(family, family=family) for family in FAMILIES], bundles, ["4k"], two):
        tally.add(run_cell(one, subject()))
    assert tuple(Reason("family_missing", f"{family} on other") for family in FAMILIES) == tally.result().reasons


def test_every_reason_of_the_table_is_named_once() -> None:
    """Codes are unique and each says what to do."""
    assert all(row.meaning.endswith(".") and row.remedy.endswith(".") for row in GATE_CODES.values())
