"""Summaries in lifecycle scripts: stored, kept over a kill, voided by what changes their turns, or too late (R181)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate import lifecycle
from planner.gate.cells import run_cell
from planner.gate.checks_state import check_summaries
from planner.gate.lifecycle import Played
from planner.gate.limits import AS_ASKED, request_of
from planner.gate.reading import read_samples
from planner.values.gate import CellResult, Event, Expectation, Reason, Sample
from planner.values.plan import Plan
from planner.values.reasons import RefusalSignal
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn
from planner.wire.dump import dump_record
from tests.gate.gate_support import cell, subject
from tools.gate_samples.parts import asked, summary, talks

TURNS = talks(30)
COVERED = TURNS[:22]
PLAN = Event("plan")
STORE = Event("summary", {"id": "s1"})
ASK = Event("ask_summary", {"id": "s1"})
EDIT = Event("edit", {"message": "u3", "text": "Who has the key?"})


def script(*events: Event, records: tuple[SummaryRecord, ...] = (), **fields: Any) -> Sample:
    """Return a script over thirty turns in half of the room they need; by default s1 stands for the first 22."""
    request = asked(TURNS, summaries=records or (summary(COVERED, TURNS),), **fields)
    return Sample("summaries", "lifecycle", request, Expectation(), "half", events)


def told(*events: Event, **given: Any) -> tuple[CellResult, list[list[tuple[str, str, str | None]]]]:
    """Return the cell, and what each plan says of its summaries: id, fate and cause."""
    found = run_cell(cell(script(*events, **given)), subject())
    return found, [[(use.id, use.fate, use.cause) for use in one.summaries] for one in found.receipts]


def test_a_stored_summary_stands_for_its_turns_before_and_after_a_kill() -> None:
    """Before it is stored the plan is of raw turns; then it stands, and the turns it covers do not."""
    found, fates = told(PLAN, STORE, PLAN, Event("kill"), PLAN, Event("rotate"), PLAN)
    assert ("pass", [[], *[[("s1", "used", None)]] * 3]) == (found.verdict, fates)
    covered = {f"turn/{turn.id}" for turn in COVERED}
    assert [False, True, True, True] == [covered.isdisjoint(one.kept) for one in found.receipts]


def test_a_sample_may_leave_the_sequences_of_messages_out() -> None:
    """Then they follow from the turn's, as in any request, and a turn without a message has its place too."""
    gone = Turn("gone", TURNS[21].sequence + 5, "cancelled", ())
    plain = [replace(turn, messages=tuple(replace(one, sequence=None) for one in turn.messages)) for turn in TURNS]
    turns = (*plain[:22], gone, *plain[22:])
    one = script(STORE, PLAN)
    sample = replace(one, request=replace(one.request, turns=turns, summaries=(summary(tuple(plain[:22]), turns),)))
    found = run_cell(cell(sample), subject())
    assert ("pass", ["used"]) == (found.verdict, [use.fate for use in found.receipts[0].summaries])


CHANGES: dict[str, tuple[Event, str | None]] = {
    "edit": (EDIT, "source_changed"),
    "withdraw": (Event("withdraw", {"turn": "t4"}), "source_missing"),
    "resend": (Event("resend", {"turn": "t20"}), "source_missing"),
    "edit behind it": (Event("edit", {"message": "u25", "text": "Who?"}), None),
    "withdraw behind it": (Event("withdraw", {"turn": "t24"}), None),
    "branch behind it": (Event("branch", {"at": "t26"}), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_R181_lifecycle_survival_of_summaries(name: str) -> None:
    """What changes a source makes it stale, also for the process after the next kill, and nothing else does."""
    event, cause = CHANGES[name]
    found, fates = told(STORE, PLAN, event, PLAN, Event("kill"), PLAN)
    after = ("s1", "used" if cause is None else "stale-source", cause)
    assert ("pass", [[("s1", "used", None)], [after], [after]]) == (found.verdict, fates)
    assert (cause is None) == ("summary/s1" in found.receipts[-1].kept)


def test_a_branch_before_its_end_has_no_such_summary() -> None:
    """A branch may adopt only what ends before the branch point (X11)."""
    found, fates = told(STORE, PLAN, Event("branch", {"at": "t5"}), PLAN)
    assert ("pass", [[("s1", "used", None)], []]) == (found.verdict, fates)


@pytest.mark.parametrize("between", ["edit", "withdraw", "resend", "branch behind it"])
def test_a_summary_that_comes_too_late_is_not_stored(between: str) -> None:
    """Asked for, then its source or the generation moved: stale-source, and the plan is of raw turns (R53, R116)."""
    late = Event("summary", {"id": "s1", "saved": "stale-source"})
    found, fates = told(ASK, CHANGES[between][0], late, PLAN, Event("kill"), PLAN)
    assert ("pass", [[], []]) == (found.verdict, fates)
    wrong, _ = told(ASK, CHANGES[between][0], STORE, PLAN)
    assert (Reason("lifecycle_broken", "event 2 summary"),) == wrong.reasons


def test_what_was_appended_or_changed_elsewhere_does_not_make_it_late() -> None:
    """Only its own turns count."""
    found, fates = told(ASK, CHANGES["edit behind it"][0], STORE, PLAN)
    assert ("pass", [[("s1", "used", None)]]) == (found.verdict, fates)


def records() -> Iterator[tuple[str, SummaryRecord, str]]:
    """Give records that may not be stored, with how that ends."""
    good = summary(COVERED, TURNS)
    yield "another conversation", replace(good, conversation_id="other"), "stale-source"
    yield "another fingerprint", replace(good, source_fingerprint="1" * 64), "stale-source"
    yield "another source", replace(good, source_ids=(*good.source_ids[:-1], "u25")), "stale-source"
    yield "no words", replace(good, summary_text=" "), "invalid-summary"


@pytest.mark.parametrize(("record", "saved"), [(one, saved) for _, one, saved in records()],
                         ids=[name for name, _, _ in records()])  # fmt: skip
def test_a_record_that_was_never_true_is_not_stored(record: SummaryRecord, saved: str) -> None:
    """It is verified like any other answer of a model."""
    found, fates = told(Event("summary", {"id": "s1", "saved": saved}), PLAN, records=(record,))
    assert ("pass", [[]]) == (found.verdict, fates)
    wrong, _ = told(STORE, PLAN, records=(record,))
    assert (Reason("lifecycle_broken", "event 0 summary"),) == wrong.reasons


def test_a_summary_of_older_versions_is_stored_and_stale_for_a_plan_of_newer_ones() -> None:
    """It was true when it was made (X13)."""
    found, fates = told(STORE, PLAN, policy_version="desk-4")
    assert ("pass", [[("s1", "stale-source", "policy_version")]]) == (found.verdict, fates)
    old = replace(summary(COVERED, TURNS), strategy_version="0")
    found, fates = told(STORE, PLAN, records=(old,))
    assert ("pass", [[("s1", "stale-source", "strategy_version")]]) == (found.verdict, fates)


def test_two_summaries_have_fates_of_their_own() -> None:
    """Each stands for its turns; a change in one leaves the other."""
    two = (summary(TURNS[:12], TURNS), summary(TURNS[12:22], TURNS, "s2"))
    found, fates = told(STORE, Event("summary", {"id": "s2"}), PLAN, EDIT, PLAN, records=two)
    assert ("pass", {"s1": "used", "s2": "used"}) == (found.verdict, {name: fate for name, fate, _ in fates[0]})
    assert "stale-source" == {name: fate for name, fate, _ in fates[1]}["s1"]


def played(*events: Event) -> Played:
    """Return the last plan of a script."""
    one = script(*events)
    request = request_of(one, AS_ASKED, subject().plan, model_bundle_id="reference")
    assert request is not None
    plans, broken = lifecycle.play(one, request, subject())  # type: ignore[arg-type]  # no refusal: it fits
    assert [] == broken
    return plans[-1]


def test_a_stale_summary_is_named_when_a_plan_claims_it() -> None:
    """The receipt's word is compared with the turns of the ledger: used, another cause, and not listed at all."""
    last = played(STORE, EDIT, PLAN)
    assert isinstance(last.answer, Plan)
    assert [] == list(check_summaries(last.request, last.answer, last.stale))
    (use,) = last.answer.receipt.summaries
    lies = {
        "stale_summary_used": (replace(use, fate="used"),),
        "summary_fate_differs": (replace(use, cause="policy_version"),),
    }
    for code, uses in (*lies.items(), ("summary_fate_differs", ())):
        lied = replace(last.answer, receipt=replace(last.answer.receipt, summaries=uses))
        assert code in {one.code for one in check_summaries(last.request, lied, last.stale)}


@pytest.mark.parametrize(
    "event", [
        {"kind": "summary", "fields": {}}, {"kind": "summary", "fields": {"id": 1}},
        {"kind": "summary", "fields": {"id": ["s1"]}},
        {"kind": "summary", "fields": {"id": "s1", "saved": "secret"}},
        {"kind": "summary", "fields": {"id": "s1", "saved": ["accepted"]}},
        {"kind": "ask_summary", "fields": {"id": "s1", "saved": "accepted"}},
    ],
)  # fmt: skip
def test_a_step_with_other_fields_is_refused_when_it_is_read(tmp_path: Path, event: dict[str, Any]) -> None:
    """The file is named, no value of it; so is one whose summary no step stores."""
    tree = json.loads(dump_record(script(STORE, PLAN)))
    (tmp_path / "lifecycle").mkdir()
    path = tmp_path / "lifecycle" / "one.json"
    path.write_text(json.dumps(tree))
    assert [STORE, PLAN] == list(next(read_samples(tmp_path)).events)
    path.write_text(json.dumps(tree | {"events": [*tree["events"], event]}))
    with pytest.raises(RefusalSignal, match=r"lifecycle/one\.json") as found:
        list(read_samples(tmp_path))
    assert ("invalid-input", True) == (found.value.reason, "secret" not in found.value.detail)
    path.write_text(json.dumps(tree | {"events": [tree["events"][1]]}))
    with pytest.raises(RefusalSignal, match=r"lifecycle/one\.json: \$\.request\.summaries"):
        list(read_samples(tmp_path))


def test_a_step_that_names_no_summary_of_the_request_is_broken() -> None:
    """Like any other step about something that is not there."""
    found, _ = told(STORE, Event("summary", {"id": "s9"}), PLAN)
    assert Reason("lifecycle_broken", "event 1 summary") in found.reasons
