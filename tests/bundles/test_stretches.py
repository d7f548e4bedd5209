"""Borders of encoded stretches: found among bytes, they are those found among characters."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from planner.bundles.stretches import ByteEncoded, RangedEncoded, characters_of_bytes

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("a é漢👍🏽"), min_size=1, max_size=24)


@given(TEXTS, st.data())
def test_borders_among_bytes_are_those_among_characters(text: str, data: st.DataObject) -> None:
    """However a text's bytes are cut into tokens, in the middle of letters too."""
    size = len(text.encode())
    cuts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=12))) if size > 1 else []
    lengths = [stop - start for start, stop in zip([0, *cuts], [*cuts, size], strict=True)]
    ids = list(range(len(lengths)))

    def ranges() -> tuple[list[int], list[int]]:
        borders = [0, *accumulate(lengths)]
        return characters_of_bytes(text, borders[:-1]), characters_of_bytes(text, borders[1:], upward=True)

    wanted, found = RangedEncoded(ids, len(text), ranges), ByteEncoded(ids, text, lambda: lengths)
    for char in range(len(text) + 2):
        assert wanted.token_at(char) == found.token_at(char)
