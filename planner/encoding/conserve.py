"""Conservation: is the text of every leaf in the render, and does the render know whose it is?

Checked on each plan's own render, never predicted (design.md §4.1). A leaf counts as kept when what the
template printed of it is the text itself, the whole text repeated, its JSON, HTML or Python escape, the text
less characters the profile saw trimmed at its ends for that role, or what the template leaves of a text that
holds one of its parsed strings; in tools and calls also the text line by line.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse

from planner.encoding.reown import Marked, own_again
from planner.values.profile import ParsedString, TemplateProfile, Trims
from planner.values.prompt import Leaf, Rendered


@dataclass(frozen=True, slots=True)
class Printed:
    """What the first spans of a render print of its leaves: those printed whole, and all other pieces of any."""

    characters: int
    spans: int
    whole: set[Leaf] = field(repr=False)
    pieces: dict[Leaf, list[str]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Conserved:
    """The render with owners found again, the required leaves it lost, and the optional ones."""

    rendered: Rendered
    lost: tuple[Leaf, ...]
    detail_lost: tuple[Leaf, ...]
    ambiguous: tuple[Leaf, ...]


def conserve(
    rendered: Rendered,
    leaves: Sequence[Leaf],
    profile: TemplateProfile,
    spells_control: Callable[[str], bool],
    marked: Marked,
    begun: Printed | None = None,
) -> Conserved:
    """Check every leaf against the render and give lost ownership back where the text stands in framing.

    spells_control  tells whether a text holds a control string: unowned it would be obeyed, so optional text
                    is searched for then, and only then.
    marked          renders the same inputs with other texts, to see what is printed (see `reown`).
    begun           what is known of the very same first spans of an earlier render.
    A text of white space alone says nothing and cannot be lost.
    """
    seen = printed(rendered, begun)
    whole, found = seen.whole, seen.pieces
    sure = whole.difference(found) if found else whole
    missing = [
        leaf
        for leaf in filterfalse(sure.__contains__, leaves)
        if leaf.text and not leaf.text.isspace() and not _kept(leaf, whole, found, profile)
    ]
    if not missing:
        return Conserved(rendered, (), (), ())
    wanted = [leaf for leaf in missing if leaf.required or spells_control(leaf.text)]
    optional = [leaf for leaf in missing if not leaf.required]
    ambiguous: list[Leaf] = []
    if wanted:
        rendered, wanted, ambiguous = own_again(
            rendered, leaves, wanted, lambda leaf: _printed_forms(leaf, profile), marked
        )
    lost = tuple(leaf for leaf in wanted if leaf.required)
    detail = tuple(leaf for leaf in optional if leaf.kind == "tools")
    return Conserved(rendered, lost, detail, tuple(ambiguous))


def printed(rendered: Rendered, begun: Printed | None = None) -> Printed:
    """Look at what was printed of each leaf, going on from what is known of the first spans."""
    whole: set[Leaf] = set()
    found: dict[Leaf, list[str]] = {}
    text, spans = rendered.text, rendered.spans
    at = 0
    if begun is not None:
        whole, found = set(begun.whole), {leaf: list(pieces) for leaf, pieces in begun.pieces.items()}
        at, spans = begun.characters, spans[begun.spans :]
    for owner, length in spans:
        if owner is not None and (own := owner.text):
            if length == len(own) and text.startswith(own, at):
                whole.add(owner)
            else:
                found.setdefault(owner, []).append(text[at : at + length])
        at += length
    return Printed(at, len(rendered.spans), whole, found)


def _kept(leaf: Leaf, whole: set[Leaf], found: Mapping[Leaf, list[str]], profile: TemplateProfile) -> bool:
    pieces = found.get(leaf)
    if pieces is None and not leaf.required:
        return False
    accept = _acceptor(leaf, profile)
    if pieces is None:
        return accept("")
    if all(map(accept, pieces)) or (leaf not in whole and accept("".join(pieces))):
        return True
    return leaf.kind in _PRINTED_AS_CODE and len(pieces) > 1 and _broken_into_lines(leaf.text, pieces)


_PRINTED_AS_CODE = ("tools", "call")
_LINE_BREAKS = str.maketrans("", "", "\r\n")


def _broken_into_lines(text: str, pieces: Sequence[str]) -> bool:
    """Tell whether the pieces are the text but for its line breaks, where the template wrote its own words.

    Templates that print declarations as code put every line of a description behind a comment mark.
    """
    return "".join(pieces).translate(_LINE_BREAKS) == text.translate(_LINE_BREAKS)


def _acceptor(leaf: Leaf, profile: TemplateProfile) -> Callable[[str], bool]:
    trims = profile.trims.get(_trim_role(leaf), Trims())
    text = leaf.text
    forms: list[str] = []
    parsed = [entry for entry in profile.parsed_strings if entry.role == _trim_role(leaf)]

    def accept(got: str) -> bool:
        if got == text or _trimmed(got, text, trims):
            return True
        if not forms:
            forms.extend(_forms(text))
        return (
            got in forms
            or any(_repeated(got, form) for form in forms)
            or any(_trimmed(got, form, trims) for form in forms)
            or _unescaped(got) == text
            or _left_of_parsed(got, text, parsed)
        )

    return accept


def _trim_role(leaf: Leaf) -> str:
    return "reasoning" if leaf.kind == "reasoning" else leaf.role


def _forms(text: str) -> tuple[str, ...]:
    forms = [text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1], html.escape(text)]
    # markupsafe and jinja2's own JSON dump write these entities another way than the standard library.
    forms.append(_markup_escape(text))
    forms.append(_html_safe_json(forms[1]))
    forms.append(_markup_escape(forms[1]))
    # A template that prints an object as it stands prints Python's own notation of its strings.
    forms.append(repr(str.__str__(text))[1:-1])
    return tuple(dict.fromkeys(forms))


def _markup_escape(text: str) -> str:
    return html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def _printed_forms(leaf: Leaf, profile: TemplateProfile) -> list[str]:
    trims = profile.trims.get(_trim_role(leaf), Trims())
    forms = list(_forms(leaf.text))
    forms += [form.lstrip(trims.left or "\0").rstrip(trims.right or "\0") for form in forms]
    return list(dict.fromkeys(forms))


def _html_safe_json(text: str) -> str:
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")):
        text = text.replace(char, escape)
    return text


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _unescaped(got: str) -> str:
    """Undo backslash escapes, whichever of them the template wrote."""

    def undo(hit: re.Match[str]) -> str:
        name = hit.group(1)
        return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPED.get(name, name)

    return _ESCAPE.sub(undo, got) if "\\" in got else got


def _repeated(got: str, form: str) -> bool:
    times, rest = divmod(len(got), len(form)) if form else (0, 1)
    return times > 1 and not rest and got == form * times


def _trimmed(got: str, form: str, trims: Trims) -> bool:
    if len(got) > len(form):
        return False
    low, high = form.lstrip(trims.left) if trims.left else form, trims.right
    core = low.rstrip(high) if high else low
    if not core:
        return not got.strip(trims.left + trims.right)
    start = form.find(got) if got else -1
    if start < 0 or core not in got:
        return False
    return not form[:start].strip(trims.left or "\0") and not form[start + len(got) :].strip(high or "\0")


def _left_of_parsed(got: str, text: str, parsed: Sequence[ParsedString]) -> bool:
    """True where `got` is made of whole stretches of `text` between parsed strings, in order, trimmed."""
    marks = [mark for entry in parsed for mark in (entry.opener, entry.closer) if mark and mark in text]
    if not marks:
        return False
    rest = got.strip()
    for segment in _segments(text, marks):
        core = segment.strip()
        if core and rest.startswith(core):
            rest = rest[len(core) :].lstrip()
    return not rest


def _segments(text: str, marks: Sequence[str]) -> list[str]:
    parts = [text]
    for mark in marks:
        split: list[str] = []
        for part in parts:
            if part in marks:
                split.append(part)
                continue
            for index, piece in enumerate(part.split(mark)):
                if index:
                    split.append(mark)
                split.append(piece)
        parts = split
    return parts
