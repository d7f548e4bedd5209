"""The labelled pairs are what they claim to be, and stay as they were before any detector was written."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.evidence.corpus.forms import size
from tests.evidence.corpus.make_pairs import HERE, lines

Pair = dict[str, Any]

COUNTS: dict[bool, dict[str, dict[str, int]]] = {
    True: {
        "boilerplate": {"en": 11, "zh": 6, "ar": 1, "hi": 1, "mixed": 2},
        "case": {"en": 8, "zh": 1, "mixed": 1},
        "clause_order": {"en": 23, "zh": 12, "ja": 3, "ar": 2, "hi": 2, "mixed": 2},
        "function_words": {"en": 13, "zh": 12, "ja": 2, "ar": 2, "hi": 2, "mixed": 1},
        "ligatures": {"en": 6, "ar": 1},
        "line_breaks": {"en": 7, "zh": 3, "ja": 2, "ar": 1, "hi": 1, "mixed": 1},
        "list_markers": {"en": 15, "zh": 4, "ja": 1, "ar": 1, "hi": 1, "mixed": 1},
        "overlap_85_to_95": {"en": 22, "zh": 8},
        "punctuation": {"en": 7, "zh": 3, "ar": 1, "hi": 1},
        "quotation_marks": {"en": 5, "zh": 4, "mixed": 1},
        "sentence_order": {"en": 18, "zh": 10, "ja": 2, "ar": 2, "hi": 2, "mixed": 1},
        "several_forms": {"en": 28, "zh": 8, "ja": 2, "ar": 1, "hi": 1, "mixed": 1},
        "white_space": {"en": 9, "zh": 2},
        "width": {"en": 3, "zh": 6, "ja": 4, "hi": 1, "mixed": 2},
    },
    False: {
        "contained": {"en": 4, "zh": 2},
        "date": {"en": 12, "zh": 7, "ja": 1, "ar": 1, "hi": 1},
        "date_and_form": {"en": 1, "ar": 1},
        "id": {"en": 11, "zh": 4, "ja": 2},
        "id_and_form": {"ar": 1, "hi": 1},
        "name": {"en": 11, "zh": 2, "ja": 1, "ar": 1, "mixed": 1},
        "name_and_form": {"zh": 2, "hi": 1, "mixed": 1},
        "negation": {"en": 16, "zh": 11, "ja": 1, "ar": 2, "hi": 2, "mixed": 2},
        "negation_and_form": {"en": 3, "ja": 2},
        "number": {"en": 28, "zh": 10, "ja": 3, "ar": 2, "hi": 2, "mixed": 2},
        "number_and_form": {"en": 7, "zh": 6, "mixed": 1},
        "other_facts": {"en": 20, "zh": 10, "ja": 3, "ar": 2, "hi": 2, "mixed": 2},
        "overlap_30": {"en": 9, "zh": 4, "ja": 1, "ar": 1, "mixed": 1},
        "overlap_50": {"en": 8, "zh": 4, "ja": 1, "ar": 1, "hi": 1, "mixed": 1},
        "overlap_60": {"en": 9, "zh": 5, "ja": 1, "hi": 1},
        "same_topic": {"en": 10, "zh": 7},
        "swapped": {"en": 12, "zh": 10, "ar": 1, "hi": 1, "mixed": 1},
        "translated": {"mixed": 6},
        "unit": {"en": 16, "zh": 8, "ja": 1, "ar": 1, "hi": 1, "mixed": 1},
        "unit_and_form": {"en": 3, "zh": 3, "ja": 1},
        "word": {"en": 6, "zh": 1},
        "word_and_form": {"en": 3, "zh": 1},
    },
}
"""Label to kind to language to number of pairs."""

ONE_FACT = ("number", "unit", "date", "name", "id", "negation")
SHARED = {"overlap_30": (20, 55), "overlap_50": (40, 70), "overlap_60": (50, 70), "overlap_85_to_95": (85, 97)}
"""Percent of shared words of the longer passage: the nominal share, with room for small words both halves use."""


@cache
def pairs() -> tuple[Pair, ...]:
    """Read the pairs of the file."""
    return tuple(json.loads(line) for line in (HERE / "pairs.jsonl").read_text("utf-8").splitlines())


def units(text: str) -> list[str]:
    """Split a passage into words, a Han or Kana character each by itself."""
    han = "[\u3040-\u30ff\u4e00-\u9fff]"
    return re.findall(rf"{han}|(?:(?!{han})[\w\u0900-\u097f])+", unicodedata.normalize("NFKC", text).casefold())


def numbers(text: str) -> list[str]:
    """List the runs of digits of a passage in sorted order."""
    return sorted(re.findall(r"\d+", unicodedata.normalize("NFKC", text)))


def middles(a: str, b: str) -> tuple[str, str]:
    """Cut what two texts share at their start and at their end."""
    start = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[start:], b[start:]
    end = next(
        (place for place, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=False)) if x != y), min(len(a), len(b))
    )
    return a[: len(a) - end], b[: len(b) - end]


def test_the_file_is_what_the_bases_give() -> None:
    """Generating again gives the same bytes."""
    assert lines().encode() == (HERE / "pairs.jsonl").read_bytes()


@pytest.mark.parametrize("duplicate", [True, False])
def test_counts_per_kind_and_language(duplicate: bool) -> None:
    """No pair comes, goes or changes its label unnoticed."""
    found: dict[str, dict[str, int]] = {}
    for pair in pairs():
        if pair["duplicate"] is duplicate:
            row = found.setdefault(pair["kind"], {})
            row[pair["language"]] = row.get(pair["language"], 0) + 1
    assert COUNTS[duplicate] == found


def test_the_corpus_is_as_large_and_as_hard_as_promised() -> None:
    """260 pairs with 40 to 60 % duplicates; 60 English pairs differ in one fact; 50 pairs are Chinese."""
    labels = [bool(pair["duplicate"]) for pair in pairs()]
    assert len(labels) >= 260
    assert 0.4 <= sum(labels) / len(labels) <= 0.6
    assert sum(pair["language"] == "en" and pair["kind"] in ONE_FACT for pair in pairs()) >= 60
    assert sum(pair["language"] == "zh" for pair in pairs()) >= 50


def test_every_pair_has_its_fields_and_its_own_id() -> None:
    """Six fields in one order; an id names one pair, and no two pairs hold the same two texts."""
    assert {("pair", "language", "kind", "duplicate", "a", "b")} == {tuple(pair) for pair in pairs()}
    assert {bool} == {type(pair["duplicate"]) for pair in pairs()}
    assert len(pairs()) == len({pair["pair"] for pair in pairs()})
    assert len(pairs()) == len({frozenset((pair["a"], pair["b"])) for pair in pairs()})


def test_every_language_has_both_labels_and_a_kind_has_one() -> None:
    """A detector cannot be right by looking at the language alone; a kind means one label."""
    languages = ("en", "zh", "ja", "ar", "hi", "mixed")
    assert {(one, label) for one in languages for label in (True, False)} == {
        (pair["language"], pair["duplicate"]) for pair in pairs()
    }
    assert set() == set(COUNTS[True]) & set(COUNTS[False])


def test_no_pair_is_identical() -> None:
    """Texts equal but for white space are never labelled false, and no pair is equal byte for byte."""
    assert [] == [pair["pair"] for pair in pairs() if pair["a"] == pair["b"]]
    same = [pair for pair in pairs() if "".join(pair["a"].split()) == "".join(pair["b"].split())]
    assert [] == [pair["pair"] for pair in same if not pair["duplicate"]]


def test_passages_keep_their_bounds() -> None:
    """25 to 120 words; 40 to 200 characters in Chinese and Japanese; 25 to 200 of either in mixed pairs."""
    bounds = {"zh": (40, 200), "ja": (40, 200), "mixed": (25, 200)}
    wrong = [
        (pair["pair"], side, size(pair[side], pair["language"]))
        for pair in pairs()
        for side in ("a", "b")
        if not (span := bounds.get(pair["language"], (25, 120)))[0] <= size(pair[side], pair["language"]) <= span[1]
    ]
    assert [] == wrong


def test_one_fact_is_all_that_differs() -> None:
    """What is left between the common start and end is a few characters, on both sides different."""
    wrong = [
        pair["pair"]
        for pair in pairs()
        if pair["kind"] in ONE_FACT and max(map(len, middles(pair["a"], pair["b"]))) > 18
    ]
    assert [] == wrong


def test_duplicates_hold_the_same_numbers() -> None:
    """No edit of form loses or changes a figure; only numbered list markers add some."""
    wrong = [
        pair["pair"]
        for pair in pairs()
        if pair["duplicate"]
        and numbers(pair["a"]) != numbers(pair["b"])
        and not ("numbered" in pair["pair"] or pair["pair"] == "zh-hand-list-zh")
    ]
    assert [] == wrong


def test_overlaps_share_what_their_kind_says() -> None:
    """Counted anew in words of both passages, whatever sentences the generator chose; duplicates share 85 %."""
    wrong = []
    for pair in pairs():
        low, high = SHARED.get(pair["kind"], (85 if pair["duplicate"] else 0, 100))
        a, b = Counter(units(pair["a"])), Counter(units(pair["b"]))
        share = round(100 * (a & b).total() / max(a.total(), b.total()))
        if not low <= share <= high:
            wrong.append((pair["pair"], share))
    assert [] == wrong


def test_boilerplate_is_at_most_a_fifth() -> None:
    """The longer passage is at most 1.2 times the shorter one."""
    for pair in pairs():
        if pair["kind"] == "boilerplate":
            short, long = sorted(size(pair[side], pair["language"]) for side in ("a", "b"))
            assert short < long <= 1.2 * short, pair["pair"]


def test_a_contained_part_is_far_shorter() -> None:
    """The part stands word for word in a passage at least 2.7 times as long."""
    for pair in pairs():
        if pair["kind"] == "contained":
            part, whole = sorted((pair["a"], pair["b"]), key=len)
            assert part in whole
            assert size(whole, pair["language"]) >= 2.7 * size(part, pair["language"]), pair["pair"]
