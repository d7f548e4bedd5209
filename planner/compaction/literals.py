"""Literals of a text in one fixed spelling, and whether a source holds those of a sentence (R93, design.md §8).

A literal is a number with its unit, a date, a time of day, a file name, or a name with a digit in it. Sentence and
source are read by the same rules, and each counts by what it means: 一万五千元 is 15,000 yuan, 3 pm is 15:00.
What is no literal for certain is only read in a source, never asked for: "one" and 一, an ordinal word, an idiom.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.compaction.literals_dates import GAP, Date, Moments, take_moments
from planner.compaction.literals_numbers import NUMERALS, POWERS, WORDS, numeral, plain, words
from planner.compaction.literals_units import AFTER, BEFORE, unit_of

_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—−", "-") | {"，": ", ", "’": "'", "‘": "'"})
_SPACED_GROUPS = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")

_NAME = r"[a-z0-9_][a-z0-9_.+-]*"
_URL = re.compile(r"[a-z]{2,12}://[^\s<>\"'()\x1f\u3000-\uffef]+")
_PATH = re.compile(rf"(?<![a-z0-9_./-])(?:\.{{0,2}}/)?(?:{_NAME}/)*{_NAME}(?![a-z0-9_/])")
_EXTENSION = re.compile(r"[a-z][a-z0-9]{0,5}|7z|sha256")
_KNOWN_EXTENSIONS = frozenset({
    "log", "txt", "csv", "json", "xml", "yaml", "yml", "pdf", "md", "jpg", "jpeg", "png", "gif", "zip", "tar", "gz",
    "sql", "py", "js", "ts", "go", "rs", "java", "html", "css", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "mp3",
    "mp4", "wav", "db", "bak", "cfg", "ini", "toml", "sh",
})  # fmt: skip
_MIXED = re.compile(
    r"(?<![a-z0-9])(?:[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*|[0-9]+[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*)(?![a-z0-9])"
)
_VERSION = re.compile(r"(?<![a-z0-9.])v?([0-9]{1,9}(?:\.[0-9]{1,9}){2,})(?![a-z0-9]|\.[0-9])")
_ORDINAL = re.compile(r"(?<![a-z0-9.,])([0-9]+)(?:st|nd|rd|th)(?![a-z0-9])")
_ORDINAL_WORDS = {
    name: str(place)
    for place, name in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth".split(), 1)
}
_PLAIN_DIGITS = r"[0-9]{1,3}(?:[,'][0-9]{3})+(?:\.[0-9]+)?(?![0-9])|[0-9]+(?:[.,][0-9]+)?"
_SHORT = re.compile(
    rf"(?P<before>{BEFORE})?(?<![a-z0-9.,])[ ]?(?P<digits>{_PLAIN_DIGITS})(?P<suffix>k|m|bn)(?![a-z0-9])"
)
_SHORT_POWERS = {"k": 3, "m": 6, "bn": 9}
_POWER = "|".join(sorted(POWERS, key=len, reverse=True))
_NUMERAL = rf"[{NUMERALS}]+(?:点[零〇一二三四五六七八九]+)?"
_NUMBER = re.compile(
    rf"(?P<before>{BEFORE})?[ ]?(?:(?P<percent>百分之)(?:(?P<of>{_PLAIN_DIGITS})|(?P<some>{_NUMERAL}))"
    rf"|(?P<digits>{_PLAIN_DIGITS})(?:\s?(?P<power>{_POWER})(?![a-z克米瓦]))?"
    rf"|(?P<words>{WORDS})|(?P<numeral>{_NUMERAL}))"
)
_BETWEEN = re.compile(r"\s*(?:-|~|/|,|、|to|and|or|of|by|x|×|至|到|和|或|及)\s*")
# What is counted behind a single Chinese digit; elsewhere such a digit is mostly part of a word.
_MEASURES = (
    "个名位人口户家次天日年月周期岁条件张支枝只台套袋箱包瓶盒本份页行列种类项倍号楼层间座辆架艘匹头颗粒片段轮场批组队桌道门句篇封"
    "趟遍折股"
)
_WEEKDAY = ("周", "星期", "礼拜", "第")


@dataclass(slots=True)
class Found:
    """The literals of a text. `numbers` pairs a value with its unit.

    `loose` numbers and `aside` names are read in a source and never asked for.
    """

    files: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    moments: Moments = field(default_factory=Moments)
    numbers: set[tuple[str, str | None]] = field(default_factory=set)
    loose: set[tuple[str, str | None]] = field(default_factory=set)
    letters: set[str] = field(default_factory=set)

    def asks(self) -> bool:
        """Tell whether a source can be asked for anything of this text."""
        moments = self.moments
        return bool(self.files or self.names or self.numbers or moments.dates or moments.either or moments.times)


def folded(text: str) -> str:
    """Return a text in lower case with one spelling of widths, dashes, quotes and spaces between digit groups."""
    plainer = _SPACED_GROUPS.sub("", text.translate(_DASHES))
    return unicodedata.normalize("NFKC", plainer).translate(_DASHES).lower()


def literals(text: str) -> Found:
    """Return the literals of a text. Never raises, whatever the text."""
    found = Found()
    rest = folded(text)
    found.letters = set(re.findall("[a-z]+", rest))
    rest = _URL.sub(lambda match: _file(match[0].rstrip(".,;:!?"), found), rest)
    rest = _PATH.sub(lambda match: _path(match[0], found), rest)
    rest = take_moments(rest, found.moments)
    rest = _SHORT.sub(lambda match: _short(match, found), rest)
    rest = _VERSION.sub(lambda match: _named(match[1], found), rest)
    rest = _ORDINAL.sub(lambda match: _bare(match[1], found), rest)
    rest = _MIXED.sub(lambda match: _mixed(match[0], found), rest)
    _numbers(rest, found)
    return found


def missing(sentence: Found, sources: Iterable[Found]) -> str | None:
    """Return the kind of the first literal of a sentence that no source holds, or None.

    Kinds: `file`, `date`, `time`, `name`, `number`, `unit`.
    """
    shown = list(sources)
    if any(not any(_same_path(path, other) for one in shown for other in one.files) for path in sentence.files):
        return "file"
    bare = {value for one in shown for value, _ in one.numbers | one.loose} | {
        value for one in shown for value in one.moments.bare
    }
    dates = {date for one in shown for date in one.moments.dates.union(*one.moments.either)}
    for wanted in ({date} for date in sentence.moments.dates), sentence.moments.either:
        if any(not any(_same_date(date, other, bare) for date in one for other in dates) for one in wanted):
            return "date"
    times = [time for one in shown for time in (*one.moments.times, *one.moments.weak)]
    if any(not any(time & other for other in times) for time in sentence.moments.times):
        return "time"
    names = {name for one in shown for name in one.names | one.aside}
    letters = {word for one in shown for word in one.letters}
    if any(not _same_name(name, names, letters, bare) for name in sentence.names):
        return "name"
    numbers = {pair for one in shown for pair in one.numbers | one.loose}
    for value, unit in sorted(sentence.numbers, key=str):
        if value not in bare:
            return "number"
        if unit is not None and (value, unit) not in numbers:
            return "unit"
    return None


def _same_path(path: str, other: str) -> bool:
    """Tell whether two paths are one, or one is the end of the other: a base name stands for its path."""
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")


def _same_date(date: Date, other: Date, bare: set[str]) -> bool:
    """Tell whether a source has the date; what the source leaves open must stand there as a number."""
    (year, month, day), (other_year, other_month, other_day) = date, other
    if month != other_month or (day is not None and day != other_day):
        return False
    return year is None or year == other_year or (other_year is None and str(year) in bare)


def _same_name(name: str, names: set[str], letters: set[str], bare: set[str]) -> bool:
    """Tell whether a name with digits stands in a source, also apart: "Safari15" is found in "Safari 15"."""
    if name in names:
        return True
    parts = re.findall("[a-z]+|[0-9]+", name)
    return all(part in letters if part.isalpha() else plain(part) in bare for part in parts)


def _file(path: str, found: Found) -> str:
    found.files.add(path.removeprefix("./").lstrip("/"))
    # The parts of a path are names too: a job may be called like its log.
    for part in re.split(r"[/.]", path):
        if re.search("[0-9]", part):
            found.aside.add(_squeezed(part))
    return GAP


def _path(text: str, found: Found) -> str:
    """Record a file name or path; leave what only looks like one: 2.4, i.e., and/or, mg/l, 3/4."""
    kept = text.rstrip(".-+")
    tail = text[len(kept) :]
    *folders, base = [part for part in kept.split("/") if part.strip(".")] or [""]
    stem, _, extension = base.rpartition(".")
    is_file = bool(stem) and _EXTENSION.fullmatch(extension) is not None
    is_file = is_file and (len(stem) > 1 or extension in _KNOWN_EXTENSIONS)
    if is_file and re.fullmatch("[0-9.]+", stem):
        is_file = extension in _KNOWN_EXTENSIONS
    if is_file and re.fullmatch("(?:[a-z]\\.)+[a-z]", base):
        is_file = False
    deep = bool(folders) and (len(folders) > 1 or re.search("[0-9_]", kept) is not None)
    if deep and re.match("[0-9]", kept) and not is_file:
        deep = False
    return _file(kept, found) + tail if is_file or deep else text


def _squeezed(name: str) -> str:
    return re.sub("[-_.]", "", name)


def _named(name: str, found: Found) -> str:
    found.names.add(name)
    return GAP


def _bare(digits: str, found: Found) -> str:
    found.numbers.add((plain(digits), None))
    return GAP


def _short(match: re.Match[str], found: Found) -> str:
    """Record 10k, and $1.2m where a currency says that m is no metre; leave the rest."""
    if match["suffix"] != "k" and not match["before"]:
        return match[0]
    after = AFTER.match(match.string, match.end())
    unit = unit_of(match["before"]) if match["before"] else unit_of(after[1], after[2]) if after else None
    found.numbers.add((plain(match["digits"], _SHORT_POWERS[match["suffix"]]), unit))
    return GAP


def _mixed(text: str, found: Found) -> str:
    """Record a name with a digit in it (LT-0917, p99, 3D); leave words, 64kb and EUR450 to others."""
    if not re.search("[0-9]", text):
        return text
    if re.fullmatch("v[0-9]+(?:\\.[0-9]+)?", text):
        return _bare(text[1:], found)
    if text[0].isdigit():
        digits = re.match("[0-9]+", text)
        rest = text[digits.end() :] if digits else ""
        unit = AFTER.match(rest)
        if (unit and unit.end() == len(rest)) or rest in POWERS or rest == "x":
            return text
    if re.fullmatch(rf"{BEFORE}[0-9]+", text):
        return text
    found.names.add(_squeezed(text))
    # "order 502" names OK-502 well enough to be read, not to be asked for.
    apart = re.fullmatch("[a-z_-]+[-_]([0-9]+)", text)
    if apart:
        found.loose.add((plain(apart[1]), None))
    return GAP


def _numbers(text: str, found: Found) -> None:
    """Record the numbers of a text from right to left, so that "5 to 10 kg" gives both their unit."""
    behind: tuple[str, int] | None = None
    for match in reversed(list(_NUMBER.finditer(text))):
        values, end = _values(match, text)
        after = AFTER.match(text, end)
        unit = unit_of(after[1], after[2]) if after else None
        if match["before"]:
            unit = unit_of(match["before"])
        if match["percent"]:
            unit = "%"
        if unit == "year" and match["digits"] and len(match["digits"]) == 4:
            unit = None
        loose = _is_loose(match, text, end)
        target = found.loose if loose else found.numbers
        target |= {(value, unit) for value in values}
        if unit is None and behind is not None and _BETWEEN.fullmatch(text, end, behind[1]):
            unit = behind[0]
            found.loose |= {(value, unit) for value in values}
        behind = (unit, match.start()) if unit is not None else None
    found.loose |= {(place, None) for name, place in _ORDINAL_WORDS.items() if name in found.letters}


def _values(match: re.Match[str], text: str) -> tuple[list[str], int]:
    """Return the values of a match and where the number ends: 五千克 is 5 kg, so its 千 is the unit's."""
    if match["words"]:
        return list(words(match["words"])), match.end()
    digits = match["digits"] or match["of"]
    if digits:
        # A comma that groups no thousands is a decimal one.
        marked = re.sub("[,'](?=[0-9]{3}(?:[^0-9]|$))", "", digits).replace(",", ".")
        return [plain(marked, POWERS[match["power"]] if match["power"] else 0)], match.end()
    written = match["numeral"] or match["some"]
    end = match.end()
    if len(written) > 1 and written.endswith("千") and text[end : end + 1] in ("克", "米", "瓦"):
        written, end = written[:-1], end - 1
    value = numeral(written)
    return ([value] if value is not None else []), end


def _is_loose(match: re.Match[str], text: str, end: int) -> bool:
    """Tell whether a match may be no number at all, so that no source is asked for it."""
    if match["words"]:
        return match["words"] in ("one", "a one")
    written = match["numeral"]
    if written is None:
        return False
    if text.endswith(_WEEKDAY, 0, match.start()):
        return True
    if written[0] in "百千万亿" or written == "一":
        return True
    if len(written) == 1:
        return text[end : end + 1] not in _MEASURES and AFTER.match(text, end) is None
    # 三五天, 七八个: two digits side by side mean "some".
    return len(written) == 2 and not set(written) & set("十百千万亿拾佰仟萬億〇零")
