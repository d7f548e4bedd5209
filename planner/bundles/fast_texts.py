"""Two megabytes of text of our own, by class, on which two engines are compared (facts-encoding.md §6).

The same in every process: a certificate means the same text everywhere. A class is named where engines differ,
a text never is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence

TEXTS_VERSION = "3"
"""Raised with every change of what is generated: certificates of another version are not read."""
CLASS_BYTES = 112_000
JOINED_TEXTS = 20_000
_SEED = 20_261_130

_WORDS = {
    "latin prose": (
        "the quick brown fox it's we're they'll don't I'd've naïve café Größe straße über señor façade œuvre "
        "İstanbul ığdır Łódź čeština příliš žluťoučký København smørrebrød ﬁnal ofﬁce "
        "e\u0301te\u0301 A\u030angstro\u0308m"
    ).split(),
    "cyrillic and greek": (
        "быстрая лиса перепрыгнула через собаку ἄνθρωπος Ελλάδα ΣΊΣΥΦΟΣ й и\u0306 ї і\u0308"
    ).split(),
    "vietnamese": (
        "Cửa Việt tiếng đường nghiệp phở bò viê\u0323t đươ\u0300ng tie\u0302\u0301ng nguye\u0302\u0303n"
    ).split(),
    "cjk": [*"夜班马上开始，请检查三号阀门。「東京」ひらがなカタカナー々〆ヶ한국어문장입니다", "か\u3099", "は\u309a"],
    "hangul": "안녕하세요 세계 \u1112\u1161\u11ab \u1100\u1161 \u11a8\u1100 갂갃 ㄱㄴㄷ 힣".split(),
    "code": (
        "def f(x):\n    return\t{'a':[1,2]} for(;;) !== => /*x*/ //\\n \"s\" __init__ camelCase snake_case 0xFF 1e-9 "
        "</div> <br/> #include<a.h> @dec ${v} ``` ### |--- [x] \\u00e9 %s &amp; ::std->p"
    ).split(" "),
}
_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "digits": (
        (0x30, 0x3A), (0x30, 0x3A), (0x660, 0x66A), (0x966, 0x970), (0x2150, 0x218C), (0xFF10, 0xFF1A),
        (0x1D7CE, 0x1D800),
    ),
    "punctuation": ((0x21, 0x30), (0x3A, 0x41), (0x5B, 0x61), (0x2010, 0x2060), (0x3000, 0x3040), (0xA1, 0xC0)),
    "white space": (
        (0x20, 0x21), (0x20, 0x21), (0x9, 0xE), (0x85, 0x86), (0xA0, 0xA1), (0x2000, 0x2010), (0x3000, 0x3001),
        (0x200B, 0x200E),
    ),
    "combining marks": (
        (0x300, 0x370), (0x483, 0x488), (0x591, 0x5C8), (0x1AB0, 0x1AFF), (0x1DC0, 0x1E00), (0x20D0, 0x20F1),
        (0xFE20, 0xFE30),
    ),
    "arabic and hebrew": ((0x590, 0x700), (0x620, 0x660), (0x8A0, 0x900), (0xFB1D, 0xFB50)),
    "indic": ((0x900, 0xDF5),),
    "thai, lao and tibetan": ((0xE01, 0xE5C), (0xE80, 0xEE0), (0xF00, 0xFDB), (0x1000, 0x10A0)),
    "compatibility forms": (
        (0xF900, 0xFB07), (0xFE30, 0xFFF0), (0x2100, 0x2150), (0x2460, 0x2500), (0x3200, 0x3400),
        (0x2F800, 0x2FA1E),
    ),
    "emoji": (
        (0x1F300, 0x1F700), (0x1F900, 0x1FA00), (0x1F1E6, 0x1F200), (0x200D, 0x200E), (0xFE0F, 0xFE10),
        (0x1F3FB, 0x1F400),
    ),
    "private use and controls": (
        (0xE000, 0xF8FF), (0x1, 0x20), (0x7F, 0xA0), (0xE0001, 0xE0080), (0xF0000, 0xF0100),
    ),
    "historic scripts": ((0x10000, 0x12000), (0x1D000, 0x1D800), (0x1E000, 0x1EF00), (0x20000, 0x20100)),
    "any letter": ((0x80, 0xD800), (0xE000, 0x110000)),
}  # fmt: skip
_LATE_MARKS = (
    0x898, *range(0x89C, 0x8A0), *range(0x8CA, 0x8D0), 0x9FE, 0xC3C, 0xEBA, *range(0x1ABF, 0x1ACF), 0x1DFA,
    0x10EAB, 0x10EAC, 0x10EFD, 0x10EFE, 0x10EFF, *range(0x10F46, 0x10F51), *range(0x10F82, 0x10F86), 0x11070,
    0x1133B, 0x1145E, 0x1193D, 0x1193E, 0x11943, 0x119E0, 0x11A34, *range(0x1E130, 0x1E137), 0x1E08F, 0x1E2AE,
    *range(0x1E2EC, 0x1E2F0), *range(0x1E4EC, 0x1E4F0), 0x1193B, 0x1193C, 0x16FF0, 0x16FF1,
)  # fmt: skip
"""Marks that Unicode gained late: libraries with tables of different age compose around them differently."""


def classes(added: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, texts) of each class; together at least 2,000,000 bytes.

    added  control strings and other added tokens of the bundle, spelled in the texts of two classes
    """
    for name, words in _WORDS.items():
        yield name, _filled(name, _of_words(words))
    for name, ranges in _RANGES.items():
        yield name, _filled(name, _of_ranges(ranges))
    marked = [*map(chr, _LATE_MARKS), *"aeiuoAEO", "\u0301", "\u0323", " ", "\u0316"]
    yield "late marks", _filled("late marks", _of_words(marked, glue=""))
    plain = ["<", "|>", "word", " ", "  ", "\n", "é", "e\u0301", "\u0338", "12"] * (1 + len(added) // 4)
    spelled = [*added, *(text[:-1] for text in added), *plain]
    yield "added tokens", _filled("added tokens", _of_words(spelled, glue=""))
    yield "conversations", _filled("conversations", _conversation(added))


def of_vocabulary(entries: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, texts) of two classes: every entry of a vocabulary alone, and some entries joined at random.

    Kitoken merges whatever two pieces are an entry together, the exact library only what the file lists: where
    the two differ, an entry or a few side by side show it, rare as they may be in any other text.
    """
    draw = random.Random(f"{_SEED} joined")  # noqa: S311 - text for a comparison, no secret
    yield "vocabulary entries", list(entries)
    yield "joined entries", ["".join(draw.choices(entries, k=draw.randint(2, 4))) for _ in range(JOINED_TEXTS)]


Make = Callable[[random.Random], str]


def _filled(name: str, make: Make) -> list[str]:
    draw = random.Random(f"{_SEED} {name}")  # noqa: S311 - text for a comparison, no secret
    out: list[str] = []
    held = 0
    while held < CLASS_BYTES:
        out.append(make(draw))
        held += len(out[-1].encode())
    return out


def _length(draw: random.Random) -> int:
    """Mostly long texts, every fourth a short one: borders of a text matter too."""
    return draw.randint(1, 12) if draw.random() < 0.25 else draw.randint(40, 400)


def _of_words(words: Sequence[str], glue: str = " ") -> Make:
    def make(draw: random.Random) -> str:
        seps = (glue, glue, glue, "", "\n", "  ", ", ", ". ", "\n\n", "-") if glue else ("",)
        return "".join(draw.choice(words) + draw.choice(seps) for _ in range(_length(draw)))

    return make


def _of_ranges(ranges: Sequence[tuple[int, int]]) -> Make:
    def make(draw: random.Random) -> str:
        def letter() -> str:
            if draw.random() < 0.25:
                return draw.choice(" a eE1.'\n<s")
            low, high = draw.choice(ranges)
            return chr(draw.randrange(low, high))

        return "".join(letter() for _ in range(_length(draw)))

    return make


def _conversation(added: Sequence[str]) -> Make:
    every = [word for words in _WORDS.values() for word in words]

    def say(draw: random.Random) -> str:
        return " ".join(draw.choices(every, k=draw.randint(1, 30)))

    def make(draw: random.Random) -> str:
        call = {"name": draw.choice(every), "arguments": {say(draw)[:9]: draw.random(), "q": [say(draw), None, True]}}
        turns = [
            f"user\n{say(draw)}?",
            f"assistant\n{say(draw)}.\n\n1. {say(draw)}\n2. **{say(draw)}**",
            json.dumps(call, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 2])),
            f"tool\n{draw.choice(added) if added else ''}{say(draw)}",
        ]
        return "\n".join(draw.sample(turns, k=draw.randint(1, 4)))

    return make
