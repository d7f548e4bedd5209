"""Measure what a template does to the words themselves: trims, strings it parses, dependence on content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from planner.bundles.canaries import CONTENTS, Canary, fill
from planner.bundles.reading import EVERYWHERE, TEXT_ROLES, Baseline, Reader, escapes, follow
from planner.bundles.subject import Subject
from planner.bundles.verdicts import dependent
from planner.encoding.template import literals
from planner.encoding.template_static import Looked, looked_for
from planner.values.profile import ParsedString, TemplateProfile, Trims

_COMMON = (" ", "\t", "\n", "\r")
_WHITESPACE = tuple(character for character in map(chr, range(0x3001)) if character.isspace())
_ORDINARY = re.compile(r"[\w\s.,;:!?'\"()$€%+-]*")
_LONGEST_CANDIDATE = 64
_BATCH = 12
_EMPTY_NOTE = 64


def reads(subject: Subject, profile: TemplateProfile) -> dict[str, Any]:
    """Return trims, parsed_strings and user_slot.

    Raises PlannerFault template_content_dependent where ordinary words change the framing or are changed.
    """
    looked = looked_for(subject.source)
    baselines = [b for canary in _canaries(subject, profile) if (b := Baseline.of(subject, canary)) is not None]
    trims = _trims(subject, baselines, looked.stripped)
    reader = Reader(subject, baselines, trims)
    _check_contents(reader)
    parsed = _parsed_strings(reader, looked)
    parsed += _check_literals(reader, looked, parsed)
    return {"trims": trims, "parsed_strings": parsed, "user_slot": _user_slot(subject)}


def _canaries(subject: Subject, profile: TemplateProfile) -> list[Canary]:
    """Write chats that hold every kind of text in old turns and in the open one."""
    plain = subject.pen().say("user").answer(reasoning=True).say("user").answer().say("user")
    found = [plain.done()]
    if profile.tool_call == "kept":
        beside = profile.text_beside_call == "kept"
        pen = subject.pen(tools=True).say("user").answer().say("user")
        pen.loop(reasoning=True).answer(reasoning=True).say("user").loop(text=beside).answer()
        pen.say("user").loop(reasoning=True).loop(text=beside).loop(text=beside, reasoning=True)
        found.append(pen.done())
    return found


Cut = dict[str, dict[str, None]]
Cuts = tuple[Cut, Cut]
_WHOLE = ((1, 2), (0, 2), (1, 0), (0, 0))
_PARTS = (*_WHOLE, (1, 1), (0, 1))


def _trims(subject: Subject, baselines: Iterable[Baseline], named: str) -> dict[str, Trims]:
    """Put characters at both ends of every text and see which are gone.

    What a template does not strip by name it strips with all white space or not at all, so the uncommon ones
    are tried together first and one by one only where that shows a part of them gone.
    """
    cuts: Cuts = ({}, {})
    single = tuple(dict.fromkeys((*_COMMON, *named)))
    others = tuple(character for character in _WHITESPACE if character not in single)
    for baseline in baselines:
        for character in single:
            if not _trim(subject, baseline, character, cuts):
                _trim_by_neighbour(subject, baseline, character, cuts)
        if not _trim(subject, baseline, "".join(others), cuts):
            for character in others:
                if not _trim(subject, baseline, character, cuts):
                    _trim_by_neighbour(subject, baseline, character, cuts)
    left, right = cuts
    return {role: Trims("".join(left.get(role, "")), "".join(right.get(role, ""))) for role in sorted({*left, *right})}


def _roles(baseline: Baseline) -> dict[str, str]:
    """Return the marks of messages' own texts and their roles."""
    return {mark: role for mark, role in baseline.canary.fields.items() if role != "call"}


def _padded(subject: Subject, baseline: Baseline, pad: str) -> str | None:
    """Render with one pad before each text and two after it, so that neighbours can be told apart."""
    texts = {mark: pad + mark + 2 * pad for mark in _roles(baseline)}
    return subject.show(fill(baseline.canary, texts))


def _note(cut: Cut, role: str, characters: str) -> None:
    cut.setdefault(role, {}).update(dict.fromkeys(characters))


def _trim(subject: Subject, baseline: Baseline, pad: str, cuts: Cuts) -> bool:
    """Note what was trimmed; False where the render cannot be followed."""
    text = _padded(subject, baseline, pad)
    if text is None:
        return True
    # A part of the pad gone is looked for only where all or nothing explains no render: it is ambiguous.
    return any(_note_ends(text, baseline, pad, ends, cuts) for ends in (_WHOLE, _PARTS))


def _note_ends(text: str, baseline: Baseline, pad: str, ends: Sequence[tuple[int, int]], cuts: Cuts) -> bool:
    """Explain a padded render by how many pads are left at either end of each text; False where none does."""
    roles = _roles(baseline)
    flags: dict[int, list[tuple[bool, bool]]] = {}

    def forms(index: int) -> Sequence[str]:
        mark, quote = baseline.marks[index], baseline.quotes[index]
        seen: dict[str, tuple[bool, bool]] = {}
        for before, after in ends if mark in roles else ((0, 0),):
            for written in escapes(before * pad + mark + after * pad, quote):
                seen.setdefault(written, (before < 1, after < 2))
        flags[index] = list(seen.values())
        return tuple(seen)

    path = follow(text, baseline, forms)
    if path is None:
        return False
    for index, mark in enumerate(baseline.marks):
        if mark in roles:
            for side, was_cut in zip(cuts, flags[index][path[index]], strict=True):
                if was_cut:
                    _note(side, roles[mark], pad)
    return True


def _trim_by_neighbour(subject: Subject, baseline: Baseline, pad: str, cuts: Cuts) -> None:
    """Note as trimmed what nowhere stands beside its mark: white space that changes framing is no text."""
    text = _padded(subject, baseline, pad)
    for mark, role in _roles(baseline).items():
        if text is not None and mark in text:
            if pad + mark not in text:
                _note(cuts[0], role, pad)
            if mark + pad not in text:
                _note(cuts[1], role, pad)


def _parsed_strings(reader: Reader, looked: Looked) -> tuple[ParsedString, ...]:
    """Find which of the strings a template looks for it really parses, and in whose text."""
    found: list[ParsedString] = []
    candidates = [text for text in looked.strings if _is_markup(text)]
    for text in candidates:
        shapes = (f"@ {text} @", f"{text} @ {text}", text)
        found += [ParsedString(role, text) for role in _readers(reader, shapes)]
    for opener, closer in _pairs(candidates, looked):
        pair = (f"{opener}@{closer}", f"@ {opener} @ {closer} @")
        for role in _readers(reader, pair):
            alone = {parsed.opener for parsed in found if parsed.role == role and not parsed.closer}
            if not alone & {opener, closer}:
                found.append(ParsedString(role, opener, closer))
    return tuple(found)


def _readers(reader: Reader, shapes: Sequence[str]) -> list[str]:
    """Return the roles in whose texts one of these shapes is read."""
    everywhere = frozenset(TEXT_ROLES)
    read = [shape for shape in shapes if not reader.passes(shape, everywhere)]
    return [role for role in TEXT_ROLES if any(not reader.passes(shape, frozenset({role})) for shape in read)]


def _is_markup(text: str) -> bool:
    return len(text) <= _LONGEST_CANDIDATE and _ORDINARY.fullmatch(text) is None and "@" not in text


def _pairs(candidates: Sequence[str], looked: Looked) -> list[tuple[str, str]]:
    """Pair what a template asks the start and the end of one text for, and what is spelled as a pair."""
    asked = [(a, b) for a in looked.openers for b in looked.closers if a in candidates and b in candidates]
    spelled = [(a, b) for a in candidates for b in candidates if b in (f"{a[0]}/{a[1:]}", f"/{a}")]
    return [pair for pair in dict.fromkeys((*asked, *spelled)) if pair[0] != pair[1]]


def _check_contents(reader: Reader) -> None:
    """Refuse a template whose framing, or whose texts, change with ordinary words (H09, H30)."""
    for text in CONTENTS:
        if not reader.passes(text, EVERYWHERE):
            raise dependent("words")
    for baseline in reader.baselines:
        _check_empty(reader, baseline)


def _check_empty(reader: Reader, baseline: Baseline) -> None:
    """Refuse a template that writes more for an empty text; leaving out an empty frame is honest."""
    length = sum(map(len, (*baseline.framing, *baseline.marks, *baseline.quotes)))
    for role in ("user", "assistant", "tool"):
        for mark in baseline.canary.marks(role)[-1:]:
            shown = reader.subject.show(fill(baseline.canary, {mark: ""}))
            if shown is not None and len(shown) > length + _EMPTY_NOTE:
                raise dependent("words")


def _check_literals(reader: Reader, looked: Looked, parsed: Sequence[ParsedString]) -> tuple[ParsedString, ...]:
    """Put every literal of the template into its messages: what it is looking for, it must name itself.

    A word that only takes something away from a system or assistant text's own frame is a switch, and is
    recorded as parsed; anything else that an ordinary word brings about refuses the template.
    """
    known = {text for one in parsed for text in (one.opener, one.closer) if text}
    words = [
        text.strip() for text in dict.fromkeys((*looked.strings, *literals(reader.subject.source)))
        if text.strip() and "@" not in text and not any(marker in text for marker in known)
    ]  # fmt: skip
    asked = [text for text in words if text in {string.strip() for string in looked.strings}]
    others = [text for text in words if text not in asked]
    batches = [" ".join(others[start : start + _BATCH]) for start in range(0, len(others), _BATCH)]
    switches: list[ParsedString] = []
    for text in (*asked, *batches):
        if reader.passes(text, EVERYWHERE):
            continue
        roles = [role for role in (*TEXT_ROLES, "call", "tools") if not reader.passes(text, frozenset({role}))]
        if text in batches or not roles or not all(_is_switch(reader, text, role) for role in roles):
            raise dependent("literal")
        switches += [ParsedString(role, text) for role in roles]
    return tuple(switches)


def _is_switch(reader: Reader, text: str, role: str) -> bool:
    """Tell whether this word, in the texts of this role, makes the template write less and nothing else."""
    if role not in {"system", "assistant"}:
        return False
    for baseline in reader.baselines:
        texts = reader.texts(baseline, text, frozenset({role}))
        shown = reader.subject.show(fill(baseline.canary, texts))
        if shown is None:
            return False
        whole = baseline.filled(texts)
        if shown != whole and not _cut_out(whole, shown):
            return False
    return True


def _cut_out(whole: str, rest: str) -> bool:
    """Tell whether `rest` is `whole` without one stretch of it."""
    shorter = len(rest)
    before = next((index for index in range(shorter) if whole[index] != rest[index]), shorter)
    return shorter < len(whole) and whole.endswith(rest[before:])


_SLOT = "[[data]]\nfirst line 17\n\n- second line: 3.5 <b>\n[[/data]]\n\n@"


def _user_slot(subject: Subject) -> bool:
    """Tell whether a block before a user's text comes out verbatim, once, in a first and a later message."""
    canary = subject.chat("user", "assistant", "user")
    for mark in canary.marks("user"):
        block = _SLOT.replace("@", mark)
        text = subject.show(fill(canary, {mark: block}))
        if text is None or text.count(block) != 1 or text.count("[[data]]") != 1:
            return False
    return True
