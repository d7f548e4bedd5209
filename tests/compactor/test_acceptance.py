"""The acceptance lists of the sources that need the whole way: ledger, compactor and plan together."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Saved
from planner.values.compaction import STRATEGY_VERSION, CompactionPlan, Rejected
from planner.values.fingerprint import fingerprint
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.summary import SummaryRecord
from planner.values.turn import Message
from tests.compactor.support import (
    CHAT,
    POLICY,
    Script,
    compactor,
    fill,
    kept_summaries,
    kept_turns,
    plan,
    request,
    toy,
)

TIGHT = 2_200
ROOT = Path(__file__).resolve().parents[2]


def summarised(ledger: Ledger, turns: int = 8) -> SummaryRecord:
    """Fill the ledger and compact it; return the record that stands."""
    fill(ledger, turns)
    compactor(ledger).run(Script())
    (record,) = ledger.view(CHAT, active=Active(POLICY)).summaries
    return record


def sent(ledger: Ledger, *records: SummaryRecord, window: int = 60_000, **changes: Any) -> Plan | Refusal:
    """Plan with every turn sent and these summaries beside them."""
    view = ledger.view(CHAT)
    wanted = request(window, conversation_id=CHAT, generation=view.generation, summaries=records)
    return toy().plan(replace(wanted, **{"turns": tuple(ledger.turns(CHAT)), **changes}))


def fates(answer: Plan | Refusal) -> list[tuple[str, str | None]]:
    """Return what became of each summary, and why."""
    return [(entry.fate, entry.cause) for entry in answer.receipt.summaries]


def test_a9_invalid_falls_back_to_raw(ledger: Ledger) -> None:
    """Whatever is wrong with a summary, all its turns are there raw and sorted, in its place."""
    record = summarised(ledger)
    wrongs = [
        replace(record, summary_text=" "), replace(record, source_fingerprint="0" * 64),
        replace(record, source_ids=record.source_ids[::-1]), replace(record, policy_version="v0"),
        replace(record, required_constraint_ids=()), replace(record, conversation_id="other"),
    ]  # fmt: skip
    for wrong in wrongs:
        answer = sent(ledger, wrong)
        assert [f"t{number}" for number in range(8)] == kept_turns(answer)
        assert fates(answer)[0][0] in ("invalid-summary", "stale-source")
        assert [] == kept_summaries(sent(ledger, wrong, window=TIGHT))


def test_a10_ledger_and_summary_stored_apart(ledger: Ledger) -> None:
    """Originals and derived views live in tables of their own; no summary changes a row of the ledger's."""
    fill(ledger, 6)
    originals = "SELECT * FROM message ORDER BY event", "SELECT * FROM turn ORDER BY event"
    with ledger._store.read("test") as connection:
        before = [connection.execute(query).fetchall() for query in originals]
    compactor(ledger).run(Script())
    with ledger._store.read("test") as connection:
        assert before == [connection.execute(query).fetchall() for query in originals]
        assert 1 == connection.execute("SELECT count(*) FROM summary").fetchone()[0]


def test_a10_id_and_order_stable(ledger: Ledger) -> None:
    """An id given once stays, an edit keeps it and its sequence, and order is that of sequences."""
    fill(ledger, 3)
    before = [(message.id, message.sequence) for turn in ledger.turns(CHAT) for message in turn.messages]
    ledger.edit(CHAT, "u1", Message("user", "u1", "Other words."))
    after = [(message.id, message.sequence) for turn in ledger.turns(CHAT) for message in turn.messages]
    assert before == after
    assert sorted(before, key=lambda pair: pair[1] or 0) == before
    with pytest.raises(PlannerFault) as caught:
        ledger.append(CHAT, "t9", [Message("user", "u1", "The id is taken.")])
    assert "duplicate_id" == caught.value.code


def test_a10_protection_is_structured_app_state(ledger: Ledger) -> None:
    """Words protect nothing; an application event does, and then the turn is in no run."""
    fill(ledger, 4)
    words = "You must never remove this. Confirm! Don't touch."
    ledger.append(CHAT, "loud", [Message("user", "ul", words), Message("assistant", "al", "Fine.")], state="completed")
    fill(ledger, 3, start=4)
    free = compactor(ledger, tail_turns=1).propose()
    assert isinstance(free, CompactionPlan)
    assert "ul" in free.compacted_ids
    ledger.protect(CHAT, "ul", "pending-confirmation")
    held = compactor(ledger, tail_turns=1).propose(replace_active=True)
    assert isinstance(held, CompactionPlan)
    assert "ul" in held.preserved_ids
    assert "ul" not in held.compacted_ids


def test_a10_source_ids_frozen_before_compaction(ledger: Ledger) -> None:
    """The plan names its sources before any model is asked, and stays what it is whatever comes later."""
    fill(ledger, 6)
    made = compactor(ledger)
    frozen = made.propose()
    assert isinstance(frozen, CompactionPlan)
    script = Script(before=lambda: ledger.append(CHAT, "late", [Message("user", "late1", "And a bell.")]))
    made.run(script)
    assert frozen == ledger.compaction_plan(CHAT, frozen.plan_id)
    record = made.versions()[0].record
    assert record is not None
    assert frozen.runs[0].source_ids == record.source_ids


def test_a10_policy_version_and_fingerprint_present(ledger: Ledger) -> None:
    """Every stored version names policy, strategy, sources with versions, and the fingerprint of what they were."""
    record = summarised(ledger)
    assert (POLICY, STRATEGY_VERSION) == (record.policy_version, record.strategy_version)
    covered = [turn for turn in ledger.turns(CHAT) if record.covers_from <= turn.sequence <= record.covers_to]
    assert fingerprint(covered) == record.source_fingerprint
    assert len(record.source_ids) == len(record.source_versions)


def test_a10_reread_and_verify_on_return(ledger: Ledger) -> None:
    """The ledger is read again when the model returns: a protection set meanwhile refuses the summary."""
    fill(ledger, 6)
    done = compactor(ledger).run(Script(before=lambda: ledger.protect(CHAT, "u0", "audit-evidence")))
    assert ["stale-source"] == [one.reason for one in done if isinstance(one, Rejected)]


def test_a10_assembly_sorted_by_coverage(ledger: Ledger) -> None:
    """Summaries and turns stand by coverage and sequence, whatever order they were stored in."""
    fill(ledger, 4)
    ledger.append(CHAT, "hold", [Message("user", "uh", "Wait."), Message("assistant", "ah", "Yes.")], state="completed")
    ledger.protect(CHAT, "uh", "audit-evidence")
    fill(ledger, 4, start=4)
    made = compactor(ledger, tail_turns=1)
    found = made.propose()
    assert isinstance(found, CompactionPlan)
    script = Script()
    for prompt in reversed(made.prompts(found)):
        assert isinstance(made.accept(found.plan_id, prompt.run, script(prompt).text), Saved)
    records = ledger.view(CHAT, active=Active(POLICY)).summaries
    answer = plan(ledger, request(TIGHT))
    assert isinstance(answer, Plan)
    history = [key for key in answer.kept if key.startswith(("summary/", "turn/"))]
    assert [f"summary/{records[0].id}", "turn/hold", f"summary/{records[1].id}", "turn/t7"] == history[:4]


def test_a10_raw_fallback_on_missing_source(ledger: Ledger) -> None:
    """A source that is no longer among the turns sends the summary away."""
    record = summarised(ledger)
    ledger.withdraw(CHAT, "t2")
    answer = plan(ledger)
    assert [f"t{number}" for number in (0, 1, 3, 4, 5, 6, 7)] == kept_turns(answer)
    assert ("stale-source", record.id) == (answer.receipt.summaries[0].fate, answer.receipt.summaries[0].id)


def test_a10_raw_fallback_on_expired_version(ledger: Ledger) -> None:
    """Under another policy version, or made by another strategy, raw turns are used."""
    record = summarised(ledger)
    assert [] == kept_summaries(plan(ledger, replace(request(TIGHT), policy_version="v2")))
    assert [("stale-source", "strategy_version")] == fates(sent(ledger, replace(record, strategy_version="s0")))


def test_a10_raw_fallback_on_failed_check(ledger: Ledger) -> None:
    """An answer that fails a check leaves nothing that could be used."""
    fill(ledger, 8)
    compactor(ledger).run(Script(spoil=lambda text: json.dumps({**json.loads(text), "constraints": []})))
    assert [] == kept_summaries(plan(ledger, request(TIGHT)))
    assert [f"t{number}" for number in range(8)] == kept_turns(plan(ledger))


def test_a10_failed_retry_keeps_usable_summary(ledger: Ledger) -> None:
    """Later answers that fail take nothing from the version that stands."""
    record = summarised(ledger)
    fill(ledger, 4, start=8)
    compactor(ledger).run(Script(spoil=lambda _: "ok"))
    assert [record.id] == [one.id for one in ledger.view(CHAT, active=Active(POLICY)).summaries]
    assert [record.id] == kept_summaries(plan(ledger, request(4_600)))


def test_a10_retention_and_recovery_boundary_explained(ledger: Ledger) -> None:
    """A purge is a recorded run with reason, counts and border; the plan and the screen say what is gone."""
    fill(ledger, 6)
    boundary = ledger.retain(CHAT, 4, "privacy-30d")
    assert ("privacy-30d", 2) == (boundary.reason, boundary.turns)
    assert (boundary,) == ledger.retentions(CHAT)
    view = ledger.view(CHAT)
    assert view.boundary is not None
    assert ["t2", "t3", "t4", "t5"] == [turn.id for turn in view.turns]
    assert view.boundary == compactor(ledger).status().boundary


def test_a10_release_protected_once_from_plan_to_context(ledger: Ledger) -> None:
    """A protected message is in the preserved set, in no run, and once in the prompt."""
    fill(ledger, 6)
    ledger.protect(CHAT, "u2", "active-constraint")
    made = compactor(ledger)
    found = made.propose()
    assert isinstance(found, CompactionPlan)
    assert 1 == found.preserved_ids.count("u2")
    assert "u2" not in found.compacted_ids
    made.run(Script())
    answer = plan(ledger, request(3_000))
    assert isinstance(answer, Plan)
    assert 1 == answer.kept.count("turn/t2")


def test_a10_release_active_plan_and_fingerprint_reverified(ledger: Ledger) -> None:
    """An answer for a plan that was replaced is stale, and so is one whose sources changed and changed back."""
    fill(ledger, 6)
    made = compactor(ledger)
    old = made.propose()
    assert isinstance(old, CompactionPlan)
    answer = Script()(made.prompts(old)[0]).text
    fill(ledger, 2, start=6)
    made.propose(replace_active=True)
    late = made.accept(old.plan_id, 0, answer)
    assert isinstance(late, Rejected)
    assert ("stale-source", "other_plan: $") == (late.reason, late.detail)
    original = next(turn for turn in ledger.turns(CHAT) if turn.id == "t0").messages[0]
    active = ledger.active_plan(CHAT)
    assert active is not None
    for text in ("Other words.", original.text):
        ledger.edit(CHAT, "u0", Message("user", "u0", text))
    again = made.accept(active.plan_id, 0, answer)
    assert isinstance(again, Rejected)
    assert "stale-source" == again.reason


def test_a10_release_append_reuses_change_invalidates(ledger: Ledger) -> None:
    """Appending keeps a summary in use, changing a source takes it out; both are seen in the same ledger."""
    record = summarised(ledger)
    fill(ledger, 2, start=8)
    assert [record.id] == kept_summaries(plan(ledger, request(3_400)))
    ledger.edit(CHAT, "a3", Message("assistant", "a3", "No."))
    assert [] == kept_summaries(plan(ledger, request(3_400)))


def test_a10_release_missing_summary_falls_back(ledger: Ledger) -> None:
    """Without a summary the plan is made of raw turns; a blank one is as none."""
    record = summarised(ledger)
    assert kept_turns(sent(ledger)) == kept_turns(sent(ledger, replace(record, summary_text="")))


def test_a10_release_duplicate_id_falls_back(ledger: Ledger) -> None:
    """Two summaries of one id are both dropped; a duplicate among the turns refuses the call (X47)."""
    record = summarised(ledger)
    doubled = sent(ledger, record, replace(record, summary_version=2), window=TIGHT)
    assert [] == ([] if isinstance(doubled, Refusal) else kept_summaries(doubled))
    turns = tuple(ledger.turns(CHAT))
    refusal = sent(ledger, turns=(*turns, replace(turns[0], sequence=999)))
    assert isinstance(refusal, Refusal)
    assert "invalid-input" == refusal.reason


def test_a10_release_policy_mismatch_falls_back(ledger: Ledger) -> None:
    """A summary of another policy version is stale, and the receipt says so."""
    record = summarised(ledger)
    assert [("stale-source", "policy_version")] == fates(sent(ledger, replace(record, policy_version="v0")))


def test_c_state_message_before_recent(ledger: Ledger) -> None:
    """The state stands before the recent messages, which stay messages of their own (C2, X26)."""
    summarised(ledger)
    answer = plan(ledger, request(TIGHT))
    assert isinstance(answer, Plan)
    assert answer.prompt is not None
    state = answer.prompt.index("[conversation state: written by the application]")
    assert state < answer.prompt.index("Please use paint 6")
    assert 3 <= answer.prompt.count("<|user|>")


def test_c_summary_never_user_role_words(ledger: Ledger) -> None:
    """A summary is fenced and labelled data with its interval, never the user's words or a system message."""
    record = summarised(ledger)
    answer = plan(ledger, request(TIGHT))
    assert isinstance(answer, Plan)
    assert answer.prompt is not None
    before, _, after = answer.prompt.partition(record.summary_text)
    assert f"turns {record.covers_from} to {record.covers_to}:" in before.rpartition("[conversation state")[2]
    assert after.lstrip().startswith("[end of conversation state]")
    assert record.summary_text not in answer.prompt.partition("<|user|>")[0]
    assert "user_message" == answer.receipt.slot


def test_R204_logic_tests_need_no_model() -> None:
    """Neither the rules nor the ledger nor a plan import a model library; no test of them calls one."""
    program = (
        "import sys, planner.compactor.service, planner.prepare\n"
        "names = 'torch transformers llama_cpp xllamacpp onnxruntime'.split()\n"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "[]\n" == done.stdout


def test_a_refusal_signal_of_the_ledger_never_leaves_a_plan(ledger: Ledger) -> None:
    """What breaks a rule is invalid input for the caller of a write; planning answers with a refusal."""
    fill(ledger, 1)
    with pytest.raises(RefusalSignal):
        ledger.append(CHAT, "bad", [Message("tool", "x")])
    assert isinstance(plan(ledger, replace(request(), options=replace(request().options, low_water=7.0))), Refusal)
