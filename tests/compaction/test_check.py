"""What an accepted answer may say: ids, sources, fields, literals, owners and copies (R93..R106, R110, X28, X30)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.values.compaction import Accepted, Risk
from planner.values.turn import Material, MustPreserve, ToolCall, ToolResult
from tests.compaction.answers import GOOD, LONG, TURNS, entry, flaw, more, record, verdict, with_material
from tests.compaction.chats import with_message


def test_the_good_answer_is_accepted() -> None:
    """Everything below changes one thing of an answer that passes."""
    assert isinstance(verdict(), Accepted)


# Light checks of the sources.


def test_R101_goal_not_empty() -> None:
    """A goal without a word is refused where nothing is inherited."""
    assert {"empty_goal"} == {flaw({"goal": blank}) for blank in ("", "  ", "\n", "\u3000")}


def test_c_goal_not_empty() -> None:
    """An empty goal is refused."""
    assert "empty_goal" == flaw({"goal": ""})


def test_R102_hard_constraints_not_lost() -> None:
    """A live mark of the run that is not named is refused (R99)."""
    assert "constraint_missing" == flaw({"constraints": []})


def test_c_hard_constraints_not_lost() -> None:
    """One of two marks is not enough."""
    both = (replace(TURNS[0], must_preserve=(*TURNS[0].must_preserve, MustPreserve("C2", "Matt."))), TURNS[1])
    assert "constraint_missing" == flaw(turns=both)
    assert isinstance(verdict({"constraints": [{"id": "C2"}, {"id": "C1"}]}, turns=both), Accepted)


def test_only_marks_of_the_run_are_constraints() -> None:
    """R98, R100, X45: an invented id, another spelling and a second naming are refused."""
    for wrong in ("C2", "c1", "C1 ", "immutable"):
        assert "constraint_unknown" == flaw({"constraints": [{"id": "C1"}, {"id": wrong}]})
    assert "constraint_repeated" == flaw({"constraints": [{"id": "C1"}, {"id": "C1"}]})


def test_a_withdrawn_mark_is_neither_required_nor_allowed() -> None:
    """X45: once a later turn of the run supersedes it, naming the mark is naming an unknown one."""
    turns = (TURNS[0], replace(TURNS[1], supersedes=("C1",)))
    assert isinstance(verdict({"constraints": []}, turns=turns), Accepted)
    assert "constraint_unknown" == flaw(turns=turns)


def test_R103_open_action_has_description() -> None:
    """An action that describes nothing is refused."""
    assert {"blank_text"} == {flaw(entry("open_actions", text=text)) for text in (None, "", " ")}


def test_c_every_open_action_has_description() -> None:
    """The second action is looked at like the first."""
    assert "blank_text" == flaw(entry("open_actions", 1, text=""))


def test_R104_questions_not_in_decisions() -> None:
    """X30: the same sentence is not both, whatever its case, spaces, widths and punctuation."""
    for text in ("Is a primer needed?", "IS A  PRIMER NEEDED", "Ｉｓ a primer – needed。"):
        assert "question_and_decision" == flaw(more("decisions", text=text, sources=["m3"]))


def test_c_questions_not_in_decisions() -> None:
    """A decision that stands among the questions is refused as well."""
    assert "question_and_decision" == flaw(more("questions", text="take matt paint for 32 eur", sources=["m3"]))


def test_R105_open_action_status() -> None:
    """pending, blocked and done, in exactly this spelling."""
    assert {"action_status"} == {
        flaw(entry("open_actions", 1, status=s)) for s in (None, "", "open", "PENDING", "待办")
    }
    for status in ("pending", "blocked", "done"):
        assert isinstance(verdict(entry("open_actions", 1, status=status)), Accepted)


def test_c_status_is_pending_blocked_done() -> None:
    """Another status is refused."""
    assert "action_status" == flaw(entry("open_actions", 1, status="waiting"))


# Sources.


def test_R94_unsourced_goes_to_questions_or_evidence() -> None:
    """Without a source a statement may be a question or an action; a decision or evidence it cannot be."""
    assert "wrong_shape" == flaw(more("decisions", text="Use gloss paint."))
    assert isinstance(verdict(more("questions", text="Use gloss paint?")), Accepted)
    assert isinstance(verdict(more("open_actions", text="Use gloss paint.", status="pending")), Accepted)


def test_c_unsourced_not_in_decisions() -> None:
    """A decision without sources is refused."""
    assert "wrong_shape" == flaw(entry("decisions", sources=None))


def test_a_decision_cites_the_user() -> None:
    """X30, design.md §8: what only the assistant said or a tool returned is no decision."""
    for label in ("m2", "m4", "m5"):
        assert "decision_without_user" == flaw(more("decisions", text="Order tins.", sources=[label]))
    assert isinstance(verdict(more("decisions", text="Order tins.", sources=["m2", "m1"])), Accepted)


@pytest.mark.parametrize("label", ["m0", "m7", "m99", "M1", "u1", "m01", "", "t1"])
def test_only_labels_of_this_run_are_sources(label: str) -> None:
    """Threats 2.2: a foreign, a later and a made-up source are refused wherever they are cited."""
    for place in ("decisions", "open_actions", "questions", "evidence"):
        assert "source_unknown" == flaw(entry(place, sources=["m1", label]))


# Open items.


def test_open_items_are_echoed_with_their_status() -> None:
    """X32: an unfinished item that is missing, doubled, renamed or given another status is refused."""
    item = GOOD["open_actions"][0]
    assert "open_item_mismatch" == flaw({"open_actions": GOOD["open_actions"][1:]})
    assert "open_item_mismatch" == flaw({"open_actions": [item, item]})
    for fields in ({"id": "i9"}, {"status": "done"}, {"status": "blocked"}, {"id": "I1"}):
        assert "open_item_mismatch" == flaw(entry("open_actions", **fields))


def test_a_finished_item_may_be_named_as_finished() -> None:
    """An item the ledger calls done may be echoed as done, not as open."""
    assert isinstance(verdict(more("open_actions", text="Measure.", status="done", id="i2")), Accepted)
    assert "open_item_mismatch" == flaw(more("open_actions", text="Measure.", status="pending", id="i2"))


def test_no_open_item_appears_as_decided() -> None:
    """X30: neither by its sentence nor by its id."""
    assert "open_item_mismatch" == flaw(more("decisions", text="Pick up the paint", sources=["m3"]))
    assert "open_item_mismatch" == flaw(entry("decisions", id="i1"))


# Words.


def test_R93_precise_details_kept() -> None:
    """Numbers, units, files and owners must stand in a message the entry itself cites, letter for letter or alike."""
    assert "literal_not_cited" == flaw(entry("decisions", text="Take matt paint for 23 euro."))
    assert "literal_not_cited" == flaw(entry("decisions", text="Take matt paint for 32 dollars."))
    assert "literal_not_cited" == flaw(more("evidence", text="See stock.xls.", sources=["m6"]))
    assert isinstance(verdict(more("evidence", text="See stock.csv.", sources=["m6"])), Accepted)
    assert "literal_not_cited" == flaw(more("evidence", text="See stock.csv.", sources=["m1"]))
    assert "owner_not_cited" == flaw(entry("open_actions", owner="Nadja"))


def test_c_negation_number_filename_owner_kept() -> None:
    """What the answer says stands word for word in state and text; another number, file or owner does not."""
    for changed in ({"text": "Take matt paint for 23 EUR."}, {"text": "See stock.xls."}, {"owner": "Boris"}):
        assert flaw(entry("decisions", **changed)) in ("literal_not_cited", "owner_not_cited")
    kept = record(more("evidence", text="Do not sand it, see stock.csv.", sources=["m6"]))
    assert "Known: Do not sand it, see stock.csv." in kept.summary_text
    assert "Action (pending, Nadia): Pick up the paint." in kept.summary_text
    assert "Decided: Take matt paint for 32 EUR." in kept.summary_text


def test_goal_and_entries_without_sources_are_compared_with_the_whole_run() -> None:
    """A literal of any message will do for them, and one of none will not."""
    assert isinstance(verdict({"goal": "Paint for 32 euro."}), Accepted)
    assert "literal_not_cited" == flaw({"goal": "Paint for 33 euro."})
    assert isinstance(verdict(more("questions", text="Are 2 tins enough?")), Accepted)
    assert "literal_not_cited" == flaw(more("questions", text="Are 4 euro enough?"))


def test_calls_are_part_of_what_their_message_says() -> None:
    """The arguments of a call are shown to the model, so they may be cited."""
    assert isinstance(verdict(more("evidence", text="It asked for matt-7.", sources=["m4"])), Accepted)
    worded = with_message(TURNS[1], 1, tool_calls=(ToolCall("k2", "stock", "item matt-9"),))
    asked = more("evidence", text="It asked for matt-9.", sources=["m4"])
    assert isinstance(verdict(asked, turns=(TURNS[0], worded)), Accepted)


@pytest.mark.parametrize(
    ("owner", "text", "said"),
    [
        ("Leo", "Leo拍照", True), ("Ann", "Anne comes", False), ("ann", "Ann comes", True),
        ("Ann", "Joann comes", False),
        ("Ms  Lee", "ms lee comes", True), ("小李", "小李订餐厅", True), ("李", "小李订餐厅", True),
        ("Ann", "Joann, Ann", True),
        ("user", "I do it", True), ("assistant", "I do it", False), ("Ann", "", False), ("é", "café é", True),
    ],
)  # fmt: skip
def test_an_owner_is_a_whole_name_of_a_cited_message(owner: str, text: str, said: bool) -> None:
    """Part of a Latin word is no name; Chinese writes no spaces; a role may own what its own message says."""
    turns = (TURNS[0], with_message(TURNS[1], 0, text=f"32 euro, Nadia. {text}"))
    assert said == isinstance(verdict(entry("open_actions", owner=owner), turns=turns), Accepted)


def test_an_owner_of_an_entry_without_sources_stands_in_the_run() -> None:
    """Without sources the whole run is looked at."""
    assert isinstance(verdict(entry("open_actions", sources=None)), Accepted)
    assert "owner_not_cited" == flaw(entry("open_actions", sources=None, owner="Boris"))


def test_a_fact_value_is_a_literal_too() -> None:
    """X54: the value by which facts are compared stands in the cited message."""
    assert "literal_not_cited" == flaw(entry("evidence", fact_value="59 cm"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("blue", True), ("Blue", True), ("58cm", True), ("fifty-eight cm", True), ("green", False), ("matt", False),
        ("blue and green", False),
    ],
)  # fmt: skip
def test_a_fact_value_of_words_stands_in_a_cited_message(value: str, said: bool) -> None:
    """A value is compared letter for letter with that of a passage, so an invented one would dispute a true one."""
    assert said == isinstance(verdict(entry("evidence", fact_value=value)), Accepted)


# Conflicts and copies.


def test_R106_conflict_latest_explicit_plus_question() -> None:
    """The latest decision with the conflict as a question is accepted; the conflict as both is not."""
    turns = (TURNS[0], with_message(TURNS[1], 0, text="Take matt paint for 32 euro. No, gloss. Nadia picks it up."))
    kept = {
        "decisions": [{"text": "Take gloss paint.", "sources": ["m3"]}],
        "questions": [{"text": "Matt was named first, gloss later: is gloss final?", "sources": ["m3"]}],
    }
    found = record(kept, turns=turns)
    assert ["Take gloss paint."] == [one.text for one in found.state.decisions]
    assert "gloss final" in found.summary_text
    both = {**kept, "questions": [{"text": "Take gloss paint?", "sources": ["m3"]}]}
    assert "question_and_decision" == flaw(both, turns=turns)


def test_c_latest_decision_kept_and_conflict_asked() -> None:
    """X43: the user's latest word is the decision and the conflict a question; the assistant never overrides it."""
    turns = (TURNS[0], with_message(TURNS[1], 0, text="Take matt paint for 32 euro. No, gloss. Nadia picks it up."))
    asked = more("questions", text="Matt came first, gloss later: is gloss final?", sources=["m3"])
    kept = record({**entry("decisions", text="Take gloss paint."), **asked}, turns=turns).summary_text
    assert "Decided: Take gloss paint." in kept
    assert "Not answered: Matt came first, gloss later: is gloss final?" in kept
    assert "question_and_decision" == flaw(more("questions", text="Take matt paint for 32 EUR?"), turns=turns)
    assert "decision_without_user" == flaw(entry("decisions", text="Take gloss paint.", sources=["m6"]))


def test_c_tool_result_not_copied_whole() -> None:
    """Eighty equal characters in a row of a long result are a copy, wherever they stand; seventy-nine are none."""
    assert isinstance(verdict(more("evidence", text=LONG[:79], sources=["m5"])), Accepted)
    assert "tool_result_copied" == flaw(more("evidence", text=LONG[:80], sources=["m5"]))
    assert "tool_result_copied" == flaw(more("questions", text=f"Why {LONG[40:130]}?", sources=["m5"]))
    assert "tool_result_copied" == flaw({"goal": f"Paint. {LONG[:90]}"})
    assert "tool_result_copied" == flaw(entry("evidence", 2, excerpt=LONG[:100]))
    assert "tool_result_copied" == flaw(more("evidence", text=LONG, sources=["m5"]))


def test_a_copy_with_other_white_space_is_a_copy() -> None:
    """Line ends turned into spaces, or spaces into line ends, hide nothing; a short result may be quoted whole."""
    lines = LONG.replace("; ", "\n")
    turns = (TURNS[0], with_message(TURNS[1], 2, tool_result=ToolResult("k2", lines)))
    for text in (lines.replace("\n", " ")[:100], lines[:80], lines.replace("\n", "\n ")[:110]):
        assert "tool_result_copied" == flaw(more("evidence", text=text, sources=["m5"]), turns=turns)
    short = with_message(TURNS[1], 2, tool_result=ToolResult("k2", LONG[:200]))
    assert isinstance(verdict(more("evidence", text=LONG[:150], sources=["m5"]), turns=(TURNS[0], short)), Accepted)


def test_a_copied_table_is_a_copy() -> None:
    """Columns set apart by runs of spaces count as they are written, not only folded."""
    table = "\n".join(f"row {letter}    blue    matt    tin" for letter in "abcdefghijk")
    turns = (TURNS[0], with_message(TURNS[1], 2, tool_result=ToolResult("k2", table)))
    lists = {"evidence": [{"text": table[:80], "sources": ["m5"]}]}
    assert len(" ".join(table[:80].split())) < 80
    assert "tool_result_copied" == flaw(lists, turns=turns)
    assert "tool_result_copied" == flaw(
        {
            "evidence": [{"text": table[:79] + " tin", "sources": ["m5"]}] * 2
            + [{"text": " ".join(table.split())[:80], "sources": ["m5"]}]
        },
        turns=turns,
    )
    assert isinstance(verdict({"evidence": [{"text": table[:79], "sources": ["m5"]}]}, turns=turns), Accepted)


# Traceability.


@pytest.mark.parametrize(
    ("risk", "material", "traced"),
    [
        ("low", "chat", False), ("low", "code", False), ("low", "dispute", False), ("low", "tool_result", False),
        ("high", "chat", False), ("high", "tool_result", False), ("high", "code", True), ("high", "dispute", True),
        (None, "code", True), (None, "chat", False), ("high", None, False),
    ],
)  # fmt: skip
def test_R110_risk_decides_traceability(risk: Risk | None, material: Material | None, traced: bool) -> None:
    """X28: only high risk with code or dispute asks for an excerpt or a reference on each decision and fact."""
    turns = with_material(material)
    found = verdict(risk=risk, turns=turns)
    assert (not traced) == isinstance(found, Accepted)
    if traced:
        assert "not_traceable" == flaw(risk=risk, turns=turns)
        assert isinstance(verdict(TRACED, risk=risk, turns=turns), Accepted)


TRACED: dict[str, Any] = {
    "decisions": [{**GOOD["decisions"][0], "excerpt": "Take matt paint for 32 euro"}],
    "evidence": [{"text": "Shelf 2 holds 14 tins.", "sources": ["m5", "m6"], "archive_ref": "stock.csv"}],
}


def test_c_high_risk_keeps_ids_or_excerpt() -> None:
    """The excerpt is asked for, kept in the structure and shown, so that it is never only the model's rewording."""
    assert "not_traceable" == flaw(risk="high", turns=with_material("code"))
    found = record(TRACED, risk="high", turns=with_material("code"))
    assert ("u2",) == found.state.decisions[0].message_ids
    assert 'Decided: Take matt paint for 32 EUR. "Take matt paint for 32 euro"' in found.summary_text
    assert "Known: Shelf 2 holds 14 tins. [stock.csv]" in found.summary_text


@pytest.mark.parametrize(
    "fields",
    [
        {"excerpt": "Take gloss paint"}, {"excerpt": "take matt paint"}, {"excerpt": "Paint the frame blue"},
        {"excerpt": "Take matt paint...32 euro"}, {"archive_ref": "stock.csv"}, {"archive_ref": "inv/1"},
    ],
)  # fmt: skip
def test_a_false_quotation_is_refused_at_any_risk(fields: dict[str, str]) -> None:
    """An excerpt is a piece of a cited message letter for letter, a reference is named in one."""
    assert "not_traceable" == flaw(entry("decisions", **fields))


def test_an_excerpt_may_cross_a_line_end() -> None:
    """Line ends and runs of spaces are one space in an excerpt, nothing else is tolerated."""
    turns = (TURNS[0], with_message(TURNS[1], 0, text="Take matt\n  paint for 32 euro. Nadia picks it up."))
    assert isinstance(verdict(entry("decisions", excerpt="matt paint\nfor 32"), turns=turns), Accepted)
