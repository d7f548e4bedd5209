"""Characters that are not shown: which of them say something in their place, and which only hide (threats.md §2.8).

Judged by ranges of code points, never by a table of the Python in use, so that every version counts the same.
"""

from __future__ import annotations

import re

_CANDIDATE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Default-ignorable code points and invisible controls; soft hyphens, fillers and tags among them."""
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
# Arabic, Syriac, N'Ko, the scripts of India and South-East Asia, Mongolian: there a joiner changes what is shown.
_JOINING = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1a20-\u1aaf\u1b00-\u1bff"
    "\u1cd0-\u1cff\ua8e0-\ua8ff\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff"
)
_ARABIC_HEBREW = re.compile("[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_DIRECTIONS = "\u200e\u200f\u061c"
_FLAGS = ("gbeng", "gbsct", "gbwls")
_FLAG = re.compile(
    "(?<=\U0001f3f4)(?:" + "|".join("".join(chr(0xE0000 + ord(at)) for at in name) for name in _FLAGS) + ")\U000e007f"
)
"""The tags of the three flags of nations that have an emoji."""
_is_emoji = re.compile(f"[{_EMOJI}\ufe0f]").fullmatch
_is_joining = re.compile(f"[{_JOINING}]").fullmatch
# Scripts that write no spaces: a zero width space says where a line may break.
_is_unspaced = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff]").fullmatch
_is_mongolian = re.compile("[\u1820-\u18af]").fullmatch
_takes_presentation = re.compile(f"[0-9#*{_EMOJI}]").fullmatch
_is_ideograph = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]").fullmatch
_takes_variant = re.compile(
    "[\u1000-\u109f\u2200-\u22ff\u3000-\u9fff\uf900-\ufaff\uff01-\uff1f\U00020000-\U0003ffff]"
).fullmatch


def hidden_places(text: str) -> list[int]:
    """Return where characters stand that hide: invisible, and without a use where they are.

    A joiner inside an emoji or beside a letter that joins, one presentation selector after an emoji or a digit, a
    variant of an ideograph, a direction mark in Hebrew or Arabic text and a break in Thai or Khmer are no finding.

    >>> hidden_places("pass\\u200bword"), hidden_places("\\U0001f469\\u200d\\U0001f4bb"), hidden_places("plain")
    ([4], [], [])
    """
    if text.isascii() or _CANDIDATE.search(text) is None:
        return []
    used: set[int] = set()
    if "\U0001f3f4" in text:
        used.update(at for match in _FLAG.finditer(text) for at in range(match.start(), match.end()))
    found = [match.start() for match in _CANDIDATE.finditer(text)]
    if any(mark in text for mark in _DIRECTIONS) and _ARABIC_HEBREW.search(text):
        used.update(at for at in found if text[at] in _DIRECTIONS)
    return [at for at in found if at not in used and _hides(text, at)]


def count_hidden(text: str) -> int:
    """Return how many characters of a text hide."""
    return 0 if text.isascii() else len(hidden_places(text))


def strip_hidden(text: str) -> str:
    """Return a text without the characters that hide; taking one away may leave another without its use.

    >>> strip_hidden("pass\\u200bword"), strip_hidden("\\u0645\\u06cc\\u200c\\u062e") == "\\u0645\\u06cc\\u200c\\u062e"
    ('password', True)
    """
    places = hidden_places(text)
    while places:
        gone = frozenset(places)
        text = "".join(letter for at, letter in enumerate(text) if at not in gone)
        places = hidden_places(text)
    return text


def _hides(text: str, at: int) -> bool:
    letter = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if letter in "\u200c\u200d":
        if _is_joining(before):
            return False
        in_emoji = letter == "\u200d" and _is_emoji(before) and _is_emoji(after) and after != "\ufe0f"
        return not in_emoji
    if letter == "\u200b":
        return not (_is_unspaced(before) or _is_unspaced(after))
    if letter in "\ufe0e\ufe0f":
        return not _takes_presentation(before)
    if "\ufe00" <= letter <= "\ufe0d":
        return not _takes_variant(before)
    if "\U000e0100" <= letter <= "\U000e01ef":
        return not _is_ideograph(before)
    if "\u180b" <= letter <= "\u180f":
        return not _is_mongolian(before)
    return True
