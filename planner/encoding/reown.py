"""Text whose owner a render lost: is it printed at all, where, and then whose it is again (design.md §4.1).

A search by text alone would take the `a` of a role name for a call named `a`. So the leaves whose words stand
somewhere in framing are rendered once more with marker words in their place: what the markers do not reach
is lost, and where they stand tells which of several places is the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from planner.encoding.tracked import Tracked
from planner.values.prompt import Leaf, Rendered, Span

Marked = Callable[[Mapping[Leaf, str]], str | None]
"""Renders the same inputs with other texts for some leaves; None where the template raises on them."""
Forms = Callable[[Leaf], Sequence[str]]
"""Lists how a leaf's text may be printed, likeliest first."""
Place = tuple[int, int]


def with_texts(value: Any, texts: Mapping[Leaf, str]) -> Any:
    """Return template inputs as plain values, the texts of some leaves replaced."""
    if isinstance(value, Tracked):
        out: list[str] = []
        at = 0
        for owner, length in value.spans:
            given = texts.get(owner) if owner is not None else None
            out.append(str.__getitem__(value, slice(at, at + length)) if given is None else given)
            at += length
        return "".join(out)
    if isinstance(value, Mapping):
        return {with_texts(key, texts): with_texts(inner, texts) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_texts(inner, texts) for inner in value]
    return value


def own_again(
    rendered: Rendered, leaves: Sequence[Leaf], missing: Sequence[Leaf], forms: Forms, marked: Marked
) -> tuple[Rendered, list[Leaf], list[Leaf]]:
    """Return the render with owners found again, the leaves that are not in it, and those without one place.

    missing  leaves of `leaves` whose text no owner holds, in the order of `leaves`.
    """
    free = list(_free(rendered))
    gaps = _gaps(rendered, leaves, missing)
    found = {leaf: [form for form in forms(leaf) if form] for leaf in missing}
    maybe = [leaf for leaf in missing if _nearest(rendered.text, found[leaf], free, gaps[leaf], 0)]
    if not maybe:
        return rendered, list(missing), []
    markers = dict(zip(maybe, _words(rendered.text, len(maybe)), strict=True))
    text = marked(markers)
    if text is None:
        return rendered, [leaf for leaf in missing if leaf not in markers], maybe
    still = [leaf for leaf in missing if leaf not in markers or markers[leaf] not in text]
    taken: list[tuple[int, int, Leaf]] = []
    ambiguous: list[Leaf] = []
    shift = 0
    for at, leaf in _printed(text, markers):
        place = _nearest(rendered.text, found[leaf], free, gaps[leaf], at - shift)
        if place is None or any(start < place[1] and place[0] < stop for start, stop, _ in taken):
            ambiguous.append(leaf)
        else:
            taken.append((*place, leaf))
            shift += len(markers[leaf]) - (place[1] - place[0])
    return _reown(rendered, taken), still, ambiguous


def _words(text: str, count: int) -> list[str]:
    """Return marker words that the text does not hold: letters and digits, as any name may be."""
    salt = 0
    while f"qz{salt}k" in text:
        salt += 1
    return [f"qz{salt}k{index:05d}" for index in range(count)]


def _printed(text: str, markers: Mapping[Leaf, str]) -> list[tuple[int, Leaf]]:
    out: list[tuple[int, Leaf]] = []
    for leaf, word in markers.items():
        at = text.find(word)
        while at >= 0:
            out.append((at, leaf))
            at = text.find(word, at + len(word))
    return sorted(out, key=lambda entry: entry[0])


def _is_free(owner: Leaf | None) -> bool:
    # Punctuation of a JSON dump belongs to its item as glue; a text that lost its owner may stand in it.
    return owner is None or (owner.kind == "glue" and not owner.text)


def _free(rendered: Rendered) -> Iterator[Place]:
    at = 0
    for owner, length in rendered.spans:
        if _is_free(owner):
            yield at, at + length
        at += length


def _gaps(rendered: Rendered, leaves: Sequence[Leaf], missing: Sequence[Leaf]) -> dict[Leaf, Place]:
    """Return, for each missing leaf, the stretch between the nearest leaves around it that have a place."""
    bounds: dict[Leaf, Place] = {}
    at = 0
    for owner, length in rendered.spans:
        if owner is not None and not _is_free(owner):
            bounds[owner] = (bounds.get(owner, (at, at))[0], at + length)
        at += length
    wanted = set(missing)
    lows: dict[Leaf, int] = {}
    low = 0
    for leaf in leaves:
        if leaf in wanted:
            lows[leaf] = low
        elif leaf in bounds:
            low = bounds[leaf][1]
    out: dict[Leaf, Place] = {}
    high = len(rendered.text)
    for leaf in reversed(leaves):
        if leaf in wanted:
            out[leaf] = (lows[leaf], high) if lows[leaf] <= high else (0, len(rendered.text))
        elif leaf in bounds:
            high = bounds[leaf][0]
    return out


def _nearest(text: str, forms: Sequence[str], free: Sequence[Place], gap: Place, wanted: int) -> Place | None:
    """Return the place of one of these forms in free text of the gap that begins nearest to `wanted`."""
    best: Place | None = None
    for start, stop in free:
        low, high = max(start, gap[0]), min(stop, gap[1])
        if low >= high:
            continue
        for form in forms:
            after = text.find(form, max(low, min(wanted, high)), high)
            before = text.rfind(form, low, max(low, min(wanted + len(form) - 1, high)))
            for at in (after, before):
                if at >= 0 and (best is None or abs(at - wanted) < abs(best[0] - wanted)):
                    best = (at, at + len(form))
    return best


def _reown(rendered: Rendered, taken: Sequence[tuple[int, int, Leaf]]) -> Rendered:
    if not taken:
        return rendered
    cuts = sorted(taken, key=lambda entry: entry[0])
    spans: list[Span] = []
    at = 0
    for owner, length in rendered.spans:
        cursor, stop = at, at + length
        for start, end, leaf in cuts:
            if _is_free(owner) and at <= start and end <= stop:
                if start > cursor:
                    spans.append((owner, start - cursor))
                spans.append((leaf, end - start))
                cursor = end
        if stop > cursor:
            spans.append((owner, stop - cursor))
        at = stop
    return Rendered(rendered.text, spans)
