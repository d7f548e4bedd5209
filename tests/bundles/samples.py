"""Texts that tokenizers tend to disagree about, and a plain oracle for token borders."""

from __future__ import annotations

import random

FRAGMENTS = (
    "Hello", " world", "  ", "\n", "\n\n", "\t", " \n ", "naïve", "e\u0301", "Ω", "你好，世界", "。",
    "مرحبا", "สวัสดี", "नमस्ते", "👨‍👩‍👧", "🙂", "Cửa Việt", "12345", " 3.14", "{'a': [1, 2]}",
    "def f(x):\n    return x", "---", "'s", "ＡＢＣ", "\u200b", "한국어", "\u1112\u1161\u11ab", "ﬁ",
    "\r\n", "<b>bold</b>", " <", "| ", "[/", "</", "_" * 9, "é", "\u00a0", "K\u030c",
)  # fmt: skip


def mixed_texts(seed: int, count: int, fragments: int = 12) -> list[str]:
    """Return reproducible texts of so many fragments each, every fragment alone among them."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices(FRAGMENTS, k=rng.randint(1, fragments))) for _ in range(count)]
    return [*FRAGMENTS, *texts]


def first_reaching(ranges: list[tuple[int, int]], char: int) -> tuple[int, int]:
    """Return (index, start) of the first token whose characters reach beyond `char`: a plain scan."""
    for index, (start, stop) in enumerate(ranges):
        if stop > char:
            return index, start
    return len(ranges), char
