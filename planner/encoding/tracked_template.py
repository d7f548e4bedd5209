"""Rendering that keeps owners: the template environment with span-keeping joins and filters.

Every override has the same text result as the plain environment; `tests/encoding` compares them on every
template and the planner re-renders plainly on every 64th plan (design.md §4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import BuiltinMethodType
from typing import Any

import jinja2
import jinja2.compiler
import jinja2.nodes

from planner.encoding.template import TemplateEnvironment, compile_with, make_environment, pieces
from planner.encoding.template_bounds import BoundedCodeGenerator, bounded, check_indent, joined, narrow
from planner.encoding.tracked import Tracked, concat, join, make, respread, spans_of
from planner.encoding.tracked_dump import Merged, ToJson, text_of
from planner.encoding.tracked_markup import plain_of, safe
from planner.values.prompt import Leaf, Rendered, Span


class _CodeGenerator(BoundedCodeGenerator):
    def _output_child_pre(self, node: jinja2.nodes.Expr, frame: jinja2.compiler.Frame, finalize: Any) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape or finalize.src is not None:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("environment.text(")


class TrackedEnvironment(TemplateEnvironment):
    """The sandbox whose joins keep owners."""

    code_generator_class = _CodeGenerator

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join what a macro or a `set` block wrote, within the bound."""
        return concat(bounded(parts))

    @staticmethod
    def tilde(parts: Iterable[Any]) -> str:
        """Join the operands of `~` as jinja2 does: everything as text, within the bound."""
        return concat(bounded([part if isinstance(part, str) else text_of(part) for part in parts]))

    @staticmethod
    def text(value: Any) -> str:
        """Turn whatever is printed into text, as `str` does."""
        return value if isinstance(value, str) else text_of(value)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call as the sandbox does; a method of a plain text keeps the owners of what it is given."""
        if type(obj) is BuiltinMethodType and type(obj.__self__) is str and any(map(_holds_owner, args)):
            obj = getattr(make(obj.__self__, spans_of(obj.__self__)), obj.__name__)
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Format as the sandbox does, on the bare text, and find the owned texts again in the result."""
        owned = getattr(value, "__self__", None)
        if isinstance(owned, Tracked):
            value = getattr(plain_of(owned), value.__name__)
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def keeping(*args: Any, **kwargs: Any) -> str:
            text = wrapped(*args, **kwargs)
            if isinstance(owned, Tracked):
                return respread(owned, text)
            return _own_mentions(text, [*args, *kwargs.values()])

        return keeping

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Calculate as the plain environment does; `%` on a plain text keeps the owners of what it prints."""
        result = super().call_binop(context, operator, left, right)
        if operator == "%" and type(left) is str and type(result) is str:
            return _own_mentions(result, right if isinstance(right, tuple) else (right,))
        return result


def _own_mentions(text: str, values: Iterable[object]) -> str:
    """Give owners back to the texts that a formatting put into `text`, looked for in the order given."""
    out: list[str] = []
    at = 0
    for value in values:
        place = text.find(value, at) if isinstance(value, Tracked) and value else -1
        if place >= 0:
            out += [text[at:place], value]  # type: ignore[list-item]
            at = place + len(value)  # type: ignore[arg-type]
    return concat([*out, text[at:]]) if out else text


def _holds_owner(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(part, Tracked) for part in value)
    return isinstance(value, Tracked)


def _join_filter(value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    items: Iterable[Any] = value
    if attribute is not None:
        items = map(_attribute_of(attribute), value)
    return joined(join, text_of(d), [text_of(item) for item in items])


def _attribute_of(attribute: str | int) -> Callable[[Any], Any]:
    def read(item: Any) -> Any:
        for name in str(attribute).split("."):
            item = item[int(name)] if name.isdigit() else item[name]
        return item

    return read


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    check_indent(text, width)
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


@lru_cache(maxsize=64)
def compile_tracked(source: str) -> jinja2.Template:
    """Compile a template for rendering with owners. Raises TemplateFailure."""
    env = make_environment(TrackedEnvironment)
    env.filters["tojson"] = narrow(ToJson())
    env.filters["join"] = _join_filter
    env.filters["indent"] = _indent
    env.filters["safe"] = safe
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
        own = piece.spans if isinstance(piece, Tracked) else spans_of(piece)
        if type(own) is Merged and own and own[0][0] is not last:
            if held:
                spans.append((last, held))
            spans.extend(own[:-1])
            last, held = own[-1]
            continue
        for owner, length in own:
            if owner is last:
                held += length
            else:
                if held:
                    spans.append((last, held))
                last, held = owner, length
    if held:
        spans.append((last, held))
    return Rendered(text="".join(found), spans=spans)
