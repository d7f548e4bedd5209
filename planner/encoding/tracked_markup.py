"""What the `safe` filter gives: a tracked string that escapes what is added to it, as markupsafe's does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, SupportsIndex

import markupsafe

from planner.encoding.tracked import Tracked, join, make, respread, spans_of
from planner.encoding.tracked_dump import text_of


class TrackedMarkup(Tracked):
    """What `safe` gives: like markupsafe's string it escapes plain operands, and it keeps owners.

    functionary v3.1 depends on those escapes (facts-encoding.md §3).
    """

    __slots__ = ()

    def __html__(self) -> str:
        return self

    def __add__(self, other: str) -> Tracked:
        if not isinstance(other, str):
            return NotImplemented
        return _markup(Tracked.__add__(self, _escaped(other)))

    def __radd__(self, other: str) -> Tracked:
        if not isinstance(other, str):
            return NotImplemented
        return _markup(Tracked.__radd__(self, _escaped(other)))

    def __mod__(self, value: Any, /) -> Tracked:
        return _markup(respread(self, str(plain_of(self) % value)))

    def join(self, parts: Iterable[str], /) -> Tracked:
        """Join escaped parts."""
        return _markup(join(self, [_escaped(part) for part in parts]))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Tracked:
        """Replace by an escaped text."""
        return _markup(Tracked.replace(self, old, _escaped(new), count))

    def format(self, *args: object, **kwargs: object) -> Tracked:
        """Format escaped values; the result takes the first owner."""
        return _markup(respread(self, str(plain_of(self).format(*args, **kwargs))))

    def format_map(self, mapping: Any, /) -> Tracked:
        """Format escaped values; the result takes the first owner."""
        return _markup(respread(self, str(plain_of(self).format_map(mapping))))


def _stays_markup(name: str) -> Callable[..., Any]:
    method = getattr(Tracked, name)

    @wraps(method)
    def marked(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        if isinstance(out, Tracked):
            return _markup(out)
        return type(out)(_markup(part) for part in out)

    return marked


# markupsafe keeps its class through these, so a strip of a safe text is a safe text.
for _name in (
    "__getitem__", "__mul__", "__rmul__", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix",
    "split", "rsplit", "splitlines", "partition", "rpartition", "lower", "upper", "casefold", "capitalize",
    "swapcase", "title", "translate", "expandtabs", "zfill", "ljust", "rjust", "center",
):  # fmt: skip
    setattr(TrackedMarkup, _name, _stays_markup(_name))


def plain_of(text: Tracked) -> str:
    """Return the same text without owners, in markupsafe's class where it is a safe text."""
    bare = str.__str__(text)
    # Only its text is used, as a template's output; nothing here is shown as HTML.
    return markupsafe.Markup(bare) if isinstance(text, TrackedMarkup) else bare  # noqa: S704


def _markup(text: Tracked) -> TrackedMarkup:
    out = str.__new__(TrackedMarkup, text)
    out.spans = text.spans
    return out


def _escaped(text: str) -> str:
    if hasattr(text, "__html__"):
        return text
    if not isinstance(text, Tracked):
        return str(markupsafe.escape(text))
    out: list[str] = []
    at = 0
    for owner, length in text.spans:
        piece = str(markupsafe.escape(str.__getitem__(text, slice(at, at + length))))
        out.append(make(piece, ((owner, len(piece)),)))
        at += length
    return join("", out)


def safe(value: Any) -> Any:
    """Mark a value as safe: what is added to it is escaped, as in jinja2."""
    text = text_of(value)
    return _markup(text if isinstance(text, Tracked) else make(text, spans_of(text)))
