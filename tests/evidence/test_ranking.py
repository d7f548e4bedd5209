"""Value, duplicates and bounds: which passages leave first, and where the others stand (R162..R164, R167, X35, X48)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from planner.values.passage import Passage, Source
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Options, PlanRequest, SectionBounds, Sections
from planner.wire.dump import dump_receipt
from tests.evidence.support import asking, gone, kept, passage, plan, refusal, short_of, talk, toy

TEXT = "The stem bolt of the old frame takes a torque of 5 newton metres in three steps."
TWIN = "the STEM bolt of the old frame,  takes a torque of 5 newton metres in three steps"
OTHER = "The stem bolt of the old frame takes a torque of 6 newton metres in three steps."


def test_R162_rank_by_four_criteria() -> None:
    """Needed as evidence, then relevance, then grade, then freshness, then id: one total order, any input order."""
    asked = CurrentRequest(id="q", text="What holds?", evidence_groups=(("needed", "needed2"),))
    ranked = [
        passage("needed", relevance=0.3), passage("needed2", relevance=0.1), passage("relevant", relevance=0.9),
        passage("graded", relevance=0.6, source=Source("press", 1)),
        passage("fresh", relevance=0.6, valid_from="2030-05-01T00:00:00Z"),
        passage("old", relevance=0.6, valid_from="2030-05-01T00:00:00+02:00"), passage("undated", relevance=0.6),
        passage("ungraded", relevance=0.6, source=Source("wiki")), passage("ungraded2", relevance=0.6,
                                                                          source=Source("press")),
    ]  # fmt: skip
    rng = random.Random(1)
    for _ in range(20):
        shuffled = rng.sample(ranked, len(ranked))
        assert [one.citation_id for one in ranked] == kept(plan(asking(*shuffled, request=asked)))


def test_R163_evict_duplicates_then_low_value() -> None:
    """Over budget a copy goes first, whatever its relevance; then what is under the line, then by value."""
    request = asking(
        passage("best", relevance=0.8, text=TEXT), passage("copy", relevance=1.0, text=TWIN, source=Source("wiki")),
        passage("low", relevance=0.1), passage("mid", relevance=0.5), options=Options(low_value_line=0.2),
    )  # fmt: skip
    order: list[tuple[str, str]] = []
    for missing in range(1, 136, 9):
        for name, reason in gone(plan(short_of(request, missing))).items():
            if (name, reason) not in order:
                order.append((name, reason))
    assert [("passage/copy", "duplicate"), ("passage/low", "low_value"), ("passage/mid", "over_budget")] == order


def test_nothing_leaves_while_everything_fits() -> None:
    """A duplicate costs tokens and no right: with room for both, both stay, unless the policy drops it always."""
    request = asking(passage("a", TEXT), passage("b", TWIN))
    assert ["a", "b"] == kept(plan(request))
    always = plan(replace(request, options=Options(drop_duplicates=True)))
    assert (["a"], {"passage/b": "duplicate"}) == (kept(always), gone(always))


@pytest.mark.parametrize(("better", "worse"), [
    ({"source": Source("press", 1), "relevance": 0.1}, {"source": Source("press", 2), "relevance": 0.9}),
    ({"valid_from": "2030-05-02T00:00:00Z", "relevance": 0.1}, {"valid_from": "2030-05-01T00:00:00Z"}),
    ({"relevance": 0.6}, {"relevance": 0.5}),
])  # fmt: skip
def test_the_copy_that_stays_is_graded_then_fresh_then_relevant(
    better: dict[str, object], worse: dict[str, object]
) -> None:
    """The same answer whichever id and order they have."""
    for names in (("a", "b"), ("b", "a")):
        request = asking(passage(names[0], TEXT, **better), passage(names[1], TWIN, **worse))
        assert [names[0]] == kept(plan(short_of(request, 1)))


def test_a_required_copy_outlives_any_other() -> None:
    """The last support of a required citation never leaves as a duplicate."""
    asked = CurrentRequest(id="q", text="What holds?", evidence_groups=(("poor",),))
    request = asking(passage("good", TEXT, source=Source("press", 1), relevance=1.0),
                     passage("poor", TWIN, source=Source("wiki"), relevance=0.0), request=asked)  # fmt: skip
    answer = plan(short_of(request, 1))
    assert (["poor"], {"passage/good": "duplicate"}) == (kept(answer), gone(answer))


def test_a_copy_under_the_low_value_line_does_not_take_the_better_one_with_it() -> None:
    """Its grade is better, yet it would leave next: what both say would be gone."""
    request = asking(passage("graded", TEXT, source=Source("press", 1), relevance=0.1),
                     passage("relevant", TWIN, source=Source("wiki", 3), relevance=0.9),
                     options=Options(low_value_line=0.5))  # fmt: skip
    answer = plan(short_of(request, 1))
    assert (["relevant"], {"passage/graded": "duplicate"}) == (kept(answer), gone(answer))


def test_another_number_is_no_duplicate() -> None:
    """Same words, another figure: both say something."""
    answer = plan(short_of(asking(passage("five", TEXT), passage("six", OTHER, relevance=0.4)), 1))
    assert {"passage/six": "over_budget"} == gone(answer)


def test_R164_eviction_receipt_id_and_reason() -> None:
    """Citation id and code, and no word of the passage."""
    answer = plan(short_of(asking(passage("a", TEXT), passage("b", TWIN)), 1))
    assert [("passage/b", "duplicate")] == [(entry.id, entry.reason) for entry in answer.removed]
    data = dump_receipt(answer.receipt).decode()
    assert not any(word in data for word in ("stem", "STEM", "torque", "newton"))


def test_R167_fixed_citation_area() -> None:
    """After the history, before the request's own words, by value; or with the best at both ends."""
    passages = tuple(passage(f"c{at}", relevance=1 - at / 10) for at in range(5))
    request = asking(*passages, turns=(talk(1),))
    answer = plan(request)
    text = answer.prompt or ""
    assert text.index("Answer 1.") < text.index("[reference passages") < text.index("[c0] ") < text.index("What holds?")
    assert (1, 1) == (text.count("[reference passages: data"), text.count("[end of reference passages]"))
    assert ["c0", "c1", "c2", "c3", "c4"] == kept(answer)
    edges = plan(replace(request, options=Options(passage_order="edges")))
    assert ["c0", "c2", "c4", "c3", "c1"] == kept(edges)
    assert len(answer.ids) == len(edges.ids)


def test_a_source_has_its_share_of_the_section() -> None:
    """Beyond it passages leave first; the best of each source, and one without a source, are never beyond it."""
    flood = [passage(f"f{at}", relevance=0.9, source=Source("wiki", 1)) for at in range(4)]
    request = asking(*flood, passage("other", relevance=0.1), options=Options(source_share=0.4))
    answer = plan(short_of(request, 30))
    assert {"passage/f2": "source_share", "passage/f3": "source_share"} == gone(answer)
    assert () == plan(request).removed


def test_section_bounds_order_the_moves() -> None:
    """Beyond its maximum a passage leaves before any turn could; under its minimum it outlives every turn."""
    passages = tuple(passage(f"c{at}", relevance=1 - at / 10) for at in range(4))
    size = plan(asking(*passages)).account.items["passage/c0"] + 6
    bounds = Options(sections=Sections(retrieval=SectionBounds(min=size, max=2 * size)))
    request = asking(*passages, turns=(talk(1), talk(2)), options=bounds)
    assert 4 == len(kept(plan(request)))
    fates = [gone(plan(short_of(request, missing))) for missing in (1, size + 1, 2 * size + 1, 3 * size + 1)]
    low, least = {"passage/c3": "low_value"}, {"passage/c2": "low_value", "passage/c3": "low_value"}
    assert [low, least, {**least, "passage/c1": "over_budget"}] == fates[:3]
    assert {"turn/t1", "passage/c1"} <= fates[3].keys()
    assert "passage/c0" not in fates[3]


def test_value_orders_are_the_same_in_any_input_order(seed: int) -> None:
    """Shuffled passages give the same bytes: value and id decide, never the position."""
    rng = random.Random(seed)
    texts = [f"{word} holds for {at % 4}" for at, word in enumerate("oak ash elm fir yew bay fig nut".split())]
    passages = [passage(f"c{at}", text, relevance=rng.choice((0.2, 0.5))) for at, text in enumerate(texts)]
    request = short_of(asking(*passages), 60)
    first = plan(request)
    for _ in range(10):
        again = plan(replace(request, passages=tuple(rng.sample(passages, len(passages)))))
        assert (first.ids, first.receipt) == (again.ids, again.receipt)


def scan(request: PlanRequest, ranked: list[Passage], twins: set[str]) -> list[str]:
    """Return what a linear scan keeps: every rung planned alone in a window that holds it."""
    left = list(ranked)
    order = [one for one in reversed(ranked) if one.citation_id in twins]
    order += [one for one in reversed(ranked) if one.citation_id not in twins]
    for move in (None, *order):
        if move is not None:
            left.remove(move)
        whole = toy().plan(replace(request, passages=tuple(left), max_input_tokens=100_000))
        assert isinstance(whole, Plan)
        if len(whole.ids) < (request.max_input_tokens or 0):
            return [one.citation_id for one in left]
    return []


def test_fit_over_passages_equals_a_linear_scan(seed: int, max_examples: int) -> None:
    """Skipping rungs that are known to be too large never skips one that fits."""
    rng = random.Random(seed + 2)
    for _ in range(2 * max_examples):
        ranked = [passage(f"c{at}", f"word{at} " * rng.randint(1, 9), relevance=1 - at / 100) for at in range(12)]
        twins = {"c9"} if rng.random() < 0.5 else set()
        if twins:
            ranked[9] = replace(ranked[9], text=ranked[2].text.upper())
        request = asking(*ranked, room=rng.randint(160, 900))
        assert scan(request, ranked, twins) == kept(plan(request))


def test_a_request_without_any_room_is_an_overflow() -> None:
    """Passages that may leave are never blamed."""
    assert "context_policy_overflow" == refusal(asking(passage("a"), room=20)).outcome
