"""Changes of form that keep the information of a passage; each is named in the recipes of the bases."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

CJK = frozenset({"zh", "ja"})
_WIDE = {code: code + 0xFEE0 for code in range(ord("0"), ord("9") + 1)} | {
    code: code + 0xFEE0 for code in (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
}
_HALF = str.maketrans({"，": ", ", "。": ". ", "：": ": ", "；": "; ", "、": ", ", "！": "! ", "？": "? "})
_KANA = dict(zip(
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲンァィゥェォャュョッー",
    "ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄﾅﾆﾇﾈﾉﾊﾋﾌﾍﾎﾏﾐﾑﾒﾓﾔﾕﾖﾗﾘﾙﾚﾛﾜｦﾝｧｨｩｪｫｬｭｮｯｰ",
    strict=True,
))  # fmt: skip
_VOICED = dict(zip("ガギグゲゴザジズゼゾダヂヅデドバビブベボ", "カキクケコサシスセソタチツテトハヒフヘホ", strict=True))
_KANA |= {voiced: _KANA[plain] + "ﾞ" for voiced, plain in _VOICED.items()}
_KANA |= {voiced: _KANA[plain] + "ﾟ" for voiced, plain in zip("パピプペポ", "ハヒフヘホ", strict=True)}
_HAN = r"[぀-ヿ一-鿿]"
_LIGATURES = {"ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"}


def size(text: str, language: str) -> int:
    """Count characters without white space in Chinese and Japanese; elsewhere words, a Han character as one."""
    if language in CJK:
        return len("".join(text.split()))
    return len(re.findall(rf"{_HAN}|(?:(?!{_HAN})\S)+", text))


def _wrapped_han(text: str) -> str:
    # A number or a Latin word is never cut, as no editor cuts one.
    lines = [""]
    for piece in re.findall(r"[0-9A-Za-z.:#-]+|.", text):
        if len(lines[-1]) + len(piece) > 17:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _lines(text: str) -> str:
    if len(re.findall(_HAN, text)) * 3 > len(text):
        return _wrapped_han(text)
    return "\n".join(textwrap.wrap(text, 34, break_on_hyphens=False, break_long_words=False))


def _spaces(text: str) -> str:
    spread = re.sub(rf"({_HAN})([0-9A-Za-z])", r"\1 \2", text)
    spread = re.sub(rf"([0-9A-Za-z])({_HAN})", r"\1 \2", spread)
    return re.sub(r"(?<=[,.;]) ", "  ", spread).replace(" the ", "\u00a0the\t") + " "


def _ligatures(text: str) -> str:
    for letters, ligature in _LIGATURES.items():
        text = text.replace(letters, ligature)
    return text


def _quotes(opening: str, closing: str) -> Callable[[str], str]:
    return lambda text: re.sub(r'"([^"]*)"', rf"{opening}\1{closing}", text).replace("'", "’")


def _marked(mark: Callable[[int], str]) -> Callable[[list[str]], str]:
    return lambda sentences: "\n".join(f"{mark(place)}{one}" for place, one in enumerate(sentences))


of_sentences: dict[str, Callable[[list[str]], str]] = {
    "bullets": _marked(lambda place: "• "),
    "hyphen_bullets": _marked(lambda place: "  - "),
    "starred": _marked(lambda place: "* "),
    "numbered": _marked(lambda place: f"{place + 1}. "),
    "lettered": _marked(lambda place: f"({'abcdefgh'[place]}) "),
    "numbered_zh": _marked(lambda place: f"{'一二三四五六七八'[place]}、"),
}
"""Steps that set each sentence on a line of its own behind a list marker."""

of_text: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "wide": lambda text: text.translate(_WIDE),
    "half": lambda text: text.translate(_HALF).rstrip(),
    "halfkana": lambda text: "".join(_KANA.get(one, one) for one in text),
    "spaces": _spaces,
    "lines": _lines,
    "wrapped": lambda text: "\r\n".join(textwrap.wrap(text, 52, break_on_hyphens=False)),
    "curly": _quotes("“", "”"),
    "angled": _quotes("«", "»"),
    "corner": _quotes("「", "」"),
    "curly_zh": _quotes("“", "”"),
    "ligatures": _ligatures,
    "forms": lambda text: text.replace("لا", "ﻻ").replace("لأ", "ﻷ"),
    "no_commas": lambda text: re.sub(r",(?= )", "", text),
    "semicolons": lambda text: re.sub(r"\.(?= )", ";", text),
    "semicolons_zh": lambda text: text[:-1].replace("。", "；") + "。",
    "semicolons_ar": lambda text: re.sub(r"\.(?= )", "؛", text),
    "danda": lambda text: text.replace("।", "."),
}
"""Steps that change the whole text."""
