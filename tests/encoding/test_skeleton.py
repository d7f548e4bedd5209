"""Inert twins have the shape of what they stand for: length, whitespace, parsed strings, and which texts are equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.encoding.skeleton import inert_wrap
from planner.values.prompt import Leaf
from tests.laws.common import toy

WORDS = st.text(alphabet="ab \n<|>é中", min_size=2, max_size=9).filter(lambda text: len(text.split()) == 1)


@given(st.lists(WORDS, max_size=60))
def test_equal_texts_stay_equal_and_others_stay_apart(texts: list[str]) -> None:
    """A template may compare two messages, so twins that fall together or apart would change the structure."""
    wrap = inert_wrap(toy().encoder().bundle.profile)
    twins = [str(wrap(Leaf("turn/t", "history", "user_text", text, "user"))) for text in texts]
    for text, twin in zip(texts, twins, strict=True):
        assert (len(text), text.isspace()) == (len(twin), twin.isspace())
        for other, its_twin in zip(texts, twins, strict=True):
            assert (text == other) == (twin == its_twin)
