"""Drawing of `planner bundle diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.cli.draw import rows, say


def draw_diff(found: Mapping[str, Any]) -> None:
    """Draw a line for each part, then a line for each sample conversation."""
    first, second = found["modelBundleIds"]
    say(f"bundle {first} and bundle {second}: {'the same bundle' if found['same'] else 'two bundles'}", "bold")
    parts = found["parts"]
    rows(("part", "", "first -> second"), [(name, _word(part), _told(name, part)) for name, part in parts.items()])
    say()
    cells = [(row["id"], *_tokens(row), _verdict(row)) for row in found["conversations"]]
    rows(("conversation", first[:24], second[:24], ""), cells, right=(1, 2))
    say()
    same = sum(row["same"] for row in found["conversations"])
    texts = sum(row["same"] for row in found["texts"])
    count = len(found["conversations"])
    say(f"{same} of {count} conversations have the same ids; {texts} of {count} as plain texts without a template")


def _word(part: Mapping[str, Any]) -> str:
    return "same" if part["same"] else "differs"


def _told(name: str, part: Mapping[str, Any]) -> str:
    if name == "tokenizer":
        sizes = [f"{kind}, {entries:,} entries" for kind, entries in zip(part["formats"], part["entries"], strict=True)]
        return f"{_arrow(sizes)}; {part['textsWithOtherIds']} sample texts with other ids"
    if part["same"]:
        return ""
    if name in ("addedTokens", "controlTokens"):
        named = ("onlyFirst", "only first"), ("onlySecond", "only second"), ("otherIds", "other ids")
        lists = [f"{title}: {_first(part[key])}" for key, title in (*named, ("otherFlags", "other flags")) if part[key]]
        return "; ".join(lists)
    if name == "template":
        lines = part["firstChangedLines"]
        where = "" if lines is None else f", first at line {lines[0]}"
        return f"{part['linesRemoved']} lines removed, {part['linesAdded']} added{where}"
    if name == "adapter":
        return _arrow(
            ["none" if one is None else f"{len(one['files'])} files x {one['scale']}" for one in part["values"]]
        )
    shown = _arrow([_plain(one) for one in part["values"]]) if "values" in part else ""
    if "changed" not in part:
        return shown
    changed = [f"{key}: {_arrow([_plain(value) for value in values])}" for key, values in part["changed"].items()]
    return "; ".join([shown, *changed[:8]] if shown else changed[:8]) + (" ..." if len(changed) > 8 else "")


def _arrow(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[1] else " -> ".join(values)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    text = ascii(value).strip("'\"") if not isinstance(value, int | bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _first(texts: Sequence[str]) -> str:
    shown = " ".join(f"{text[:24]!a}"[1:-1] for text in texts[:4])
    return f"{len(texts)} ({shown}{' ...' if len(texts) > 4 else ''})"


def _tokens(row: Mapping[str, Any]) -> tuple[str, str]:
    first, second = ("-" if count is None else f"{count:,}" for count in row["tokens"])
    return first, second


def _verdict(row: Mapping[str, Any]) -> str:
    if any(row["reasons"]):
        return "refused: " + _arrow([reason or "planned" for reason in row["reasons"]])
    if row["same"]:
        return "same ids"
    prompt = "the same text" if row["samePrompt"] else "another text"
    pairs = zip(row["idsThere"], row["tokensThere"], strict=True)
    there = " and ".join("the end" if index is None else f"{index} {text[:24]!a}" for index, text in pairs)
    return f"{prompt}; ids part at token {row['firstDifferent']:,}: {there}"
