"""Mixed texts for comparing tokenizers: scripts, marks, numbers, spaces, code, control strings, random signs."""

from __future__ import annotations

import random

PIECES = (
    "The quick brown fox", "don't I'LL we've He'D", " naïve café Größe", "夜班马上开始", "日本語とカタカナ",
    "مرحبا بالعالم", "สวัสดีครับ", "नमस्ते दुनिया", "한국어 문장", "שלום עולם", "Привет, мир", "Γειά σου",
    "e\u0301 a\u030a n\u0303", "\u1112\u1161\u11ab", "👩\u200d👩\u200d👧 🇩🇪 🏳️\u200d🌈", "①②③ ½ ٣٤٥ १२३ 五百",
    "3.14159", "1234567", "12", "2026-11-30", "$5 €7 100%", "   ", "\n", "\n\n\n", "\r\n", "\t\t", " \n \n",
    "\u00a0", "\u3000", "\u2003x", "\u200b", "\u2581", "def f(x):\n    return {'a': [x, 1]}", "a_b-c/d\\e|f",
    "http://example.org/?q=1&r=2#x", "<b>bold</b>", "!!!???...", "```json\n{}\n```", "CamelCaseWord XMLHttp",
    "ǅ ǈ ª º ß ſ K", "²³¹ ⅻ", "©®™", "—–…“”", "\x00", "\x1b[0m", "\x7f", "\U000e0041", "ﬀ ﬁ", "ÅÅ", "𝒜𝓑 𐐀",
)  # fmt: skip
RANGES = ((0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE7F), (0x1E00, 0x2070),
          (0x3040, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0x1F300, 0x1F600))  # fmt: skip


def mixed_texts(seed: int, count: int, spellings: tuple[str, ...] = ()) -> list[str]:
    """Return so many texts of one to eight pieces; `spellings` are mixed in now and then."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 8)):
            chance = draw.random()
            if spellings and chance < 0.1:
                parts.append(draw.choice(spellings))
            elif chance < 0.2:
                low, high = draw.choice(RANGES)
                parts.append("".join(chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 6))))
            else:
                parts.append(draw.choice(PIECES))
            if draw.random() < 0.4:
                parts.append(" " * draw.randint(1, 3))
        found.append("".join(parts))
    return found
