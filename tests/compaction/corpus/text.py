"""Read the plain-text sources of the corpora: runs, answers and edits (README.md says how a line is written)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
LISTS = {
    "D": "decisions",
    "C": "constraints",
    "A": "open_actions",
    "Q": "questions",
    "E": "evidence",
}
"""The letter that starts a line of an answer, and the list its entry belongs to."""

_EXCERPT = re.compile(r" <<(.*?)>>")
_REFERENCE = re.compile(r" \^(\S+)$")

Answer = dict[str, Any]
Run = dict[str, Any]


def blocks(name: str, mark: str) -> list[tuple[list[str], list[str]]]:
    """Split a source file into (words of the headline, lines below it); every headline starts with `mark`."""
    found: list[tuple[list[str], list[str]]] = []
    for line in (SOURCE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(mark + " "):
            found.append((line.split()[1:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def runs(name: str) -> list[Run]:
    """Read the runs of one file in our wire form; `sequence` is the place of the turn's first message."""
    made = []
    for (run, language, risk, material), lines in blocks(name, "=="):
        turns: list[dict[str, Any]] = []
        place = 0
        for line in lines:
            if line == "--":
                turns.append({
                    "id": f"{run}-turn-{len(turns) + 1}", "sequence": place + 1, "state": "completed",
                    "messages": [], "mustPreserve": [], "openItems": [], "material": material,
                })  # fmt: skip
            elif line.startswith("! "):
                _, constraint, text = line.split(" ", 2)
                turns[-1]["mustPreserve"].append({"constraintId": constraint, "text": text})
            elif line.startswith("? "):
                _, item, status = line.split(" ")
                turns[-1]["openItems"].append({"id": item, "status": status})
            else:
                place += 1
                turns[-1]["messages"].append(_message(run, place, line))
        made.append({"run": run, "language": language, "risk": risk, "material": material, "turns": turns})
    return made


def _message(run: str, place: int, line: str) -> dict[str, Any]:
    alias, kind, rest = line.split(" ", 2)
    if alias != f"m{place}":
        raise ValueError(f"{run}: the message after m{place - 1} is called {alias}")
    message: dict[str, Any] = {"id": f"{run}-msg-{place:02}"}
    if kind in "UA":
        return message | {"role": {"U": "user", "A": "assistant"}[kind], "text": rest}
    if kind == "K":
        call, tool, arguments = rest.split(" ", 2)
        calls = [{"id": f"{run}-{call}", "name": tool, "arguments": json.loads(arguments)}]
        return message | {"role": "assistant", "toolCalls": calls}
    call, text = rest.split(" ", 1)
    return message | {"role": "tool", "toolResult": {"callId": f"{run}-{call}", "text": text.replace("\\n", "\n")}}


def answer(lines: list[str], base: Answer | None = None, constraints: tuple[str, ...] = ()) -> Answer:
    """Build an answer from its lines; `C *` takes every mark of the run, `= A Q` takes those lists of the base."""
    made: Answer = {"goal": ""} | {key: [] for key in LISTS.values()}
    for line in lines:
        letter, rest = line.split(" ", 1)
        if letter == "G":
            made["goal"] = rest
        elif letter == "=":
            for taken in rest.split():
                made[LISTS[taken]] += json.loads(json.dumps((base or {})[LISTS[taken]]))
        elif letter == "C":
            made["constraints"] += [{"id": name} for name in (constraints if rest == "*" else rest.split())]
        else:
            made[LISTS[letter]].append(entry(letter, rest))
    return made


def entry(letter: str, rest: str) -> dict[str, Any]:
    """Build one entry of a list from the rest of its line."""
    if letter == "C":
        return {"id": rest}
    if letter == "A":
        head, text = rest.split(" | ", 1)
        sources, status, item, owner = head.split(" ", 3)
        made: dict[str, Any] = {"text": text, "status": status}
        made |= {"owner": owner.removeprefix("@")} if owner != "-" else {}
        made |= {"id": item} if item != "-" else {}
    else:
        sources, text = rest.split(" ", 1)
        excerpt, reference = _EXCERPT.search(text), _REFERENCE.search(text)
        made = {"text": _REFERENCE.sub("", _EXCERPT.sub("", text)).replace("\\n", "\n")}
        made |= {"excerpt": excerpt[1]} if excerpt else {}
        made |= {"archive_ref": reference[1]} if reference else {}
    return made | ({"sources": sources.split(",")} if sources != "-" else {})


def edited(made: Answer, edits: str) -> Answer:
    """Return the answer after edits joined by ` ; `: add (`+`), take away (`-`), set a field, replace a phrase."""
    made = json.loads(json.dumps(made))
    for edit in edits.split(" ; "):
        head, _, rest = edit.partition(" ")
        if head == "+":
            letter, line = rest.split(" ", 1)
            made[LISTS[letter]].append(entry(letter, line))
        elif head == "-":
            del made[LISTS[rest[0]]][int(rest[1:]) - 1]
        else:
            _set(made, head, rest)
    return made


def _set(made: Answer, head: str, rest: str) -> None:
    place, _, field = head.partition(".")
    target, key = (made, "goal") if place == "G" else (made[LISTS[place[0]]][int(place[1:]) - 1], field or "text")
    if rest == "!":
        del target[key]
    elif key == "sources":
        target[key] = [] if rest == "-" else rest.split(",")
    elif field:
        target[key] = json.loads(rest) if rest.startswith('"') else rest
    else:
        old, new = rest.split(" => ")
        if target[key].count(old) != 1:
            raise ValueError(f"the phrase of {place} stands {target[key].count(old)} times")
        target[key] = target[key].replace(old, new)


def spelled(made: Answer, flags: list[str]) -> str:
    """Write an answer as a model would: compact, indented, ASCII only, keys in another order, in a code fence."""
    if "reorder" in flags:
        made = {key: made[key][::-1] if isinstance(made[key], list) else made[key] for key in reversed(made)}
    text = json.dumps(made, ensure_ascii="ascii" in flags, indent=2 if "indent" in flags else None)
    return f"```json\n{text}\n```" if "fence" in flags else text
