"""A `str` that remembers which leaf each of its characters came from (facts-encoding.md §3).

Equality, hash, membership, length and truth are those of `str`, so a template cannot tell the difference and
the render is identical by construction. Operations that keep characters keep their owners; where an operation
cannot say (a case change that alters the length), the whole result takes the first owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from planner.values.prompt import Leaf, Span

Spans = tuple[Span, ...]


class Tracked(str):
    """Text with owners; `spans` lengths add up to `len(self)`."""

    __slots__ = ("spans",)
    spans: Spans

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> Tracked:
        if not isinstance(other, str):
            return NotImplemented
        return make(str.__add__(self, other), _merge(self.spans, spans_of(other)))

    def __radd__(self, other: str) -> Tracked:
        if not isinstance(other, str):
            return NotImplemented
        return make(str.__add__(other, self), _merge(spans_of(other), self.spans))

    def __mul__(self, times: SupportsIndex) -> Tracked:
        count = max(0, times.__index__())
        return make(str.__mul__(self, count), self.spans * count)

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> Tracked:
        text = str.__getitem__(self, key)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return make(text, cut(self.spans, start, max(start, stop)))
            owners = [owner for owner, length in self.spans for _ in range(length)]
            return make(text, tuple((owner, 1) for owner in owners[key]))
        index = key.__index__()
        start = index + len(self) if index < 0 else index
        return make(text, cut(self.spans, start, start + 1))

    def __iter__(self) -> Iterator[Tracked]:
        owners = (owner for owner, length in self.spans for _ in range(length))
        for char, owner in zip(str.__iter__(self), owners, strict=True):
            yield make(char, ((owner, 1),))

    def _between(self, start: int, stop: int) -> Tracked:
        return make(str.__getitem__(self, slice(start, stop)), cut(self.spans, start, stop))

    def strip(self, chars: str | None = None, /) -> Tracked:
        """As `str.strip`, owners kept."""
        left = str.lstrip(self, chars)
        start = len(self) - len(left)
        return self._between(start, start + len(str.rstrip(left, chars)))

    def lstrip(self, chars: str | None = None, /) -> Tracked:
        """As `str.lstrip`, owners kept."""
        return self._between(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> Tracked:
        """As `str.rstrip`, owners kept."""
        return self._between(0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix: str, /) -> Tracked:
        """As `str.removeprefix`, owners kept."""
        return self._between(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> Tracked:
        """As `str.removesuffix`, owners kept."""
        return self._between(0, len(str.removesuffix(self, suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Tracked]:  # type: ignore[override]
        """As `str.split`, owners kept."""
        return self._locate(str.split(self, sep, maxsplit))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Tracked]:  # type: ignore[override]
        """As `str.rsplit`, owners kept."""
        if sep is None:
            return self._locate_backwards(str.rsplit(self, sep, maxsplit))
        return self._separated(str.rsplit(self, sep, maxsplit), len(sep))

    def splitlines(self, keepends: bool = False) -> list[Tracked]:  # type: ignore[override]
        """As `str.splitlines`, owners kept."""
        out: list[Tracked] = []
        at = 0
        for whole, line in zip(str.splitlines(self, True), str.splitlines(self, bool(keepends)), strict=True):
            out.append(self._between(at, at + len(line)))
            at += len(whole)
        return out

    def partition(self, sep: str, /) -> tuple[Tracked, Tracked, Tracked]:
        """As `str.partition`, owners kept."""
        head, middle, _ = str.partition(self, sep)
        a, b = len(head), len(head) + len(middle)
        return self._between(0, a), self._between(a, b), self._between(b, len(self))

    def rpartition(self, sep: str, /) -> tuple[Tracked, Tracked, Tracked]:
        """As `str.rpartition`, owners kept."""
        head, middle, _ = str.rpartition(self, sep)
        a, b = len(head), len(head) + len(middle)
        return self._between(0, a), self._between(a, b), self._between(b, len(self))

    def _locate(self, parts: Sequence[str]) -> list[Tracked]:
        # Parts of a split stand in the text in order, so the next find is always the right one: between two
        # parts lie only separators, and a part never begins with one when split on whitespace runs.
        out: list[Tracked] = []
        at = 0
        for part in parts:
            at = str.find(self, part, at)
            out.append(self._between(at, at + len(part)))
            at += len(part)
        return out

    def _locate_backwards(self, parts: Sequence[str]) -> list[Tracked]:
        out: list[Tracked] = []
        end = len(self)
        for part in reversed(parts):
            start = str.rfind(self, part, 0, end)
            out.append(self._between(start, start + len(part)))
            end = start
        return out[::-1]

    def _separated(self, parts: Sequence[str], width: int) -> list[Tracked]:
        out: list[Tracked] = []
        at = 0
        for part in parts:
            out.append(self._between(at, at + len(part)))
            at += len(part) + width
        return out

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Tracked:
        """As `str.replace`; replaced characters take the owners of `new`.

        What stands for one single character, such as an escape, belongs to whom the character belonged.
        """
        limit = count.__index__()
        if not old or limit == 0 or old not in self:
            return respread(self, str.replace(self, old, new, limit)) if not old else self
        parts = self._separated(str.split(self, old, limit), len(old))
        if len(old) > 1 or isinstance(new, Tracked):
            return join(new, parts)
        spans = list(parts[0].spans)
        at = len(parts[0])
        for part in parts[1:]:
            if new:
                spans.append((cut(self.spans, at, at + 1)[0][0], len(new)))
            spans.extend(part.spans)
            at += 1 + len(part)
        return make(str.replace(self, old, new, limit), tuple(spans))

    def join(self, parts: Iterable[str], /) -> Tracked:
        """As `str.join`, owners kept."""
        return join(self, list(parts))

    def lower(self) -> Tracked:
        """As `str.lower`, owners kept where the length is."""
        return respread(self, str.lower(self))

    def upper(self) -> Tracked:
        """As `str.upper`, owners kept where the length is."""
        return respread(self, str.upper(self))

    def casefold(self) -> Tracked:
        """As `str.casefold`, owners kept where the length is."""
        return respread(self, str.casefold(self))

    def capitalize(self) -> Tracked:
        """As `str.capitalize`, owners kept where the length is."""
        return respread(self, str.capitalize(self))

    def swapcase(self) -> Tracked:
        """As `str.swapcase`, owners kept where the length is."""
        return respread(self, str.swapcase(self))

    def title(self) -> Tracked:
        """As `str.title`, owners kept where the length is."""
        return respread(self, str.title(self))

    def translate(self, table: Any, /) -> Tracked:
        """As `str.translate`, owners kept where the length is."""
        return respread(self, str.translate(self, table))

    def expandtabs(self, tabsize: SupportsIndex = 8) -> Tracked:
        """As `str.expandtabs`, owners kept where the length is."""
        return respread(self, str.expandtabs(self, tabsize))

    def zfill(self, width: SupportsIndex, /) -> Tracked:
        """As `str.zfill`, owners kept where the length is."""
        return respread(self, str.zfill(self, width))

    def ljust(self, width: SupportsIndex, fillchar: str = " ", /) -> Tracked:
        """As `str.ljust`; the fill has no owner."""
        return self + str.ljust(self, width, fillchar)[len(self) :]

    def rjust(self, width: SupportsIndex, fillchar: str = " ", /) -> Tracked:
        """As `str.rjust`; the fill has no owner."""
        text = str.rjust(self, width, fillchar)
        return text[: len(text) - len(self)] + self

    def center(self, width: SupportsIndex, fillchar: str = " ", /) -> Tracked:
        """As `str.center`; the fill has no owner."""
        text = str.center(self, width, fillchar)
        left = str.find(text, str.__str__(self)) if len(text) > len(self) else 0
        spare = len(text) - len(self)
        left = min(spare, spare // 2 + (spare & width.__index__() & 1)) if spare > 0 else left
        return text[:left] + self + text[left + len(self) :]

    def __mod__(self, value: Any, /) -> Tracked:
        return respread(self, str.__mod__(self, value))

    def format(self, *args: object, **kwargs: object) -> Tracked:
        """As `str.format`; the result takes the first owner."""
        return respread(self, str.format(self, *args, **kwargs))

    def format_map(self, mapping: Any, /) -> Tracked:
        """As `str.format_map`; the result takes the first owner."""
        return respread(self, str.format_map(self, mapping))


def make(text: str, spans: Spans) -> Tracked:
    """Give `text` its owners. The caller guarantees that the lengths add up."""
    tracked = str.__new__(Tracked, text)
    tracked.spans = spans
    return tracked


def own(leaf: Leaf) -> Tracked:
    """Return the leaf's own text, every character owned by it."""
    return make(leaf.text, ((leaf, len(leaf.text)),) if leaf.text else ())


def spans_of(text: str) -> Spans:
    """Return the owners of any string; a plain one belongs to nobody."""
    if isinstance(text, Tracked):
        return text.spans
    return ((None, len(text)),) if text else ()


def cut(spans: Spans, start: int, stop: int) -> Spans:
    """Return the owners of the characters from `start` to `stop`."""
    if len(spans) == 1:
        return ((spans[0][0], stop - start),) if stop > start else ()
    out: list[Span] = []
    at = 0
    for owner, length in spans:
        low, high = max(at, start), min(at + length, stop)
        if high > low:
            out.append((owner, high - low))
        at += length
        if at >= stop:
            break
    return tuple(out)


def join(separator: str, parts: Sequence[str]) -> Tracked:
    """Join like `str.join`, owners of parts and separator kept."""
    spans: list[Span] = []
    between = spans_of(separator)
    for index, part in enumerate(parts):
        if index and between:
            spans.extend(between)
        spans.extend(spans_of(part))
    return make(str.join(separator, parts), tuple(spans))


def concat(parts: Iterable[str]) -> str:
    """Join without a separator; stays a plain `str` where no part has an owner."""
    found = list(parts)
    if any(isinstance(part, Tracked) for part in found):
        return join("", found)
    return "".join(found)


def _merge(left: Spans, right: Spans) -> Spans:
    if left and right and left[-1][0] is right[0][0]:
        return (*left[:-1], (left[-1][0], left[-1][1] + right[0][1]), *right[1:])
    return left + right


def respread(before: Tracked, after: str) -> Tracked:
    """Give a changed text the owners of the old one: each character's where the length is the same."""
    if len(before) == len(after):
        return make(after, before.spans)
    owner = next((owner for owner, _ in before.spans if owner is not None), None)
    return make(after, ((owner, len(after)),) if after else ())
