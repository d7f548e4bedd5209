"""The proven bound of a text: bytes of the normalised text, plus what is put in front of a stretch (M6)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TextBound:
    """How a bundle's bound is computed, in tokens of a text counted by itself.

    proven         false where nothing is proven; then only the exact count tells.
    normaliser     `none` or a form of Unicode: the bytes are those of the text in that form. `charsmap` is the file's
                   own list of rules: then only the raw bound is to be had, and `most_tokens` is it.
    prefix_tokens  for the space a tokenizer puts before a stretch.
    raw_factor     for an app that cannot normalise: bytes of the text as it is, times this, are enough too.
    """

    proven: bool
    normaliser: str
    prefix_tokens: int
    raw_factor: int | None

    def most_tokens(self, text: str) -> int:
        """Return the most tokens a text can have by itself. Raises ValueError where nothing is proven.

        >>> TextBound(True, "NFC", 0, 3).most_tokens("né")
        3
        """
        if not self.proven:
            raise ValueError("no bound is proven for this bundle")
        if self.normaliser == "charsmap":
            return self.most_tokens_raw(text)
        form: Literal["NFC", "NFD", "NFKC", "NFKD"]
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            if self.normaliser == form:
                text = unicodedata.normalize(form, text)
        return self.prefix_tokens * bool(text) + len(text.encode("utf-8", "surrogatepass"))

    def most_tokens_raw(self, text: str) -> int:
        """Return the wider bound over the bytes of the text as it is. Raises ValueError where nothing is proven."""
        if self.raw_factor is None:
            raise ValueError("no bound is proven for this bundle")
        return self.prefix_tokens * bool(text) + self.raw_factor * len(text.encode("utf-8", "surrogatepass"))
