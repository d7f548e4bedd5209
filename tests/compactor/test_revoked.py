"""Compaction after a right was withdrawn: before the plan, before the call, before the answer, and afterwards (X39)."""

from __future__ import annotations

from typing import Any

import pytest

from planner.compactor.service import Compactor
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.admission import Rights
from planner.values.compaction import CompactionPlan, Rejected, Unplanned
from planner.values.passage import Citation, Claims, Source
from planner.values.turn import Message
from tests.compactor.support import CHAT, Script, compactor, fill

CANARY = "the hull number is 44-17"
GONE = Rights(revoked=("file",))
CLAIMS = Claims("acme", ("norms",), ("press",))
FILE = Citation("file", "acme", "norms", Source("press"), None, "2030-01-01T00:00:00Z")


def made(ledger: Ledger, rights: Rights | None = None, **choices: Any) -> Compactor:
    """Return a compactor with these rights."""
    return compactor(ledger, rights=rights, tail_turns=1, **choices)


@pytest.fixture
def citing(ledger: Ledger) -> Ledger:
    """A conversation whose third turn says what a source told."""
    fill(ledger, 2)
    ledger.append(CHAT, "tc", [
        Message("user", "uc", "Please use the file and decide."),
        Message("assistant", "ac", f"In it, {CANARY}.", citation_ids=("file",)),
    ], state="completed")  # fmt: skip
    fill(ledger, 4, start=2)
    return ledger


def plan_of(found: CompactionPlan | Unplanned) -> CompactionPlan:
    """Return the plan that must be there."""
    assert isinstance(found, CompactionPlan), found
    return found


@pytest.mark.parametrize("rights", [
    GONE,
    Rights(CLAIMS),
    Rights(CLAIMS, (FILE,), "2031-01-01T00:00:00Z"),
    Rights(Claims("acme", ("norms",), ("wiki",)), (FILE,), "2029-01-01T00:00:00Z"),
    Rights(None, (FILE,), "2029-01-01T00:00:00Z"),
], ids=["by the caller", "not described", "expired", "claims narrowed", "nobody claims it"])  # fmt: skip
def test_no_prompt_holds_what_may_not_be_used(citing: Ledger, rights: Rights) -> None:
    """The turn is in no run, its words are in no call and in no summary; with the right it is in both."""
    script = Script()
    assert {"accepted"} == {one.status for one in made(citing, rights).run(script) if isinstance(one, Saved)}
    assert not any(CANARY in message["content"] for prompt in script.asked for message in prompt.messages)
    assert not any(CANARY in str(record.summary_text) for record in citing.view(CHAT).summaries)
    allowed = Rights(CLAIMS, (FILE,), "2029-01-01T00:00:00Z")
    plan = plan_of(made(citing, allowed, merge_neighbours=True).propose())
    assert any("tc" in run.turn_ids for run in plan.runs)


def test_withdrawn_after_the_plan_it_is_not_asked_for_and_another_plan_is_made(citing: Ledger) -> None:
    """A frozen run that covers it has no call any more, and proposing goes on without it."""
    plan = plan_of(made(citing).propose())
    assert 1 == len(made(citing).prompts(plan))
    assert () == made(citing, GONE).prompts(plan)
    after = plan_of(made(citing, GONE).propose())
    assert ("turn/tc", "source_revoked") in [(one.id, one.reason) for one in after.skipped]
    assert plan.plan_id != after.plan_id
    assert after == made(citing, GONE).propose()


def test_withdrawn_while_the_model_writes_its_answer_is_stale(citing: Ledger) -> None:
    """The answer was made from it, so it is not stored, and no id is named (R159)."""
    plan = plan_of(made(citing).propose())
    (prompt,) = made(citing).prompts(plan)
    found = made(citing, GONE).accept(plan.plan_id, 0, Script()(prompt).text)
    assert Rejected("stale-source", "citation_revoked: $") == found
    assert () == citing.summaries(CHAT)


def test_withdrawn_afterwards_its_summary_covers_nothing_and_lends_no_goal(citing: Ledger) -> None:
    """The other turns of the interval are summarised again; what the summary said of the goal is not repeated."""
    made(citing, goal=f"Find {CANARY}.").run(Script())
    assert 1 == len(citing.view(CHAT).summaries)
    status = made(citing, GONE).status()
    assert ((), ["citation_revoked"]) == (status.current, [one.cause for one in status.stale])
    fill(citing, 2, start=6)
    script = Script()
    assert {"accepted"} == {one.status for one in made(citing, GONE).run(script) if isinstance(one, Saved)}
    assert not any(CANARY in message["content"] for prompt in script.asked for message in prompt.messages)
    (old, *new) = citing.summaries(CHAT)
    assert old.covers[0] == new[0].covers[0]


def test_a_summary_on_a_withdrawn_source_is_not_adopted(citing: Ledger) -> None:
    """Verified in full in a new generation, it is stale for that reason."""
    made(citing).run(Script())
    (old,) = citing.view(CHAT).summaries
    citing.new_generation(CHAT)
    found = made(citing, GONE).readopt(old.id)
    assert "citation_revoked" == found.cause  # type: ignore[union-attr]
