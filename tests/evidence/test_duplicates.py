"""Near-duplicates: a labelled corpus, no quadratic compare, every text looked at once (R162, design.md §5 move 0)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from planner.steps import duplicates as module
from planner.steps.duplicates import Signatures, duplicates
from planner.steps.near import same
from planner.steps.signature import signature
from tests.evidence.support import asking, passage, toy

PAIRS = [
    json.loads(line) for line in (Path(__file__).parent / "corpus" / "pairs.jsonl").read_text("utf-8").splitlines()
]


def found(pair: dict[str, str]) -> bool:
    """Tell whether the detector takes a pair for one text, in both directions."""
    one, other = signature(pair["a"]), signature(pair["b"])
    verdict = same(one, other)
    assert verdict == same(other, one), pair["pair"]
    return verdict


def test_the_labelled_pairs_are_told_apart() -> None:
    """Precision at least 0.98 and recall at least 0.9 over pairs whose labels stood before the detector."""
    verdicts = [(found(pair), pair["duplicate"]) for pair in PAIRS]
    right = sum(1 for said, is_one in verdicts if said and is_one)
    assert right >= 0.98 * sum(said for said, _ in verdicts)
    assert right >= 0.9 * sum(1 for _, is_one in verdicts if is_one)


@pytest.mark.parametrize("kind", ["number", "negation", "unit", "date", "id"])
def test_another_fact_is_never_a_duplicate(kind: str) -> None:
    """Not one of the pairs that differ in a number, a negation, a unit, a date or an id."""
    assert [] == [pair["pair"] for pair in PAIRS if pair["kind"].startswith(kind) and found(pair)]


def test_a_light_sentence_may_be_more_and_one_with_a_number_may_not() -> None:
    """What only one of them says holds no figure."""
    text = "The pump of the works runs at night and the valve holds the pressure in all weather, as the sheet says."
    light, heavy = f"{text} Good luck to all.", f"{text} Call 4711 then."
    assert same(signature(text), signature(light))
    assert not same(signature(text), signature(heavy))


def test_the_index_finds_what_comparing_every_pair_finds(seed: int) -> None:
    """A naive oracle over mixed passages of the corpus: the same ones are duplicates."""
    rng = random.Random(seed)
    for _ in range(4):
        texts = [pair[side] for pair in rng.sample(PAIRS, 30) for side in ("a", "b")]
        passages = [passage(f"c{at:03}", text) for at, text in enumerate(texts)]
        gone: set[str] = set()
        stays: list[int] = []
        for at, text in enumerate(texts):
            if any(same(signature(texts[other]), signature(text)) for other in stays):
                gone.add(f"c{at:03}")
            else:
                stays.append(at)
        assert gone == duplicates(passages, (), Signatures())


@pytest.mark.parametrize("make", [
    lambda at: f"Pump {at} of the works runs at a pressure that the valve holds in all weather.",
    lambda at: "".join(chr(97 + int(digit)) * 3 for digit in str(at)) + " is the name of a boat on the green river",
    lambda at: " ".join(random.Random(at).sample("oak ash elm fir yew bay fig nut".split(), 8)),
    lambda at: "水" * (at % 50 + 1) + "河流很长",
], ids=["numbers", "names", "orders", "runs"])  # fmt: skip
def test_hostile_sets_cost_a_bounded_number_of_comparisons(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand passages that are alike in all but one thing: at most 2 comparisons each, not 2,000."""
    compared = 0
    real = module.same

    def counting(*pair):  # type: ignore[no-untyped-def]
        nonlocal compared
        compared += 1
        return real(*pair)

    monkeypatch.setattr(module, "same", counting)
    monkeypatch.setattr(module, "MOST_COMPARED", 2)
    passages = [passage(f"c{at}", make(at)) for at in range(2_000)]  # type: ignore[operator]
    duplicates(passages, (), Signatures())
    assert compared <= 2 * 2_000


def test_each_passage_is_encoded_at_most_once_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 candidates for a window of 4,000 tokens every text is encoded once for its size, then the area."""
    passages = tuple(passage(f"c{at}", f"Entry {at} speaks of nothing else but {at}.", relevance=at / 2_000)
                     for at in range(2_000))  # fmt: skip
    encoder = toy("plain").encoder()
    seen: list[str] = []
    real = type(encoder).alone

    def noting(self, text, counters):  # type: ignore[no-untyped-def]
        seen.append(text)
        return real(self, text, counters)

    monkeypatch.setattr(type(encoder), "alone", noting)
    answer = toy("plain").plan(asking(*passages, room=4_000))
    assert answer.accepted
    assert len(seen) == len(set(seen))
    once = sum(len(f"[{one.citation_id}] {one.text}\n") for one in passages)
    assert int(answer.diagnostics["characters_encoded"]) <= 1.5 * once
