"""Shorter forms beside the rules of evidence and of hidden characters (X31, X38, X54, R162)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.passage import Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest, SectionBounds, Sections
from planner.values.turn import ToolResult
from tests.evidence.support import CLAIMS, NOW
from tests.forms.common import form_names, form_requests, measured_rungs
from tests.forms.test_forms import FULL, SHORTS, asking, looked, planned, walk
from tests.laws.common import TOYS, room_of, said, toy, with_room
from tests.oracles.scan import first_fit
from tests.support.toy import ToyBundle

ZERO = "\u200b"


@st.composite
def evidence_requests(draw: st.DrawFn, bundle_id: str) -> PlanRequest:
    """Draw a request whose passages have forms, sources, equal texts and bounds; some must be cited."""
    request = draw(form_requests(bundle_id))
    passages = tuple(
        replace(
            one, text=draw(st.sampled_from((one.text, one.text, request.passages[0].text))), tenant="acme",
            dataset="manuals", source=Source(*draw(st.sampled_from((("press", 1), ("wiki", 2))))),
        )
        for one in request.passages
    )  # fmt: skip
    names = [one.citation_id for one in passages]
    groups = draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True), max_size=2)
                  if names else st.just([]))  # fmt: skip
    bounds = draw(st.sampled_from((SectionBounds(), SectionBounds(min=20), SectionBounds(max=30))))
    options = replace(
        request.options, sections=Sections(retrieval=bounds), source_share=draw(st.sampled_from((None, 0.4))),
        passage_order=draw(st.sampled_from(("value", "edges"))),
    )  # fmt: skip
    current = replace(request.request, evidence_groups=tuple(map(tuple, groups)))
    return replace(request, passages=passages, options=options, request=current, claims=CLAIMS, now=NOW)


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_forms_and_evidence_together_take_the_rung_of_the_scan(template: str, pieces: str, data: st.DataObject) -> None:
    """Pins, duplicates, shares and bounds order the passages; ids, passages and forms are those of the scan."""
    planner = toy(template, pieces)
    request = data.draw(evidence_requests(planner.bundle_id))
    scanned = measured_rungs(planner.encoder(), request)
    request = with_room(request, data.draw(st.sampled_from([one.tokens for one in scanned])))
    at = first_fit(scanned, lambda one: one.tokens, room_of(request))
    answer = planner.plan(request)
    if at is None:
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Plan), answer
    selection = scanned[at].selection
    event(f"{'forms' if selection.forms else 'whole'}, {'pinned' if request.request.evidence_groups else 'free'}")
    assert [f"passage/{one.citation_id}" for one in selection.passages] == [
        key for key in answer.kept if key.startswith("passage/")
    ]
    assert {(key, form.name) for key, shown in selection.forms.items() for _, form in shown} == {
        (use.id, use.form) for use in answer.receipt.forms
    }
    assert scanned[at].tokens == len(answer.ids)


def test_a_required_passage_takes_no_shorter_form() -> None:
    """It never leaves as it is; the other one shortens and leaves, then nothing is left to give."""
    passages = (Passage("c1", FULL, 0.1, short_forms=SHORTS), Passage("c2", "tide " * 60, 0.9, short_forms=("brief",)))
    current = CurrentRequest(id="q", text="and now?", evidence_groups=(("c1",),))
    one, two = "passage/c1", "passage/c2"
    assert [
        {one: [], two: []}, {one: [], two: ["short_1"]}, {one: []},
    ] == walk(asking(passages=passages, request=current))  # fmt: skip


def test_a_duplicate_leaves_before_anything_shortens() -> None:
    """What another passage says whole need not be said again, in no form."""
    passages = (Passage("c1", FULL, 0.9, short_forms=SHORTS), Passage("c2", FULL, 0.1, short_forms=SHORTS))
    one, two = "passage/c1", "passage/c2"
    assert [
        {one: [], two: []}, {one: []}, {one: ["short_1"]}, {one: ["short_2"]}, {},
    ] == walk(asking(passages=passages))  # fmt: skip


def test_below_the_minimum_passages_shorten_after_the_open_turn() -> None:
    """Move 6 comes before move 7, and forms are no way around the minimum."""
    options = Options(sections=Sections(retrieval=SectionBounds(min=1)))
    passages = (Passage("c1", FULL, 0.9, short_forms=("brief",)),)
    own = looked(1, FULL, state="open")
    one, turn = "passage/c1", "turn/t1"
    assert [
        {one: [], turn: []}, {one: [], turn: ["short_1"]}, {one: [], turn: ["short_2"]},
        {one: ["short_1"], turn: ["short_2"]}, {turn: ["short_2"]},
    ] == walk(asking(own, passages=passages, options=options))  # fmt: skip


def test_a_passage_that_only_fits_in_a_short_form_is_evidence() -> None:
    """A text beyond every window is never encoded; its form can be cited. Without a form it is no evidence."""
    planner = Planner(ToyBundle("plain", "char", longest_token_bytes=1))
    huge = "x" * 5_000
    current = CurrentRequest(id="q", text="and now?", requires_citation=True)
    for shorts, others in ((("brief",), ()), (("y" * 4_000, "brief"), (Passage("c2", huge, 0.1, short_forms=("b",)),))):
        passages = (Passage("c1", huge, 0.9, short_forms=shorts), *others)
        dropping = Options(drop_duplicates=True)
        answer = planned(asking(passages=passages, request=current, room=400, options=dropping), planner)
        assert {"passage/c1", *(f"passage/{one.citation_id}" for one in others)} == form_names(answer).keys()
        assert [f"short_{len(shorts)}"] == form_names(answer)["passage/c1"]
    refused = planner.plan(asking(passages=(Passage("c1", huge, short_forms=("y" * 900,)),), request=current, room=400))
    assert isinstance(refused, Refusal)
    assert "insufficient_evidence" == refused.reason


def test_hidden_characters_of_the_form_that_is_shown_are_counted_and_stripped() -> None:
    """Those of a form that is not shown are not; a stripped form shows none, in results and in passages."""
    turn = looked(1, FULL)
    messages = list(turn.messages)
    messages[2] = replace(messages[2], tool_result=ToolResult("t1c0", FULL, (f"br{ZERO}{ZERO}ief",)))
    turn = replace(turn, messages=tuple(messages))
    passage = Passage("c1", "tide " * 60, 0.5, short_forms=(f"sh{ZERO}ort",))
    for policy, counts in (("keep", {"turn/t1": 2, "passage/c1": 1}), ("strip", {"turn/t1": 2, "passage/c1": 1})):
        options = Options(unicode_policy=policy)  # type: ignore[arg-type]
        request = asking(turn, passages=(passage,), options=options)
        whole = planned(request)
        assert {} == whole.receipt.hidden_characters
        least = planned(replace(request, max_input_tokens=300))
        assert {"turn/t1": ["short_1"], "passage/c1": ["short_1"]} == form_names(least)
        assert counts == least.receipt.hidden_characters
        assert (policy == "keep") == (ZERO in said(least))
        tokens = {use.id: use.tokens for use in least.receipt.forms}
        assert ({"turn/t1": 7, "passage/c1": 6} if policy == "keep" else {"turn/t1": 5, "passage/c1": 5}) == tokens
    refusing = asking(turn, passages=(passage,), options=Options(unicode_policy="refuse"))
    assert planned(refusing).accepted
    refused = toy().plan(replace(refusing, max_input_tokens=300))
    assert isinstance(refused, Refusal)
    assert "hidden_characters" == refused.reason
