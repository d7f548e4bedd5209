"""Objects printed by a template, as JSON or as Python prints them, every string and key with its owner.

The plain library writes the text; here it is only written again piece by piece to know whose each piece is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

from planner.encoding.tracked import Spans, Tracked, join, make, spans_of
from planner.values.prompt import Leaf, Span

_MEMO_ENTRIES = 1024


class _JsonWriter:
    """Writes JSON as `json.dumps` does and remembers the owner of each string and key."""

    def __init__(self, glue: Leaf, indent: int | None, separators: tuple[str, str] | None, sort_keys: bool) -> None:
        self.indent = indent
        default = (",", ": ") if indent is not None else (", ", ": ")
        self.item, self.key = separators or default
        self.sort_keys = sort_keys
        self.out: list[str] = []
        self.spans: list[Span] = []
        self.glue = glue

    def text(self, piece: str) -> None:
        if piece:
            self.out.append(piece)
            self.spans.append((self.glue, len(piece)))

    def string(self, value: str, ensure_ascii: bool) -> None:
        quoted = _quoted(value, ensure_ascii)
        if not isinstance(value, Tracked):
            self.text(quoted)
            return
        self.out.append(quoted)
        self.spans += ((self.glue, 1), *_escaped_spans(value, len(quoted) - 2, ensure_ascii), (self.glue, 1))

    def value(self, value: Any, ensure_ascii: bool, level: int) -> None:
        if isinstance(value, str):
            self.string(value, ensure_ascii)
        elif isinstance(value, Mapping):
            pairs = sorted(value.items()) if self.sort_keys else list(value.items())
            self.group("{", "}", len(pairs), level, lambda i: self.pair(*pairs[i], ensure_ascii, level + 1))
        elif isinstance(value, (list, tuple)):
            self.group("[", "]", len(value), level, lambda i: self.value(value[i], ensure_ascii, level + 1))
        else:
            self.text(json.dumps(value, ensure_ascii=ensure_ascii))

    def pair(self, key: Any, value: Any, ensure_ascii: bool, level: int) -> None:
        if isinstance(key, str):
            self.string(key, ensure_ascii)
        else:
            self.text(json.dumps({key: 0})[1:].rpartition(":")[0])
        self.text(self.key)
        self.value(value, ensure_ascii, level)

    def group(self, opener: str, closer: str, count: int, level: int, write: Callable[[int], None]) -> None:
        self.text(opener)
        for index in range(count):
            if index:
                self.text(self.item)
            if self.indent is not None:
                self.text("\n" + " " * (self.indent * (level + 1)))
            write(index)
        if count and self.indent is not None:
            self.text("\n" + " " * (self.indent * level))
        self.text(closer)


class _ReprWriter:
    """Writes an object as Python does and remembers the owner of each string and key."""

    def __init__(self, glue: Leaf) -> None:
        self.out: list[str] = []
        self.glue = glue

    def text(self, piece: str) -> None:
        if piece:
            self.out.append(make(piece, ((self.glue, len(piece)),)))

    def value(self, value: Any) -> None:
        if isinstance(value, str):
            self.string(value)
        elif isinstance(value, Mapping):
            self.group("{", "}", list(value.items()), self.pair)
        elif isinstance(value, (list, tuple)):
            opener, closer = "[]" if isinstance(value, list) else "()"
            closer = ",)" if closer == ")" and len(value) == 1 else closer
            self.group(opener, closer, value, self.value)
        else:
            self.text(repr(value))

    def pair(self, pair: tuple[Any, Any]) -> None:
        self.value(pair[0])
        self.text(": ")
        self.value(pair[1])

    def group(self, opener: str, closer: str, values: Sequence[Any], write: Callable[[Any], None]) -> None:
        self.text(opener)
        for index, value in enumerate(values):
            if index:
                self.text(", ")
            write(value)
        self.text(closer)

    def string(self, value: str) -> None:
        whole = repr(str.__str__(value))
        quote, other = whole[0], "'" if whole[0] == '"' else '"'
        self.text(quote)
        at = 0
        for owner, length in spans_of(value):
            # The other quote in front makes Python choose the same quotes as for the whole.
            piece = repr(other + str.__getitem__(value, slice(at, at + length)))[2:-1]
            self.out.append(make(piece, ((owner, len(piece)),)))
            at += length
        self.text(quote)


def _quoted(text: str, ensure_ascii: bool) -> str:
    """Return a text as `json.dumps` writes it, by the library's own functions for strings."""
    return encode_basestring_ascii(text) if ensure_ascii else encode_basestring(text)


def _escaped_spans(value: Tracked, length: int, ensure_ascii: bool) -> Spans:
    """Return the owners of a text's escaped form, which has so many characters."""
    if len(value.spans) <= 1:
        return ((value.spans[0][0], length),) if length else ()
    spans: list[Span] = []
    at = 0
    for owner, size in value.spans:
        spans.append((owner, len(_quoted(str.__getitem__(value, slice(at, at + size)), ensure_ascii)) - 2))
        at += size
    if sum(size for _, size in spans) != length:  # a surrogate pair split between two owners
        return ((value.spans[0][0], length),)
    return tuple(spans)


def _first_leaf(value: Any) -> Leaf | None:
    if isinstance(value, Tracked):
        return next((owner for owner, _ in value.spans if owner is not None), None)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            leaf = _first_leaf(key) or _first_leaf(inner)
            if leaf is not None:
                return leaf
    elif isinstance(value, (list, tuple)):
        for inner in value:
            leaf = _first_leaf(inner)
            if leaf is not None:
                return leaf
    return None


def _glue_for(leaf: Leaf | None) -> Leaf | None:
    if leaf is None:
        return None
    return Leaf(
        item=leaf.item, section=leaf.section, kind="glue", text="", role=leaf.role, turn=leaf.turn,
        of_which=leaf.of_which, required=False,
    )  # fmt: skip


class ToJson:
    """The `tojson` filter with owners; memoised by the identity of our own, never changed, inputs."""

    def __init__(self) -> None:
        self._memo: dict[tuple[object, ...], tuple[Any, str]] = {}

    def __call__(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        key = (id(value), ensure_ascii, indent, tuple(separators) if separators else None, sort_keys)
        found = self._memo.get(key)
        if found is not None and found[0] is value:
            return found[1]
        text = self._dump(value, ensure_ascii, indent, separators, sort_keys)
        if len(self._memo) >= _MEMO_ENTRIES:
            self._memo.clear()
        self._memo[key] = (value, text)
        return text

    @staticmethod
    def _dump(
        value: Any,
        ensure_ascii: bool,
        indent: int | None,
        separators: tuple[str, str] | None,
        sort_keys: bool,
    ) -> str:
        plain = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        glue = _glue_for(_first_leaf(value))
        if glue is None:
            return plain
        writer = _JsonWriter(glue, indent, separators, sort_keys)
        writer.value(value, ensure_ascii, 0)
        # Ownership may be lost here, the text never changes: json's own output is what is printed.
        return make(plain, _coalesce(writer.spans)) if "".join(writer.out) == plain else plain


class Merged(tuple[Span, ...]):
    """Owners of a text, neighbours of one owner merged and none of them empty."""

    __slots__ = ()


def _coalesce(spans: Iterable[Span]) -> Merged:
    out: list[Span] = []
    for owner, length in spans:
        if out and out[-1][0] is owner:
            out[-1] = (owner, out[-1][1] + length)
        else:
            out.append((owner, length))
    return Merged([span for span in out if span[1]])


def text_of(value: Any) -> str:
    """Return `str(value)`, with owners where it is an owned text or an object that holds some."""
    if isinstance(value, str):
        return value
    plain = str(value)
    if not isinstance(value, (Mapping, list, tuple)):
        return plain
    glue = _glue_for(_first_leaf(value))
    if glue is None:
        return plain
    writer = _ReprWriter(glue)
    writer.value(value)
    text = join("", writer.out)
    return make(text, _coalesce(text.spans)) if text == plain else plain
