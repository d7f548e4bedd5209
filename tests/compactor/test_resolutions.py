"""A dispute ends by the application's event alone, and the next summary is built with what it says (R156)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Saved
from planner.values.passage import Claims, Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import PlanRequest
from planner.values.resolution import FactDecision
from planner.values.turn import Message
from planner.wire.dump import dump_receipt
from tests.compactor.support import CHAT, Answer, Script, compactor, fill, kept_summaries, plan, request

SAID = "The torque of the stem is 5 Nm."
REPLACE = FactDecision("torque", "replace", "user", "click-1", "6 Nm", "The torque of the stem is six.", "sheet")
KEEP = FactDecision("torque", "keep", "rule", "rule-9", "6 Nm")


def keyed(answer: str) -> str:
    """Return an answer in which every sentence about the torque has its key and value."""
    found = json.loads(answer)
    for entry in (*found["decisions"], *found["evidence"]):
        stated = re.search(r"torque of the stem is ([0-9] Nm)", entry["text"])
        if stated:
            entry |= {"fact_key": "torque", "fact_value": stated[1]}
    return json.dumps(found)


def say(ledger: Ledger, name: str, text: str) -> None:
    """Append a completed turn."""
    messages = [Message("user", f"u{name}", text), Message("assistant", f"a{name}", "Noted.")]
    ledger.append(CHAT, f"t{name}", messages, state="completed")


def talk(ledger: Ledger) -> None:
    """Make a conversation of which an old turn states a fact, and summarise it."""
    fill(ledger, 1)
    say(ledger, "-stem", SAID)
    fill(ledger, 5, start=1)
    summarised(ledger)


def summarised(ledger: Ledger, **script: Any) -> list[str]:
    """Compact what may be compacted; return how each run ended."""
    done = compactor(ledger, tail_turns=2).run(Script(spoil=keyed, **script))
    return [one.status if isinstance(one, Saved) else one.reason for one in done]


def asked(window: int = 60_000, value: str = "6 Nm") -> PlanRequest:
    """Return a request with an authoritative passage about the torque."""
    source = Passage("sheet", "The sheet tells.", 0.9, "acme", "norms", Source("press", 1), fact_key="torque",
                     fact_value=value)  # fmt: skip
    return request(window, passages=(source,), claims=Claims("acme", ("norms",), ("press",)))


def disputes(answer: Plan | Refusal) -> list[tuple[str, str | None]]:
    """Return fact key and passage of every dispute on the receipt."""
    assert isinstance(answer, Plan), answer
    assert ("conflict/" in " ".join(answer.kept)) == bool(answer.receipt.disputes)
    return [(one.fact_key, one.citation_id) for one in answer.receipt.disputes]


def stated(ledger: Ledger) -> tuple[Any, ...]:
    """Return version, text and facts of the summary in use."""
    (record,) = ledger.view(CHAT).summaries
    facts = [(one.fact_value, one.confirmation_id, one.rejected_values) for one in record.confirmed_facts
             if one.fact_key == "torque"]  # fmt: skip
    return record.summary_version, record.summary_text, facts


@pytest.mark.parametrize("given", [REPLACE, KEEP], ids=["replace", "keep"])
def test_R156_dispute_resolved_outside(ledger: Ledger, given: FactDecision) -> None:
    """Disputed at every plan until the event; then raw turns, then a new version with the value that was decided."""
    talk(ledger)
    for _ in range(2):
        assert [("torque", "sheet")] == disputes(plan(ledger, asked()))
    done = ledger.resolve_fact(CHAT, given)
    assert done.changed
    between = plan(ledger, asked())
    assert ([], [], False) == (disputes(between), kept_summaries(between), "confirmed earlier" in str(between.prompt))
    assert [("fact_resolved", ("torque",))] == [(one.cause, one.ids) for one in between.receipt.summaries]
    assert ["fact_resolved"] == [one.staleness.cause for one in ledger.invalidations(CHAT)]
    assert ["accepted"] == summarised(ledger)
    version, text, facts = stated(ledger)
    wanted = {"replace": ("6 Nm", "click-1", ("5 Nm",)), "keep": ("5 Nm", "rule-9", ("6 Nm",))}[given.decision]
    assert (2, [wanted]) == (version, facts)
    assert (SAID in text, "The torque of the stem is six. [sheet]" in text) == (given is KEEP, given is REPLACE)
    after = plan(ledger, asked(2_400))
    assert isinstance(after, Plan)
    assert ([], 1) == (disputes(after), len(kept_summaries(after)))
    assert 0 == after.account.conflict_tokens
    assert b"Nm" not in dump_receipt(after.receipt)
    assert () == ledger.verify().problems


@pytest.mark.parametrize("given", [REPLACE, KEEP], ids=["replace", "keep"])
def test_a_third_value_is_a_new_dispute_and_a_rejected_one_never_again(ledger: Ledger, given: FactDecision) -> None:
    """What was decided is decided about these two values, and every later decision adds to it."""
    talk(ledger)
    ledger.resolve_fact(CHAT, given)
    assert ["accepted"] == summarised(ledger)
    assert [] == disputes(plan(ledger, asked(value="5 Nm")))
    assert [("torque", "sheet")] == disputes(plan(ledger, asked(value="7 Nm")))
    ledger.resolve_fact(CHAT, FactDecision("torque", "keep", "user", "click-2", "7 Nm"))
    assert ["accepted"] == summarised(ledger)
    for value in ("5 Nm", "6 Nm", "7 Nm"):
        assert [] == disputes(plan(ledger, asked(value=value)))


def test_a_decision_taken_while_the_model_writes_makes_its_answer_stale(ledger: Ledger) -> None:
    """The answer rests on what was in dispute; the next one is written with the end of it."""
    fill(ledger, 1)
    say(ledger, "-stem", SAID)
    fill(ledger, 5, start=1)
    made = compactor(ledger, tail_turns=2)
    first = made.run(Script(spoil=keyed))[0]
    assert isinstance(first, Saved)
    ledger.edit(CHAT, "u3", Message("user", None, "Please use paint 33 for frame 3."))
    script = Script(spoil=keyed, before=lambda: ledger.resolve_fact(CHAT, REPLACE))
    (late,) = made.run(script)
    assert ("stale-source", "fact_resolved", "torque") == (late.status, late.cause, late.causing_id)  # type: ignore[union-attr]
    assert "Settled" not in script.asked[0].messages[1]["content"]
    again = Script(spoil=keyed)
    assert ["accepted"] == [one.status for one in made.run(again) if isinstance(one, Saved)]
    assert "Settled\ntorque:\n  The torque of the stem is six.\n" in again.asked[0].messages[1]["content"]


def test_what_the_user_says_or_changes_later_is_not_governed(ledger: Ledger) -> None:
    """A decision rules over the words of its time: newer ones are a fact of their own, disputed anew."""
    talk(ledger)
    ledger.resolve_fact(CHAT, KEEP)
    ledger.edit(CHAT, "u-stem", Message("user", None, "The torque of the stem is 8 Nm."))
    assert ["accepted"] == summarised(ledger)
    assert [("8 Nm", None, ())] == stated(ledger)[2]
    assert [("torque", "sheet")] == disputes(plan(ledger, asked()))
    say(ledger, "-later", "The torque of the stem is 4 Nm.")
    fill(ledger, 4, start=6)
    assert ["accepted"] == summarised(ledger)
    values = {fact.fact_value for one in ledger.view(CHAT).summaries for fact in one.confirmed_facts if fact.fact_key}
    assert {"8 Nm", "4 Nm"} == values


def test_a_model_that_drops_the_fact_does_not_drop_the_decision(ledger: Ledger) -> None:
    """The sentence of the application stands in the new version, whatever the model left out."""
    talk(ledger)
    ledger.resolve_fact(CHAT, REPLACE)

    def silent(answer: str) -> str:
        found = json.loads(answer)
        found["evidence"] = [entry for entry in found["evidence"] if "torque" not in entry["text"]]
        return json.dumps(found)

    done = compactor(ledger, tail_turns=2).run(Script(spoil=silent))
    assert ["accepted"] == [one.status for one in done if isinstance(one, Saved)]
    assert [("6 Nm", "click-1", ("5 Nm",))] == stated(ledger)[2]
    assert "Known: The torque of the stem is six. [sheet]" in stated(ledger)[1]


def test_what_the_prompt_says_of_settled_facts_can_be_obeyed(ledger: Ledger) -> None:
    """No message says the value that was decided, so the prompt asks to leave the fact out and not to state it."""
    talk(ledger)
    ledger.resolve_fact(CHAT, REPLACE)
    script = Script()

    def obedient(answer: str) -> str:
        told = script.asked[-1].messages[0]["content"]
        assert "leave it out" in told
        assert "State it" not in told
        found = json.loads(answer)
        found["evidence"] = [entry for entry in found["evidence"] if "torque" not in entry["text"]]
        return json.dumps(found)

    script.spoil = obedient
    (done,) = compactor(ledger, tail_turns=2).run(script)
    assert isinstance(done, Saved)
    assert [("6 Nm", "click-1", ("5 Nm",))] == stated(ledger)[2]


def test_a_model_told_the_keys_of_passages_lets_a_dispute_be_found(ledger: Ledger) -> None:
    """R155 end to end: the key is the application's, told in the prompt; the next prompt names the keys in use."""

    def by_prompt(text: str) -> str:
        head = script.asked[-1].messages[1]["content"].partition("Messages\n")[0].splitlines()
        key = head[head.index("Fact keys") + 1]
        return keyed(text).replace('"fact_key": "torque"', f'"fact_key": "{key}"')

    script = Script(spoil=by_prompt)
    fill(ledger, 1)
    say(ledger, "-stem", SAID)
    fill(ledger, 5, start=1)
    compactor(ledger, tail_turns=2, fact_keys=("stem.torque",)).run(script)
    passage = replace(asked().passages[0], fact_key="stem.torque")
    assert [("stem.torque", "sheet")] == disputes(plan(ledger, replace(asked(), passages=(passage,))))
    fill(ledger, 4, start=6)
    later = Script()
    compactor(ledger, tail_turns=2, fact_keys=("mass",)).run(later)
    assert "\nFact keys\nmass\nstem.torque\nMessages\n" in later.asked[0].messages[1]["content"]


def test_a_summary_from_before_the_decision_is_not_adopted_again(ledger: Ledger) -> None:
    """Verified in full in a later generation it does not show the decision, so it stays stale."""
    talk(ledger)
    (old,) = ledger.view(CHAT).summaries
    ledger.resolve_fact(CHAT, KEEP)
    ledger.new_generation(CHAT)
    found = compactor(ledger, tail_turns=2).readopt(old.id)
    assert ("fact_resolved", "torque") == (found.cause, found.causing_id)  # type: ignore[union-attr]


def test_a_plan_made_meanwhile_is_stored_by_its_generation(ledger: Ledger) -> None:
    """A decision moves the revision, not the generation: the plan before it stands, one of an old generation not."""
    talk(ledger)
    before = ledger.head(CHAT)
    ledger.resolve_fact(CHAT, KEEP)
    after = ledger.head(CHAT)
    assert (before.revision + 1, before.generation) == (after.revision, after.generation)
    ledger.new_generation(CHAT)
    with pytest.raises(PlannerFault, match="stale_generation"):
        ledger.resolve_fact(CHAT, REPLACE, generation=before.generation)


def test_the_answer_type_of_a_script_is_what_a_server_gives() -> None:
    """Keyed answers stay answers: only two keys are added."""
    plain = json.dumps({"decisions": [], "evidence": [{"text": SAID, "sources": ["m1"]}]})
    assert {"fact_key", "fact_value", "text", "sources"} == json.loads(Answer(keyed(plain)).text)["evidence"][0].keys()
