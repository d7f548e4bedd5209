"""What the answer must cite is there, or the answer is insufficient_evidence (R168, X38)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.planner import Planner
from planner.values.plan import Refusal
from planner.values.request import CurrentRequest
from tests.evidence.support import asking, gone, kept, passage, plan, refusal, short_of, talk, toy
from tests.support.toy import ToyBundle


def asked(*groups: tuple[str, ...], requires: bool = False) -> CurrentRequest:
    """Return a question with evidence groups."""
    return CurrentRequest(id="q", text="What holds?", evidence_groups=groups, requires_citation=requires)


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"valid_to": "2030-01-01T00:00:00Z"}, None])
def test_R168_required_evidence_gone_is_insufficient_evidence(change: dict[str, str] | None) -> None:
    """Excluded or never sent: the refusal is the same to the letter, and names the caller's own ids only."""
    sent = (passage("a"), passage("x")) if change is None else (passage("a"), passage("b", **change), passage("x"))
    answer = refusal(asking(*sent, request=asked(("a",), ("b", "c"))))
    assert ("insufficient_evidence", "insufficient_evidence") == (answer.outcome, answer.reason)
    assert "evidence group 1: none of b, c" == answer.detail


def test_each_group_pins_its_best_admitted_member() -> None:
    """The best of each stays to the last rung; its mates may leave."""
    passages = (passage("a", relevance=0.2), passage("b", relevance=0.3), passage("c", relevance=0.1),
                passage("z", relevance=1.0))  # fmt: skip
    request = asking(*passages, turns=(talk(1),), request=asked(("a", "b"), ("c",)))
    alone = asking(*passages[1:3], request=request.request)
    least = plan(replace(request, max_input_tokens=len(plan(alone).ids) + 1))
    assert ["b", "c"] == kept(least)
    assert {"passage/a", "passage/z", "turn/t1"} == set(gone(least))
    layers = {name: layer for name, layer, _ in least.file_items}
    assert ("required_evidence", "required_evidence") == (layers["passage/b"], layers["passage/c"])


def test_a_required_citation_pins_the_best_passage() -> None:
    """Without groups any passage will do, so the best stays; without any there is no unsourced answer."""
    request = asking(passage("a", relevance=0.2), passage("b", relevance=0.3), request=asked(requires=True))
    assert ["b"] == kept(plan(short_of(request, 10)))
    for sent in ((), (passage("a", tenant="other"),)):
        none = refusal(asking(*sent, request=asked(requires=True)))
        assert ("insufficient_evidence", "a citation is required and there is no passage") == (none.reason, none.detail)


def test_evidence_that_does_not_fit_is_told_from_an_overflow() -> None:
    """Would fit without the pinned evidence: insufficient_evidence; would not fit either way: the overflow code."""
    request = asking(passage("a", "long " * 60), passage("z"), request=asked(("a",)))
    bare = plan(asking())
    out = refusal(replace(request, max_input_tokens=len(bare.ids) + 20))
    assert "insufficient_evidence" == out.outcome
    assert out.detail.startswith("a: ")
    assert out.tokens_missing > 0
    assert out.account is not None or out.advice.notes
    assert "context_policy_overflow" == refusal(replace(request, max_input_tokens=len(bare.ids) - 5)).outcome


def test_an_anonymous_pin_is_not_named() -> None:
    """requiresCitation names no id, so neither does its refusal."""
    request = asking(passage("secretname", "long " * 60), request=asked(requires=True))
    out = refusal(replace(request, max_input_tokens=len(plan(asking()).ids) + 20))
    assert ("insufficient_evidence", False) == (out.outcome, "secretname" in out.detail)


def test_a_group_takes_a_member_that_can_be_encoded() -> None:
    """A member of more bytes than the window has tokens is no support; with a smaller one there is a plan."""
    planner = Planner(ToyBundle("plain", "char", longest_token_bytes=4))
    huge, small = passage("huge", "x" * 9_000, relevance=1.0), passage("small", relevance=0.1)
    request = asking(huge, small, room=900, request=asked(("huge", "small")))
    request = replace(request, model_bundle_id=planner.bundle_id)
    answer = planner.plan(request)
    assert ["small"] == kept(answer)  # type: ignore[arg-type]
    alone = planner.plan(replace(request, passages=(huge,)))
    assert isinstance(alone, Refusal)
    assert "insufficient_evidence" == alone.reason
    assert toy().bundle_id == planner.bundle_id
