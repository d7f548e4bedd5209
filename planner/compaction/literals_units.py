"""Units and currencies with every spelling that means the same (R93); one table, longest spelling first."""

from __future__ import annotations

import re

_SPELLINGS: dict[str, str] = {
    "EUR": "eur euro euros € 欧元",
    "USD": "usd dollar dollars us$ $ 美元 美金",
    "CNY": "cny rmb yuan ¥ 元 人民币 块钱",
    "JPY": "jpy yen 日元",
    "HKD": "hkd 港元 港币",
    "CHF": "chf franc francs 瑞士法郎",
    # Weight and currency share the word, so they share the unit.
    "pound": "gbp pound pounds £ lb lbs 英镑 磅",
    "µg": "μg ug mcg microgram micrograms 微克",
    "mg": "mg milligram milligrams milligramme 毫克",
    "g": "g gram grams gramme grammes 克",
    "kg": "kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes 公斤 千克",
    "t": "t ton tons tonne tonnes 吨",
    "jin": "斤",
    "mm": "mm millimetre millimetres millimeter millimeters 毫米",
    "cm": "cm centimetre centimetres centimeter centimeters 厘米",
    "m": "m metre metres meter meters 米",
    "km": "km kilometre kilometres kilometer kilometers 公里 千米",
    "mile": "mile miles 英里",
    "ml": "ml millilitre millilitres milliliter milliliters 毫升",
    "l": "l litre litres liter liters 升",
    "ms": "ms msec millisecond milliseconds 毫秒",
    "µs": "μs microsecond microseconds 微秒",
    "s": "s sec secs second seconds 秒 秒钟",
    "min": "min mins minute minutes 分钟",
    "h": "h hr hrs hour hours 小时 个小时 钟头 个钟头",
    "day": "day days 天 日",
    "week": "week weeks 周 星期 个星期",
    "month": "month months 个月",
    "year": "year years 年",
    "B": "byte bytes 字节",
    "kB": "kb kib kilobyte kilobytes",
    "MB": "mb mib megabyte megabytes",
    "GB": "gb gib gigabyte gigabytes",
    "TB": "tb tib terabyte terabytes",
    "%": "% percent pct 个百分点",
    "°C": "°c celsius 摄氏度 度",
    "°F": "°f fahrenheit 华氏度",
    "bar": "bar 巴",
    "W": "watt watts 瓦",
    "kW": "kw kilowatt kilowatts 千瓦",
    "kWh": "kwh 千瓦时 度电",
}
UNITS: dict[str, str] = {spelling: unit for unit, all_of in _SPELLINGS.items() for spelling in all_of.split()}
UNITS |= {"per cent": "%", "degree celsius": "°C", "degrees celsius": "°C", "degree c": "°C", "degrees c": "°C"}
UNITS |= {"degrees fahrenheit": "°F", "percentage points": "%", "percentage point": "%"}

_LATIN = "|".join(
    re.escape(one) for one in sorted(UNITS, key=len, reverse=True) if one[-1].isascii() and one[-1].isalpha()
)
_OTHER = "|".join(re.escape(one) for one in sorted(UNITS, key=len, reverse=True) if not one[-1].isascii())
_SIGNS = r"%|€|£|¥|us\$|\$"
# A class of travel and an ordinal are no seconds, so "four second-class seats" counts seats.
_ONE = rf"(?:(?!second[\s-]?(?:class|hand|test|time))(?:{_LATIN})(?![a-z0-9])|{_OTHER}|{_SIGNS})"
AFTER = re.compile(rf"[ ]?-?[ ]?({_ONE})(?:[ ]?/[ ]?({_ONE}))?")
"""Pattern of a unit behind a number, one over another included (mg/l)."""

BEFORE = r"(?:us\$|[€$£¥]|(?<![a-z])(?:eur|usd|cny|rmb|gbp|jpy|hkd|chf)|人民币)"
"""Pattern of a currency in front of a number."""


def unit_of(spelling: str, over: str | None = None) -> str:
    """Return the one name of a unit.

    >>> unit_of("公斤"), unit_of("mg", "升")
    ('kg', 'mg/l')
    """
    return f"{UNITS[spelling]}/{UNITS[over]}" if over else UNITS[spelling]
