"""What counts as the same number, unit, date, time, file or name, and what does not (R93)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.compaction.literals import literals, missing
from planner.compaction.literals_numbers import numeral, plain, words


def flaw(sentence: str, source: str) -> str | None:
    """Return the kind of literal that the sentence has and the source has not."""
    return missing(literals(sentence), [literals(source)])


SAME = [
    # numbers
    ("1240 KB", "1,240 KB"), ("89 euro", "89.00 euro"), ("３２ euro", "32 euro"),
    ("12000 requests", "12'000 requests"), ("12000 rows", "12\u00a0000 rows"),
    ("one thousand two hundred kg", "1,200 kg"), ("ninety-five guests", "95 guests"),
    ("a hundred and fifty bags", "150 bags"), ("30 million rows", "三千万行"), ("1.85万元", "18,500 元"),
    ("120,000元", "十二万元"), ("两万五千", "25,000"), ("一百零五个", "105"), ("一点五倍", "1.5 倍"),
    ("1,5 liters", "1.5 l"), ("four hundred and fifty euro", "450 euro"), ("the 5th", "5 November"),
    ("twelve", "ended at 十二点"), ("zero errors", "0 errors"), ("3号仓库", "三号仓库"), ("第三季度 3 项", "三项"),
    # units and currencies
    ("EUR 32", "32 euro"), ("€32", "32 欧元"), ("¥80", "八十元"), ("CNY 80", "80 yuan"), ("$6,400", "6,400 USD"),
    ("25 kilograms", "25 公斤"), ("64kB", "64 KB"), ("62毫克/升", "62 mg/l"), ("0.3%", "百分之零点三"),
    ("five percent", "5 %"), ("18℃", "18 摄氏度"), ("12.4 degrees Celsius", "12.4 °C"), ("500ms", "500 毫秒"),
    ("1.5 litres", "1.5 L"), ("four years", "四年零三个月"), ("3-year plan", "三年"), ("5 km", "5 公里"),
    ("5 kg", "5 to 10 kg"), ("31 min", "三十一分钟"), ("五千克", "5 kg"), ("8 h", "eight hours"), ("£5", "5 pounds"),
    # dates
    ("December 12th", "12 December"), ("12 Dec 2026", "2026-12-12"), ("十二月三日", "3 December"),
    ("on 11 Nov", "11月11日"), ("30 June 2031", "2031年6月30日"), ("the November bill", "3 November"),
    ("10 月 15 日", "十月十五日"), ("from 28 November", "28-30 November"), ("May 5", "the 5th of May"),
    ("2026/12/01", "1 December 2026"),
    # times
    ("3 pm", "15:00"), ("3 p.m.", "下午三点"), ("2:30 pm", "下午2点半"), ("21:20", "晚上九点二十分"),
    ("02:00", "凌晨两点"), ("ten pm", "22:00"), ("8:05", "08:05-09:02"), ("12点结束", "十二点才结束"),
    ("八点三十分", "早上八点半"), ("noon", "中午12点"), ("7 in the evening", "19:00"), ("5 o'clock", "5 pm"),
    # files and names
    ("reader.py", "src/import/reader.py"), ("src/import/reader.py", "reader.py"),
    ("see lt-0917.log", "out/lt-0917.log"), ("PO3381", "PO-3381"), ("PO-3381", "PO 3381"),
    ("release 2.4.0", "version 2.4.0"), ("Safari15", "Safari 15"), ("order 502", "OK-502"), ("g7302", "G7302"),
    ("job bk-20261130", "backup/bk-20261130.sha256"),
    ("https://example.org/a/b?x=1", "see https://example.org/a/b?x=1."),
    # and the other way round
    ("32 euro", "EUR 32"), ("32 欧元", "€32"), ("EUR450", "450 euro"), ("2026年", "in 2026"),
    ("the 3rd try", "the third try"),
    ("5 May 2026", "in 2026, on 5 May"), ("2:30 pm", "下午 2:30"), ("14:30", "下午2:30"), ("5 kg", "5, 6 and 7 kg"),
    ("It was 2026.then", "2026"),
    ("10,000 euro", "10k euro"), ("10k rows", "10000 rows"), ("$1.2M", "1.2 million dollars"), ("€3k", "3,000 euro"),
    ("three times", "3x"), ("3x", "three times"), ("v2", "version 2"), ("version 2.4", "v2.4"),
    ("5 November 2026", "5/11/2026"), ("05.11.2026", "November 5, 2026"), ("11/5/2026", "2026-11-05"),
    # no literals at all
    ("找一个人", ""), ("u.s.a and z.b", ""),
    ("No one is the one.", ""), ("一律暂时不做，一起等。", ""), ("may the second try work", ""),
    ("万一不行，十分抱歉，千万别急。", ""), ("周五和星期三", ""), ("便宜一点", ""),
    ("e.g. this, i.e. that, and/or", ""), ("二等座", "second class"), ("Four second-class seats", "四张二等座"),
    ("三五天", ""), ("a month's wages", ""), ("</tool_response> fine", ""),
]  # fmt: skip

OTHER = [
    ("59 euro", "95 euro", "number"), ("1,240 KB", "1.24 KB", "number"), ("八百元", "八十元", "number"),
    ("五万一千元", "一万五千元", "number"), ("41", "43", "number"), ("87.50 元", "87 元", "number"),
    ("12 rows", "1 and 2 rows", "number"), ("twenty", "twelve", "number"), ("三百万行", "三千万行", "number"),
    ("7302", "G7302", "number"), ("95 dollars", "95 euro", "unit"), ("64 MB", "64 KB", "unit"),
    ("5 g", "5 mg", "unit"), ("3 weeks", "3 days", "unit"), ("八十欧元", "八十元", "unit"),
    ("800 minutes", "800 ms", "unit"), ("50 µg/l", "50 mg/l", "unit"), ("30 euro", "30 sacks, 5 euro", "unit"),
    ("5 kg", "5 boxes of 10 kg", "unit"), ("2 years", "2 months", "unit"), ("14 May", "14 March", "date"),
    ("3 November", "1 November, 5 November", "date"), ("30 June 2030", "30 June 2031", "date"),
    ("12月6日", "12月5日", "date"), ("12 December 2026", "12 December", "date"), ("in May", "in June", "date"),
    ("6/11/2026", "5 November 2026", "date"), ("5/11/2025", "5/11/2026", "date"), ("$1.2M", "$1.2k", "number"),
    ("v3", "v2", "number"), ("5 million rows", "5m of wire", "number"),
    ("4 pm", "3 pm", "time"), ("上午三点", "下午三点", "time"), ("16:30", "04:30", "time"),
    ("九点半", "早上八点半", "time"), ("noon", "13:00", "time"), ("loader.py", "src/import/reader.py", "file"),
    ("other/reader.py", "src/import/reader.py", "file"), ("a.txt", "a.csv", "file"),
    ("https://example.org/c", "https://example.org/a", "file"), ("PO-3318", "PO-3381", "name"),
    ("2.5.0", "2.4.0", "name"), ("V-60", "V-608", "name"), ("p95", "p99", "name"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "source"), SAME)
def test_two_spellings_of_one_thing_are_one(sentence: str, source: str) -> None:
    """The source holds every literal of the sentence, spelled otherwise."""
    assert None is flaw(sentence, source)


@pytest.mark.parametrize(("sentence", "source", "kind"), OTHER)
def test_another_literal_is_missing(sentence: str, source: str, kind: str) -> None:
    """What the source does not hold is found, and its kind is named."""
    assert kind == flaw(sentence, source)


PIECES = st.sampled_from((
    "12", "1,240", "1.5", "ninety-five", "一百三十", "零", "万", "点", "半", "百分之", "%", "€", "kg", "元", "pm",
    ":30", "12月", "3日", "May", "5th", "2026-12-01", "a.py", "src/", "LT-09", "2.4.0", " ", "-", "/", "and", "one",
    "第", "周", "\n", "，", "é", "🙂", "一", "http://x", "'", ".", "three hundred", "ten am", "下午", "二十", "5 to ",
))  # fmt: skip
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@given(TEXTS)
def test_a_text_holds_its_own_literals(text: str) -> None:
    """Whatever the text, nothing of it is missing in itself: a sentence copied letter for letter always passes."""
    assert None is flaw(text, text)


@given(TEXTS, TEXTS, TEXTS)
def test_more_sources_never_take_away(sentence: str, source: str, other: str) -> None:
    """What one source holds is held with another beside it."""
    read = literals(sentence)
    alone = missing(read, [literals(source)])
    if alone is None:
        assert None is missing(read, [literals(source), literals(other)])


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    """No text raises, and reading it twice gives the same."""
    assert literals(text) == literals(text)


ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
    "seventeen eighteen nineteen".split()  # fmt: skip
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def english(number: int) -> str:
    """Spell a number the way it is said: an independent oracle."""
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = english(number % size) if number % size else ""
            joint = " and " if rest and number % size < 100 else " "
            return f"{english(number // size)} {name}{joint if rest else ''}{rest}"
    if number >= 20:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    return ONES[number]


def chinese(number: int) -> str:
    """Spell a number in Chinese by groups of four places: an independent oracle."""
    if number >= 10**8:
        rest = number % 10**8
        gap = "零" if rest and rest < 10**7 else ""
        return f"{chinese(number // 10**8)}亿{gap}{chinese(rest) if rest else ''}"
    if number >= 10**4:
        rest = number % 10**4
        gap = "零" if rest and rest < 1000 else ""
        return f"{chinese(number // 10**4)}万{gap}{chinese(rest) if rest else ''}"
    out, started, zero = "", False, False
    for size, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // size % 10
        if digit:
            out += ("零" if zero and started else "") + "零一二三四五六七八九"[digit] + name
            started, zero = True, False
        else:
            zero = True
    return out or "零"


NUMBERS = st.one_of(st.integers(0, 200), st.integers(0, 10**10), st.integers(0, 100).map(lambda n: n * 1000))


@given(NUMBERS)
@example(1_203_045_067)
@example(1_0002_0003)
def test_number_words_mean_what_they_say(number: int) -> None:
    """Spelled by an independent speller, a number is read back."""
    assert [str(number)] == list(words(english(number)))
    assert str(number) == numeral(chinese(number))


@given(NUMBERS)
def test_every_spelling_of_a_number_is_found_in_every_other(number: int) -> None:
    """Digits, grouped digits, words and numerals of one number stand for each other behind a unit."""
    spellings = [f"{number} kg", f"{number:,} kg", f"{english(number)} kg", f"{chinese(number)}公斤"]
    for sentence in spellings:
        for source in spellings:
            assert None is flaw(sentence, source), (sentence, source)


@given(NUMBERS, NUMBERS)
def test_two_numbers_are_never_taken_for_each_other(one: int, other: int) -> None:
    """Another number in any spelling is missing; one and 一 alone are no literals."""
    if other in (1, one):
        return
    for sentence in (f"{other} kg", f"{english(other)} kg", f"{chinese(other)}公斤"):
        for source in (f"{one} kg", f"{english(one)} kg", f"{chinese(one)}公斤"):
            if not chinese(other).startswith(("百", "千", "万", "亿")):
                assert "number" == flaw(sentence, source), (sentence, source)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0012.500", "12.5"), ("0", "0"), ("00", "0"), ("7" * 5000, "7" * 5000), ("1.0", "1"), ("0.05", "0.05")],
)
def test_a_number_has_one_spelling(text: str, wanted: str) -> None:
    """Leading and trailing zeros go; five thousand digits are no trouble."""
    assert wanted == plain(text)
    assert f"{wanted}0000" == plain(text, 4) or "." in wanted or wanted == "0"


def test_colloquial_numerals_stand_one_place_lower() -> None:
    """两万五 is 25,000 and 三百二 is 320, while 一百零二 is 102."""
    assert ["25000", "320", "102"] == [numeral("两万五"), numeral("三百二"), numeral("一百零二")]


def test_no_numeral_is_none() -> None:
    """A fraction without digits, an empty text and an endless one have no value."""
    assert [None, None, None] == [numeral("三点十"), numeral(""), numeral("一" * 30)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("twenty and five", ["20", "5"]), ("twenty eleven", ["20", "11"]), ("twenty zero", ["20", "0"]),
        ("three thousand two million", ["3002", "1000000"]), ("two million three thousand", ["2003000"]),
        ("five six", ["5", "6"]), ("hundred and one", ["101"]), ("a hundred", ["100"]), ("twelve hundred", ["1200"]),
    ],
)  # fmt: skip
def test_where_the_grammar_breaks_a_new_number_begins(text: str, wanted: list[str]) -> None:
    """Neighbours that make no number together are two; what does is one."""
    assert wanted == list(words(text))
