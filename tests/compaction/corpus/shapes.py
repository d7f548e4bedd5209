"""Named mutations of the shape of a good answer: what makes the text no JSON object of six keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.compaction.corpus.text import Answer, Run

Case = tuple[str, str, str]
"""(kind, run, the model's raw answer)."""

SIX = ("goal", "decisions", "constraints", "open_actions", "questions", "evidence")
_CUTS = (0.02, 0.1, 0.2, 0.3, 0.37, 0.45, 0.5, 0.55, 0.62, 0.7, 0.77, 0.83, 0.88, 0.92, 0.95, 0.97)


def _text(made: Any) -> str:
    return json.dumps(made, ensure_ascii=False)


def truncated(base: dict[str, Answer]) -> Iterator[Case]:
    """Cut good answers at sixteen places, and right before the last one, two and three characters."""
    names = sorted(base)
    for place, share in enumerate(_CUTS):
        run = names[place % len(names)]
        text = _text(base[run])
        yield "truncated_json", run, text[: max(1, int(len(text) * share))]
    for run, gone in (("r02", 1), ("r10", 2), ("r18", 3)):
        yield "truncated_json", run, _text(base[run])[:-gone]
    yield "truncated_json", "r06", f"```json\n{_text(base['r06'])[:-1]}\n```"
    yield "truncated_json", "r13", ""
    yield "truncated_json", "r05", "{"


def not_one_object(base: dict[str, Answer]) -> Iterator[Case]:
    """Other JSON than an object, no JSON, and JSON among words."""
    for run, text in (("r01", "[]"), ("r04", "null"), ("r09", "true"), ("r12", "42"), ("r17", '"state"')):
        yield "not_an_object", run, text
    yield "not_an_object", "r03", _text([base["r03"]])
    yield "not_an_object", "r14", _text(_text(base["r14"]))
    for run, text in (("r01", "ok"), ("r10", '"ok"'), ("r21", "ok."), ("r05", "好的")):
        yield "text_ok", run, text
    yield "prose_only", "r01", "The user plans a party for Hanna and rents the clubhouse for 95 euro."
    yield "prose_only", "r07", "# Summary\n- pay 9,850 euro\n- the expert comes on 19 November\n"
    yield "prose_only", "r12", "受潮的 12 袋面粉报废，再订一百五十袋。"
    yield "prose_only", "r22", "goal: shorten the TTL\ndecisions:\n  - TTL 8 小时\nconstraints: []\n"
    good = {run: _text(base[run]) for run in base}
    yield "json_in_prose", "r01", f"Here is the state:\n{good['r01']}"
    yield "json_in_prose", "r02", f"{good['r02']}\nLet me know if you need anything else."
    yield "json_in_prose", "r06", f"Sure!\n```json\n{good['r06']}\n```"
    yield "json_in_prose", "r09", f"好的，整理如下：\n```json\n{good['r09']}\n```\n以上。"
    yield "json_in_prose", "r15", f"<think>先看约束。</think>\n{good['r15']}"
    yield "json_in_prose", "r20", f"{good['r20']}\n{good['r20']}"
    yield "json_in_prose", "r24", f"```json\n{good['r24']}\n```\n```json\n{good['r24']}\n```"
    yield "json_in_prose", "r16", f"state = {good['r16']};"


def keys(base: dict[str, Answer]) -> Iterator[Case]:
    """Leave one key out, spell it otherwise, add a seventh."""
    for place, key in enumerate(SIX):
        for run in (f"r{place + 1:02}", f"r{place + 9:02}", f"r{place + 17:02}"):
            yield "missing_key", run, _text({name: value for name, value in base[run].items() if name != key})
    renamed = {"openActions" if name == "open_actions" else name: value for name, value in base["r04"].items()}
    yield "missing_key", "r04", _text(renamed)
    yield "missing_key", "r12", _text({name.capitalize(): value for name, value in base["r12"].items()})
    yield "missing_key", "r21", _text({"summary": base["r21"]})
    for run, more in (
        ("r01", {"summary": "Party for Hanna."}), ("r05", {"confidence": 1}), ("r06", {"layer": "immutable"}),
        ("r11", {"confirmedFacts": []}), ("r14", {"requiredConstraintIds": ["no-downtime"]}),
        ("r20", {"openItems": []}), ("r23", {"": ""}), ("r09", {"notes": None}),
    ):  # fmt: skip
        yield "extra_key", run, _text(base[run] | more)


def types(base: dict[str, Answer]) -> Iterator[Case]:
    """Give a field another type than its own."""
    for run, field, value in (
        ("r01", "goal", None), ("r02", "goal", ["Make it work."]), ("r03", "goal", 7), ("r04", "decisions", None),
        ("r05", "decisions", {}), ("r06", "decisions", "Derive the key."), ("r07", "constraints", None),
        ("r08", "constraints", {"id": "two-full-backups"}), ("r09", "constraints", "no-stairs"),
        ("r10", "open_actions", False), ("r11", "open_actions", {}), ("r12", "questions", "下次盘点能不能提前？"),
        ("r13", "questions", None), ("r14", "evidence", 0), ("r15", "evidence", ""),
    ):  # fmt: skip
        yield "wrong_type", run, _text(base[run] | {field: value})
    for run, field, value in (
        ("r01", "decisions", "No band is hired."), ("r02", "constraints", ["schema-untouched"]),
        ("r03", "constraints", "do-not-pay"), ("r17", "questions", "谁来印传单？"), ("r18", "evidence", None),
        ("r19", "decisions", {"text": 500, "sources": ["m7"]}),
        ("r20", "decisions", {"text": "订 G7302。", "sources": "m5"}),
        ("r21", "decisions", {"text": "预约不用中介代办。", "sources": [7]}),
        ("r22", "evidence", {"text": ["TTL"], "sources": ["m1"], "excerpt": "TTL 是 72 小时"}),
        ("r24", "open_actions", {"text": "Put up signs.", "status": 1, "id": "signs"}),
        ("r16", "open_actions", ["report-cdc"]), ("r10", "constraints", {"id": 1}),
        ("r04", "decisions", {"text": "Reserve 30 sacks.", "sources": {"m5": True}}),
    ):  # fmt: skip
        yield "wrong_type", run, _text(base[run] | {field: [value, *base[run][field][1:]]})


def blanks(base: dict[str, Answer]) -> Iterator[Case]:
    """Leave the goal or the text of an entry without a word."""
    for run, goal in (("r01", ""), ("r02", "   "), ("r09", "\u3000"), ("r14", "\n"), ("r20", "\t \n")):
        yield "empty_goal", run, _text(base[run] | {"goal": goal})
    for run, field, text in (
        ("r01", "decisions", ""), ("r03", "decisions", "  "), ("r10", "decisions", "\u3000"),
        ("r14", "decisions", "\n\t"), ("r04", "evidence", ""), ("r13", "questions", " "), ("r21", "evidence", "\u3000"),
    ):  # fmt: skip
        first, *rest = base[run][field]
        yield "blank_text", run, _text(base[run] | {field: [first | {"text": text}, *rest]})


def bombs(base: dict[str, Answer]) -> Iterator[Case]:
    """Duplicate keys, numbers that are none, huge numbers, depth, length and weight."""
    good = {run: _text(base[run]) for run in base}
    for run, old, new in (
        ("r01", '{"goal": ', '{"goal": "First.", "goal": '), ("r05", '{"goal": ', '{"constraints": [], "goal": '),
        ("r06", '"decisions": [', '"decisions": [], "decisions": ['),
        ("r11", '"status": "pending"', '"status": "done", "status": "pending"'),
        ("r16", '"sources": ["m5"]', '"sources": ["m4"], "sources": ["m5"]'),
        ("r23", '{"id": "no-final-payment"', '{"id": "pay-now", "id": "no-final-payment"'),
    ):  # fmt: skip
        yield "duplicate_key", run, _once(good[run], old, new)
    for kind, run, value in (
        ("not_a_number", "r02", "NaN"), ("not_a_number", "r04", "Infinity"), ("not_a_number", "r12", "-Infinity"),
        ("huge_integer", "r03", "7" * 5000), ("huge_integer", "r08", "1" * 19), ("huge_integer", "r17", "-" + "9" * 40),
        ("too_deep", "r01", "[" * 40 + "]" * 40), ("too_deep", "r07", '{"a":' * 1000 + "1" + "}" * 1000),
        ("too_deep", "r13", "[" * 100_000),
    ):  # fmt: skip
        yield kind, run, _once(good[run], '"evidence": [{"text"', f'"evidence": [{{"fact_value": {value}, "text"')
    for run, field in (("r01", "questions"), ("r05", "evidence"), ("r09", "decisions"), ("r24", "open_actions")):
        entry = {name: value for name, value in base[run][field][-1].items() if name != "id"}
        yield "too_many_entries", run, _text(base[run] | {field: base[run][field] + [entry] * 513})
    yield "too_many_bytes", "r04", good["r04"] + " " * (256 * 1024)
    long = "缆车" * 45_000
    yield "too_many_bytes", "r09", _text(base["r09"] | {"questions": [{"text": long, "sources": ["m4"]}]})


def _once(text: str, old: str, new: str) -> str:
    if old not in text:
        raise ValueError(f"{old} stands nowhere")
    return text.replace(old, new, 1)


def constraints(base: dict[str, Answer], runs: dict[str, Run]) -> Iterator[Case]:
    """Drop a mark of every run, take one of the next run, name one twice."""
    names = sorted(base)
    for place, run in enumerate(names):
        marks = base[run]["constraints"]
        yield "constraint_dropped", run, _text(base[run] | {"constraints": marks[1:]})
        other = base[names[(place + 5) % len(names)]]["constraints"]
        if place % 2:
            yield "constraint_of_another_run", run, _text(base[run] | {"constraints": marks + other[:1]})
        if place % 4 == 0:
            yield "constraint_duplicated", run, _text(base[run] | {"constraints": marks + marks[:1]})
            wording = [{"id": mark["id"], "text": "At least 77 pieces, SYSTEM."} for mark in marks]
            yield "constraint_text_ignored", run, _text(base[run] | {"constraints": wording})
    for run in ("r03", "r12", "r22"):
        other = base["r05"]["constraints"][:1]
        yield "constraint_of_another_run", run, _text(base[run] | {"constraints": other})


def copies(base: dict[str, Answer], runs: dict[str, Run]) -> Iterator[Case]:
    """Copy exactly eighty characters of a long tool result."""
    for run, start in (("r04", 0), ("r08", 0), ("r12", 0), ("r16", 0), ("r24", 0)):
        result = runs[run]["turns"][0]["messages"][2]["toolResult"]["text"]
        more = {"text": result[start : start + 80], "sources": ["m3"]}
        yield "tool_result_copied", run, _text(base[run] | {"evidence": [*base[run]["evidence"], more]})


def spelled_otherwise(base: dict[str, Answer]) -> Iterator[Case]:
    """Change only how the JSON is written."""
    for run in ("r02", "r12", "r23"):
        yield "spelled_otherwise", run, f"\n\n{_text(base[run])}\n \n"
        yield "spelled_otherwise", run, json.dumps(base[run], ensure_ascii=True, indent="\t", sort_keys=True)
        yield "spelled_otherwise", run, f"```json\n{json.dumps(base[run], ensure_ascii=False, indent=1)}\n```\n"


def all_shapes(base: dict[str, Answer], runs: dict[str, Run]) -> Iterator[Case]:
    """Yield every case of this file in a fixed order."""
    for make in (truncated, not_one_object, keys, types, blanks, bombs):
        yield from make(base)
    yield from constraints(base, runs)
    yield from copies(base, runs)
    yield from spelled_otherwise(base)
