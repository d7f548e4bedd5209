"""Charging a whole encode: every token to the one item that holds all its characters, the rest is framing."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence

import pytest

from planner.encoding.guards import Guards
from planner.encoding.parsed import assemble_parsed
from planner.values.bundle import ControlToken
from planner.values.prompt import Counters, Leaf, Rendered, Span
from planner.values.reasons import RefusalSignal

MARK = ControlToken("<|m|>", 1)
GUARDS = Guards([MARK])


class Cut:
    """A text cut into tokens at given places; control strings are tokens of their own."""

    def __init__(self, starts: Sequence[int], ids: Sequence[int], characters: int) -> None:
        self.starts, self.ids, self._characters = starts, ids, characters

    def token_at(self, char: int) -> tuple[int, int]:
        """The first token that reaches beyond `char`, and where it begins."""
        if char >= self._characters:
            return len(self.ids), char
        index = bisect_right(self.starts, char) - 1
        return index, self.starts[index]


class CutEngine:
    """An engine that knows one text and how it is cut."""

    vocab_size = 10

    def __init__(self, cut: Cut) -> None:
        self._cut = cut

    def encode_parsed_spans(self, text: str) -> Cut:
        """Return the cut."""
        assert len(text) == self._cut._characters
        return self._cut


def leaf(item: str) -> Leaf:
    """A leaf of an item."""
    return Leaf(item=item, section="history", kind="user_text", text="")


def assembled(text: str, spans: list[Span], cut: Cut, *, keep_spans: bool = False):  # type: ignore[no-untyped-def]
    """Run the assembler over a text, its spans and its tokens."""
    engine = CutEngine(cut)
    return assemble_parsed(Rendered(text, spans), GUARDS, engine, Counters(), keep_spans=keep_spans)  # type: ignore[arg-type]


def drawn(rng: random.Random) -> tuple[str, list[Span], Cut]:
    """A text of letters with marks in framing, owned stretches, and cuts anywhere but inside a mark."""
    text, spans, starts, ids = "", [], [], []
    items = [leaf(f"turn/t{number}") for number in range(4)]
    for _ in range(rng.randint(1, 12)):
        if rng.random() < 0.3:
            if starts and starts[-1] == len(text):
                starts.pop(), ids.pop()
            starts.append(len(text))
            ids.append(MARK.id)
            text += MARK.text
            spans.append((None, len(MARK.text)))
            starts.append(len(text))
            ids.append(5)
            continue
        length = rng.randint(1, 6)
        if not starts:
            starts.append(0)
            ids.append(5)
        for place in range(len(text) + 1, len(text) + length + 1):
            if rng.random() < 0.4:
                starts.append(place)
                ids.append(5)
        text += "x" * length
        spans.append((rng.choice([None, *items]), length))
    kept = [(start, token) for start, token in zip(starts, ids, strict=True) if start < len(text)]
    firsts = dict(kept)
    firsts |= {start: token for start, token in kept if token == MARK.id}
    starts = sorted(firsts)
    return text, spans, Cut(starts, [firsts[start] for start in starts], len(text))


def oracle(text: str, spans: list[Span], cut: Cut) -> dict[str, int]:
    """Charge each token by looking at the owner of each of its characters."""
    owners = [owner.item if owner else None for owner, length in spans for _ in range(length)]
    out: dict[str, int] = {owner.item: 0 for owner, _ in spans if owner is not None}
    blocks: list[int] = []
    for place, owner in enumerate(owners):
        blocks.append(blocks[-1] if place and owner == owners[place - 1] else place)
    for start, stop in zip(cut.starts, [*cut.starts[1:], len(text)], strict=True):
        held = owners[start]
        if held is not None and len(set(blocks[start:stop])) == 1:
            out[held] += 1
    return out


@pytest.mark.parametrize("number", range(300))
def test_charges_equal_a_plain_scan(seed: int, number: int) -> None:
    """Random spans, cuts and control tokens; neighbours of one item are one stretch."""
    text, spans, cut = drawn(random.Random(seed + number))
    found = assembled(text, spans, cut, keep_spans=True)
    assert oracle(text, spans, cut) == found.charges
    assert len(found.ids) == sum(count for _, count in found.spans)
    shown = {item: sum(count for name, count in found.spans if name == item) for item in found.charges}
    assert shown == found.charges


def test_a_token_over_a_border_is_framing_and_two_borders_are_one_token() -> None:
    """Five letters in three tokens: the middle one spans two borders."""
    text, spans = "abcde", [(leaf("turn/a"), 2), (leaf("turn/b"), 1), (leaf("turn/c"), 2)]
    found = assembled(text, spans, Cut([0, 1, 4], [5, 6, 7], 5), keep_spans=True)
    assert found.charges == {"turn/a": 1, "turn/b": 0, "turn/c": 1}
    assert ("framing", 1) in found.spans


def test_an_item_starts_after_the_control_token_before_it_and_none_is_clean() -> None:
    """History may not be cut from such a prompt, so nothing of it is spliced."""
    text, spans = "<|m|>abcd", [(None, 6), (leaf("turn/a"), 1), (leaf("turn/b"), 2)]
    found = assembled(text, spans, Cut([0, 5, 6, 7, 8], [1, 5, 5, 5, 5], 9))
    assert found.starts == {"turn/a": 1, "turn/b": 3}
    assert not any(found.clean_starts.values())
    assert found.control_ids == 1


@pytest.mark.parametrize(
    "spans",
    [
        [(None, 1), (leaf("turn/a"), 5), (None, 3)],
        [(leaf("turn/a"), 3), (leaf("turn/b"), 3), (None, 3)],
        [(None, 2), (leaf("turn/a"), 1), (None, 6)],
    ],
)
def test_a_control_string_with_a_character_of_content_is_named(spans: list[Span]) -> None:
    """Whole, made of two contents that meet, or glued by the template: measured, and never handed out."""
    assert "turn/a" == assembled("x<|m|>abc", spans, Cut([0, 1, 6], [5, 1, 5], 9)).obeyed


def test_a_control_id_that_no_template_text_spells_is_forged() -> None:
    """A normalizer may make one out of full-width letters: the prompt is not handed out."""
    with pytest.raises(RefusalSignal, match="control_token_forged"):
        assembled("＜|m|＞", [(leaf("turn/a"), 5)], Cut([0], [1], 5))


def test_a_control_string_that_the_tokenizer_left_text_is_no_forgery() -> None:
    """A token that needs a word border beside it may stay text; fewer control ids than written are none."""
    found = assembled("<|m|>a", [(None, 5), (leaf("turn/a"), 1)], Cut([0, 5], [6, 7], 6))
    assert found.control_ids == 0
