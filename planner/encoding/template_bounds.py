"""Bounds on what a template builds before it prints it: no text outgrows the output budget of its render.

A budget on printed pieces alone comes too late: a text that doubles itself sixty times is never printed
(threats.md §2.5). Every way of a template to make a text longer than its parts is listed here and is checked
before it is taken; the results are the plain ones.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jinja2
import jinja2.compiler
import jinja2.filters
import jinja2.nodes

MAX_REPEATED = 1_000_000
MAX_FIELDS = 256
MAX_INDENT = 64
MAX_SLICES = 100_000
REMOVED_METHODS = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "translate"})
"""String methods whose result may be of any length; no published template calls one."""
REMOVED_FILTERS = ("random", "pprint", "center", "urlize")


class OutputBudgetExceeded(Exception):  # noqa: N818
    """The template wrote, or was about to build, more characters than the caller allowed (threats.md §2.5)."""


class _Bound(threading.local):
    characters = 1 << 30


_bound = _Bound()


def set_bound(characters: int) -> int:
    """Bound what this thread's render may build, and return the bound before it."""
    before = _bound.characters
    _bound.characters = characters
    return before


def check_length(length: int) -> None:
    """Raise OutputBudgetExceeded where a text of so many characters may not be built."""
    if length > _bound.characters:
        raise OutputBudgetExceeded


class BoundedCodeGenerator(jinja2.compiler.CodeGenerator):
    """Compiles `~` and `+` into calls of the environment's own joins."""

    def visit_Concat(self, node: jinja2.nodes.Concat, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Write a call of `tilde`."""
        self.write("environment.tilde((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Add(self, node: jinja2.nodes.BinExpr, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Write a call of `plus`."""
        self.write("environment.plus(")
        self.visit(node.left, frame)
        self.write(", ")
        self.visit(node.right, frame)
        self.write(")")


_SIZED = (str, list, tuple)


def plus(left: Any, right: Any) -> Any:
    """Add as `+` does; a text or list that would outgrow the bound is not built."""
    if isinstance(left, _SIZED) and isinstance(right, _SIZED) and len(left) + len(right) > _bound.characters:
        raise OutputBudgetExceeded
    return left + right


def plain_tilde(parts: Iterable[Any]) -> str:
    """Join the operands of `~` as jinja2 does, within the bound."""
    return plain_concat([part if isinstance(part, str) else str(part) for part in parts])


def plain_concat(parts: Iterable[str]) -> str:
    """Join without a separator, within the bound."""
    return "".join(bounded(parts))


def bounded(parts: Iterable[str]) -> list[str]:
    """Return the parts of a join as a list once their lengths are within the bound."""
    found = parts if isinstance(parts, list) else list(parts)
    check_length(sum(map(len, found)))
    return found


def check_operator(operator: str, left: Any, right: Any) -> None:
    """Refuse a product, power or format that could grow without bound."""
    if operator == "*" and _grows(left, right):
        raise OutputBudgetExceeded
    if operator == "**" and not (_small(left) and _small(right)):
        raise OutputBudgetExceeded
    if operator == "%" and isinstance(left, str):
        check_percent(left, right if isinstance(right, (tuple, Mapping)) else (right,))


def _small(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= 1_000


def _grows(left: Any, right: Any) -> bool:
    for sequence, factor in ((left, right), (right, left)):
        if isinstance(sequence, _SIZED) and isinstance(factor, int):
            return len(sequence) * factor > min(MAX_REPEATED, _bound.characters)
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() > 4_096
    return False


_WIDTH = re.compile(r"%[^a-zA-Z%]*?(\d{4,}|\*)")
_FIELD_WIDTH = re.compile(r"[:.][^{}]*(\d{4,}|\{)")


def check_percent(text: str, values: tuple[Any, ...] | Mapping[Any, Any]) -> None:
    """Bound what `text % values` would give: no wide field, no text printed again and again."""
    if _WIDTH.search(text) or text.count("%") > MAX_FIELDS:
        raise OutputBudgetExceeded
    named = values.items() if isinstance(values, Mapping) else ()
    times = sum(len(value) * text.count(f"({name})") for name, value in named if isinstance(value, str))
    placed = values if isinstance(values, tuple) else ()
    check_length(len(text) + times + sum(len(value) for value in placed if isinstance(value, str)))


def check_format(text: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Bound what `text.format(...)` would give, by the same rules."""
    if text.count("{") > MAX_FIELDS or _FIELD_WIDTH.search(text):
        raise OutputBudgetExceeded
    pairs = [*enumerate(values), *named.items()]
    times = sum(len(value) * max(1, text.count(f"{{{name}")) for name, value in pairs if isinstance(value, str))
    check_length(len(text) + times)


def check_method(owner: str, name: str, values: tuple[Any, ...]) -> None:
    """Bound what the string methods `replace` and `join` would give."""
    if name == "replace" and len(values) >= 2:
        check_replace(owner, values[0], values[1])
    elif name == "join" and values and isinstance(values[0], (list, tuple)):
        _check_join(owner, values[0])


def check_replace(text: Any, old: Any, new: Any) -> None:
    """Bound what replacing every `old` by `new` would give."""
    if isinstance(text, str) and isinstance(old, str) and isinstance(new, str) and len(new) > len(old):
        check_length(len(text) + text.count(old) * (len(new) - len(old)))


def _check_join(separator: str, parts: list[Any] | tuple[Any, ...]) -> None:
    check_length(sum(len(part) for part in parts if isinstance(part, str)) + len(separator) * len(parts))


def joined(join: Callable[[str, list[str]], str], separator: str, parts: list[str]) -> str:
    """Join with a separator by `join`, within the bound."""
    _check_join(separator, parts)
    return join(separator, parts)


def check_indent(text: str, width: int | str) -> None:
    """Bound what indenting every line would give."""
    added = len(width) if isinstance(width, str) else width
    check_length(len(text) + added * (len(str.splitlines(text)) + 1))


@jinja2.pass_eval_context
def _replace(eval_ctx: Any, s: Any, old: Any, new: Any, count: int | None = None) -> str:
    check_replace(s if isinstance(s, str) else str(s), old, new)
    return jinja2.filters.do_replace(eval_ctx, s, old, new, count)


@jinja2.pass_environment
def _join(environment: Any, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    found = value if attribute is None else map(jinja2.filters.make_attrgetter(environment, attribute), value)
    return joined(str.join, str(d), [str(part) for part in found])


def _indent(s: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    check_indent(s, width)
    return jinja2.filters.do_indent(s, width, first, blank)


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    check_percent(str(value), kwargs or args)
    return jinja2.filters.do_format(value, *args, **kwargs)


def _few(kind: str) -> Callable[..., Any]:
    made: Callable[..., Any] = jinja2.filters.FILTERS[kind]

    def limited(value: Any, count: Any, fill_with: Any = None) -> Any:
        if isinstance(count, int) and count > MAX_SLICES:
            raise OutputBudgetExceeded
        return made(value, count, fill_with)

    return limited


@jinja2.pass_environment
def _wordwrap(environment: Any, s: str, *args: Any, **kwargs: Any) -> str:
    wrapped = [kwargs.get("wrapstring"), *args[2:3]]
    check_length(len(s) * (1 + max((len(text) for text in wrapped if isinstance(text, str)), default=1)))
    return jinja2.filters.do_wordwrap(environment, s, *args, **kwargs)


def narrow(dump: Callable[..., str]) -> Callable[..., str]:
    """Return a `tojson` filter that takes no indentation beyond any reader's screen."""

    def limited(value: Any, *args: Any, **kwargs: Any) -> str:
        if args or kwargs:
            indent = kwargs.get("indent", args[1] if len(args) > 1 else None)
            if (len(indent) if isinstance(indent, str) else indent or 0) > MAX_INDENT:
                raise OutputBudgetExceeded
        return dump(value, *args, **kwargs)

    return limited


FILTERS: Mapping[str, Callable[..., Any]] = {
    "replace": _replace, "join": _join, "indent": _indent, "format": _format, "wordwrap": _wordwrap,
    "batch": _few("batch"), "slice": _few("slice"),
}  # fmt: skip
