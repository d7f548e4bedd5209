"""Read a render against a baseline: is the framing the same, does each text stand where its mark stood?

A baseline is the render of plain marks. The stretches between the marks are the template's framing. A text
put in place of a mark must come out whole, but for trims, or written as data in a known dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner.bundles.canaries import MARK, TOOL_DETAILS, Canary, fill
from planner.bundles.subject import Subject
from planner.values.profile import Trims

TEXT_ROLES = ("system", "user", "assistant", "tool", "reasoning")
DATA_ROLES = ("call", "tools")
EVERYWHERE = frozenset((*TEXT_ROLES, *DATA_ROLES))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A canary with its render cut at the marks: framing[0] mark[0] framing[1] .. framing[-1].

    Quotes around a mark are part of its field, not of the framing (`quotes`): a dumper chooses them by what
    the text holds, and a text that is a JSON value of its own may stand without them.
    """

    canary: Canary
    framing: tuple[str, ...]
    marks: tuple[str, ...]
    quotes: tuple[str, ...]

    @classmethod
    def of(cls, subject: Subject, canary: Canary) -> Baseline | None:
        """Render a canary of plain marks, None where the template raises."""
        text = subject.show(canary)
        if text is None:
            return None
        framing, marks, quotes = MARK.split(text), MARK.findall(text), []
        for index in range(len(marks)):
            before, after = framing[index], framing[index + 1]
            quote = before[-1:] if before[-1:] in ("'", '"') and before[-1:] == after[:1] else ""
            quotes.append(quote)
            if quote:
                framing[index], framing[index + 1] = before[:-1], after[1:]
        return cls(canary, tuple(framing), tuple(marks), tuple(quotes))

    @property
    def roles(self) -> frozenset[str]:
        """The roles whose texts are seen in the render."""
        seen = {self.canary.fields[mark] for mark in self.marks if mark in self.canary.fields}
        return frozenset(seen | ({"tools"} if self.described else set()))

    @property
    def described(self) -> bool:
        """Whether the description of the first tool is seen in the render."""
        return TOOL_DETAILS[0] in self.marks

    def filled(self, texts: Mapping[str, str]) -> str:
        """Return what a template that only passes texts on would write for these texts."""
        pieces = [self.framing[0]]
        for mark, quote, framing in zip(self.marks, self.quotes, self.framing[1:], strict=True):
            pieces += [quote, texts.get(mark, mark), quote, framing]
        return "".join(pieces)

    def line_start(self, index: int) -> str:
        """Return what stands on the line of a mark before it: a dumper may repeat it on every line."""
        return self.framing[index].rpartition("\n")[2]


def follow(text: str, baseline: Baseline, forms: Callable[[int], Sequence[str]]) -> tuple[int, ...] | None:
    """Walk a render along a baseline; return which of its forms each mark has, None where nothing fits.

    `forms(index)` lists what may stand in the place of the mark of that index, best first.
    """
    places: dict[int, tuple[int, ...]] = {0: ()}
    for index, framing in enumerate(baseline.framing):
        places = {at + len(framing): path for at, path in places.items() if text.startswith(framing, at)}
        if index == len(baseline.marks) or not places:
            break
        reached: dict[int, tuple[int, ...]] = {}
        for number, form in enumerate(forms(index)):
            for at, path in places.items():
                if text.startswith(form, at):
                    reached.setdefault(at + len(form), (*path, number))
        places = reached
    ended = places.get(len(text))
    return ended if ended is not None and len(ended) == len(baseline.marks) else None


def escapes(text: str, quote: str = "") -> tuple[str, ...]:
    """Return a text as it may stand in a prompt: as it is, or inside a JSON text of one of four dialects."""
    if text.isascii() and text.isalnum() and not text.isdigit():
        return (quote + text + quote,)
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    safe = plain
    for character in "<>&'":
        safe = safe.replace(character, f"\\u{ord(character):04x}")
    inner = (text, plain, json.dumps(text)[1:-1], safe, repr(text)[1:-1])
    found = [quote + form + quote for form in inner]
    if quote:
        found.append(repr(text))
        found += _as_value(text)
    return tuple(dict.fromkeys(found))


def _as_value(text: str) -> tuple[str, ...]:
    """Return a text that is itself a JSON value as a dumper writes that value."""
    try:
        value = json.loads(text)
    except ValueError:
        return ()
    return (text, json.dumps(value, ensure_ascii=False), json.dumps(value))


_MARKUP = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ('"', "&#34;"))
_QUOTED = (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"))


def data_forms(text: str, quote: str, line_start: str) -> tuple[str, ...]:
    """Return further dialects seen for arguments and tools: markup, quoted text, CDATA, comment lines."""
    quoted = _replaced(text, _QUOTED)
    lines = text.replace("\n", "\n" + line_start)
    full = ("\n" + line_start).join(line for line in text.split("\n") if line.strip())
    found = [quote + form + quote for form in (quoted, lines, full, f"<![CDATA[{text}]]>")]
    for form in escapes(text, quote):
        markup = _replaced(form[len(quote) : len(form) - len(quote)], _MARKUP)
        found += [quote + markup + quote, quote + markup.replace("&#34;", "&quot;") + quote]
    return tuple(dict.fromkeys(found))


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for character, written in pairs:
        text = text.replace(character, written)
    return text


@dataclass(frozen=True, slots=True)
class Reader:
    """Tells whether a template reads texts put into its messages, or only passes them on."""

    subject: Subject
    baselines: Sequence[Baseline]
    trims: Mapping[str, Trims]

    def passes(self, shape: str, roles: frozenset[str]) -> bool:
        """Tell whether texts made from `shape` (its `@` is the mark) come through in all these roles.

        A shape without a mark is put whole into the last message of each role and with its mark into the
        others, because no two messages of a real chat are equal and some templates compare them.
        """
        return all(self.through(baseline, shape, roles) for baseline in self.baselines if roles & baseline.roles)

    def through(self, baseline: Baseline, shape: str, roles: frozenset[str]) -> bool:
        """Tell the same for one baseline."""
        texts = self.texts(baseline, shape, roles)
        shown = self.subject.show(fill(baseline.canary, texts))
        return shown is not None and follow(shown, baseline, self._forms(baseline, texts)) is not None

    def texts(self, baseline: Baseline, shape: str, roles: frozenset[str]) -> dict[str, str]:
        """Return the text for each mark of these roles."""
        whole = {role: mark for mark, role in baseline.canary.fields.items()}
        texts: dict[str, str] = {}
        for mark, role in baseline.canary.fields.items():
            if role in roles:
                made = shape if "@" in shape or whole[role] == mark else f"{shape} @"
                texts[mark] = made.replace("@", mark)
        if "tools" in roles and baseline.described:
            texts[TOOL_DETAILS[0]] = shape.replace("@", TOOL_DETAILS[0])
        return texts

    def _forms(self, baseline: Baseline, texts: Mapping[str, str]) -> Callable[[int], Sequence[str]]:
        known: dict[tuple[str, str, str], tuple[str, ...]] = {}

        def forms(index: int) -> Sequence[str]:
            mark, quote = baseline.marks[index], baseline.quotes[index]
            text = texts.get(mark)
            if text is None:
                return (quote + mark + quote,)
            role = baseline.canary.fields.get(mark, "tools")
            line_start = baseline.line_start(index) if role in DATA_ROLES else ""
            key = (mark, quote, line_start)
            if key not in known:
                known[key] = self._written(role, text, quote, line_start)
            return known[key]

        return forms

    def _written(self, role: str, text: str, quote: str, line_start: str) -> tuple[str, ...]:
        trims = self.trims.get(role)
        cuts = [text]
        if trims is not None:
            right = text.rstrip(trims.right) if trims.right else text
            cuts += [text.lstrip(trims.left) if trims.left else text, right]
            cuts.append(right.lstrip(trims.left) if trims.left else right)
        found = [form for cut in dict.fromkeys(cuts) for form in escapes(cut, quote)]
        if role in DATA_ROLES:
            found += data_forms(text, quote, line_start)
        return tuple(dict.fromkeys(found))
