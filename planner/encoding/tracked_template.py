"""Rendering that keeps owners: the template environment with span-keeping joins and filters.

Every override has the same text result as the plain environment; `tests/encoding` compares them on every
template and the planner re-renders plainly on every 64th plan (design.md §4.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from types import BuiltinMethodType
from typing import Any, SupportsIndex

import jinja2
import jinja2.compiler
import jinja2.filters
import jinja2.nodes
import markupsafe

from planner.encoding.template import TemplateEnvironment, compile_with, make_environment, pieces
from planner.encoding.tracked import Spans, Tracked, concat, join, make, respread, spans_of
from planner.values.prompt import Leaf, Rendered, Span

_MEMO_ENTRIES = 1024


class _CodeGenerator(jinja2.compiler.CodeGenerator):
    def _output_child_pre(
        self, node: jinja2.nodes.Expr, frame: jinja2.compiler.Frame, finalize: Any
    ) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape or finalize.src is not None:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("environment.text(")

    def visit_Concat(self, node: jinja2.nodes.Concat, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        self.write("environment.tilde((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class TrackedEnvironment(TemplateEnvironment):
    """The sandbox whose joins keep owners."""

    code_generator_class = _CodeGenerator
    concat = staticmethod(concat)

    @staticmethod
    def tilde(parts: Iterable[Any]) -> str:
        """Join the operands of `~` as jinja2 does: everything as text."""
        return concat([part if isinstance(part, str) else text_of(part) for part in parts])

    @staticmethod
    def text(value: Any) -> str:
        """Turn whatever is printed into text, as `str` does."""
        return value if isinstance(value, str) else text_of(value)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call as the sandbox does; a method of a plain text keeps the owners of what it is given."""
        if type(obj) is BuiltinMethodType and type(obj.__self__) is str and any(map(_holds_owner, args)):
            obj = getattr(make(obj.__self__, spans_of(obj.__self__)), obj.__name__)
        return super().call(context, obj, *args, **kwargs)


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
        return _markup(respread(self, str(markupsafe.Markup(str.__str__(self)) % value)))

    def join(self, parts: Iterable[str], /) -> Tracked:
        """Join escaped parts."""
        return _markup(join(self, [_escaped(part) for part in parts]))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Tracked:
        """Replace by an escaped text."""
        return _markup(Tracked.replace(self, old, _escaped(new), count))

    def format(self, *args: object, **kwargs: object) -> Tracked:
        """Format escaped values; the result takes the first owner."""
        return _markup(respread(self, str(markupsafe.Markup(str.__str__(self)).format(*args, **kwargs))))

    def format_map(self, mapping: Any, /) -> Tracked:
        """Format escaped values; the result takes the first owner."""
        return _markup(respread(self, str(markupsafe.Markup(str.__str__(self)).format_map(mapping))))


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
    "__getitem__", "__mul__", "__rmul__", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "split",
    "rsplit", "splitlines", "partition", "rpartition", "lower", "upper", "casefold", "capitalize", "swapcase",
    "title", "translate", "expandtabs", "zfill", "ljust", "rjust", "center",
):  # fmt: skip
    setattr(TrackedMarkup, _name, _stays_markup(_name))


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


def _safe(value: Any) -> Any:
    text = text_of(value)
    return _markup(text if isinstance(text, Tracked) else make(text, spans_of(text)))


def _holds_owner(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(part, Tracked) for part in value)
    return isinstance(value, Tracked)


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


def _join_filter(value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    items: Iterable[Any] = value
    if attribute is not None:
        items = map(_attribute_of(attribute), value)
    return join(text_of(d), [text_of(item) for item in items])


def _attribute_of(attribute: str | int) -> Callable[[Any], Any]:
    def read(item: Any) -> Any:
        for name in str(attribute).split("."):
            item = item[int(name)] if name.isdigit() else item[name]
        return item

    return read


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    indention = width if isinstance(width, str) else " " * width
    source = text if isinstance(text, Tracked) else make(text, spans_of(text))
    if blank:
        body: Tracked = join("\n" + indention, (source + "\n").splitlines())
    else:
        lines = (source + "\n").splitlines()
        body = lines[0] if lines else make("", ())
        rest = [indention + line if line else line for line in lines[1:]]
        if rest:
            body = join("\n", [body, *rest])
    return indention + body if first else body


class _JsonWriter:
    """Writes JSON as `json.dumps` does and remembers the owner of each string and key."""

    def __init__(self, indent: int | None, separators: tuple[str, str] | None, sort_keys: bool) -> None:
        self.indent = indent
        default = (",", ": ") if indent is not None else (", ", ": ")
        self.item, self.key = separators or default
        self.sort_keys = sort_keys
        self.out: list[str] = []
        self.glue: Leaf | None = None

    def text(self, piece: str) -> None:
        self.out.append(make(piece, ((self.glue, len(piece)),)) if piece else piece)

    def string(self, value: str, ensure_ascii: bool) -> None:
        body = json.dumps(str.__str__(value), ensure_ascii=ensure_ascii)[1:-1]
        self.text('"')
        if isinstance(value, Tracked):
            self.out.append(_escape_spans(value, body, ensure_ascii))
        else:
            self.text(body)
        self.text('"')

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


def _escape_spans(value: Tracked, body: str, ensure_ascii: bool) -> Tracked:
    if len(value.spans) <= 1:
        owner = value.spans[0][0] if value.spans else None
        return make(body, ((owner, len(body)),) if body else ())
    spans: list[Span] = []
    at = 0
    for owner, length in value.spans:
        piece = json.dumps(str.__getitem__(value, slice(at, at + length)), ensure_ascii=ensure_ascii)[1:-1]
        spans.append((owner, len(piece)))
        at += length
    if sum(length for _, length in spans) != len(body):  # a surrogate pair split between two owners
        return make(body, ((value.spans[0][0], len(body)),))
    return make(body, tuple(spans))


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


class _ToJson:
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
        plain = json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        glue = _glue_for(_first_leaf(value))
        if glue is None:
            return plain
        writer = _JsonWriter(indent, separators, sort_keys)
        writer.glue = glue
        writer.value(value, ensure_ascii, 0)
        text = join("", writer.out)
        # Ownership may be lost here, the text never changes: json's own output is what is printed.
        return make(text, _coalesce(text.spans)) if text == plain else plain


def _coalesce(spans: Spans) -> Spans:
    out: list[Span] = []
    for owner, length in spans:
        if out and out[-1][0] is owner:
            out[-1] = (owner, out[-1][1] + length)
        else:
            out.append((owner, length))
    return tuple(out)


@lru_cache(maxsize=64)
def compile_tracked(source: str) -> jinja2.Template:
    """Compile a template for rendering with owners. Raises TemplateFailure."""
    env = make_environment(TrackedEnvironment)
    env.filters["tojson"] = _ToJson()
    env.filters["join"] = _join_filter
    env.filters["indent"] = _indent
    env.filters["safe"] = _safe
    env.filters["string"] = text_of
    return compile_with(env, source)


def render_tracked(source: str, values: Mapping[str, Any], budget_characters: int = 1 << 30) -> Rendered:
    """Render and return text with the owner of every character, neighbours of one owner merged.

    >>> leaf = Leaf(item="turn/t1", section="history", kind="user_text", text="hi")
    >>> render_tracked("<u>{{ m }}</u>", {"m": own(leaf)}).spans == [(None, 3), (leaf, 2), (None, 4)]
    True
    """
    found: list[str] = []
    spans: list[Span] = []
    last: Leaf | None = None
    held = 0
    for piece in pieces(compile_tracked(source), values, budget_characters):
        found.append(piece)
        if type(piece) is str:
            if last is None:
                held += len(piece)
                continue
            spans.append((last, held))
            last, held = None, len(piece)
            continue
        for owner, length in spans_of(piece):
            if owner is last:
                held += length
            else:
                if held:
                    spans.append((last, held))
                last, held = owner, length
    if held:
        spans.append((last, held))
    return Rendered(text="".join(found), spans=spans)
