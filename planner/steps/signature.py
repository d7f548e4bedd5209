"""What a text says, as tokens that survive another form: the signature by which near-duplicates are found (§5, move 0).

Form is folded away: width, ligatures, case, white space, punctuation, list markers and small words without sense.
Numbers, signs and negations are never folded: another number is another text. Texts in Han, Kana, Hangul and Thai are
taken by characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field

_MARKER = re.compile(
    r"^[ \t>]*(?:(?:[-*+•·–—]|\(?(?:[0-9]{1,2}|[a-zA-Z])[.)、])[ \t]+|[一二三四五六七八九十]{1,2}、|[>|][ \t]*)+",
    re.MULTILINE,
)
_SUPERSCRIPT = str.maketrans(dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", (f"^{n % 10}" for n in range(20)), strict=True)))
_WIDE = _SUPERSCRIPT | str.maketrans({"，": ", ", "：": ": ", "、": ", "})
_BY_CHARACTER = (
    "\u2e80-\u2fff\u3005-\u3007\u3041-\u312f\u31a0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0e7f"
    "\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W\d_{_BY_CHARACTER}]"
_MARKS = "[\u0300-\u036f\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0962\u0963\u200c\u200d]"
_TOKEN = re.compile(
    rf"(?P<number>{_LETTER}+\d[A-Za-z0-9]*|(?:(?<![A-Za-z0-9.)])[-−]\s?)?\d+(?:[.,/\-–~^]\d+|:\d\d(?!\d))*)"
    rf"|(?P<han>[{_BY_CHARACTER}])"
    rf"|(?P<word>{_LETTER}+(?:{_MARKS}+{_LETTER}*)*)"
    r"|(?P<sign>[%‰°^_<>=≤≥≠±×÷+/#@&$€£¥₹])"
    r"|(?P<stop>[.!?;。！？；।॥؟؛\n])"
)
_NEUTRAL = frozenset(
    "a an the and also as each every any some this that these those which who it its is are be been being was were "
    "do does so then please kindly shall there of their they them he she his her you your we our us i my such still "
    "just too "
    "的 地 得 了 请 將 将 会 就 也 还 便 即 则 都 您 你 我 吧 呢 吗 之 其 该 此 这 那 並 并 且 和 与 及 "
    "是 为 在 于 给 者 话 再 用 经 应 "
    "は が を に へ で と も の ね よ や な た だ す ま し お ご そ こ れ て い る う "
    "و كما أن إن قد هو هي هذا هذه ذلك التي الذي ثم ف "
    "और पर है हैं भी तो ही यह वह कि तथा को का की के में से ने".split()
)
NEGATIONS = frozenset(
    "not no never none nor without neither cannot don doesn isn aren won t "
    "不 没 沒 未 非 勿 无 無 别 莫 否 ず ぬ ん "
    "لا لم لن ليس غير دون بدون न नहीं मत बिना".split()
)
_NUMERALS = frozenset("一二三四五六七八九十百千万亿两半")
_PREFIXED = frozenset("mw mv mpa mohm mj mhz mwh mbit mb mbq mgy msv ma ms".split())
_ENDINGS = ("ing", "ied", "ies", "ed", "es", "s", "d")


@dataclass(frozen=True, slots=True)
class Signature:
    """`sentences` are the tokens of each sentence in order, `facts` its numbers and signs, sorted.

    `size` counts tokens. Without any token only the same `exact` text is the same.
    """

    sentences: tuple[tuple[str, ...], ...] = field(repr=False)
    facts: tuple[str, ...] = field(repr=False)
    size: int = 0
    exact: str = field(default="", repr=False)

    def counts(self) -> Counter[str]:
        """Return how often each token occurs."""
        return Counter(token for sentence in self.sentences for token in sentence)


def signature(text: str) -> Signature:
    """Return the signature of a text.

    >>> signature("Take 5 ml, daily.") == signature("take 5\\u00a0ML daily")
    True
    """
    folded = unicodedata.normalize("NFKC", _MARKER.sub("", text).translate(_WIDE))
    one_case = folded.isupper() or folded.islower()
    sentences: list[tuple[str, ...]] = []
    now: list[str] = []
    facts: list[str] = []
    for found in _TOKEN.finditer(folded):
        kind, spelled = found.lastgroup, found.group()
        if kind == "stop":
            if now and spelled != "\n":
                sentences.append(tuple(now))
                now = []
            continue
        after_number = not one_case and bool(now) and now[-1][-1].isdigit()
        token = _token(spelled, kind or "", after_number=after_number)
        if token in _NEUTRAL:
            continue
        now.append(token)
        if kind in ("number", "sign") or token in _NUMERALS:
            facts.append(token)
    if now:
        sentences.append(tuple(now))
    size = sum(map(len, sentences))
    return Signature(tuple(sentences), tuple(sorted(facts)), size, "" if size else " ".join(folded.split()))


def _token(spelled: str, kind: str, *, after_number: bool) -> str:
    if kind == "number":
        return spelled.replace("−", "-").replace(" ", "").casefold()
    if kind != "word":
        return spelled
    word = spelled.casefold()
    if after_number and spelled[0] in "mM" and word in _PREFIXED:
        return spelled[0] + word[1:]  # milli and mega are two units
    if word.isascii() and len(word) > 4:
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
        word = word.rstrip("e")
    return word
