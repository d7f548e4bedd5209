"""What can be read from a template without running it: strings it looks for, loops it must not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import jinja2
from jinja2 import nodes

from planner.encoding.template import TemplateFailure, make_environment

_LOOKING = frozenset(
    {"startswith", "endswith", "split", "rsplit", "replace", "partition", "rpartition", "find", "rfind",
     "index", "rindex", "count", "removeprefix", "removesuffix"}
)  # fmt: skip
_STRIPPING = frozenset({"strip", "lstrip", "rstrip", "trim"})
_LOOKING_FILTERS = frozenset({"replace", "split", "startswith", "endswith"})


@dataclass(frozen=True, slots=True)
class Looked:
    """String literals a template looks for in texts, each once, in source order.

    strings   all of them, also those it compares with roles and names
    openers   those it asks `startswith` or splits at; closers those it asks `endswith`
    stripped  characters it strips by name
    """

    strings: tuple[str, ...]
    openers: tuple[str, ...]
    closers: tuple[str, ...]
    stripped: str


def _parse(source: str) -> nodes.Template:
    try:
        return make_environment().parse(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, ValueError, TypeError) as error:
        raise TemplateFailure(type(error).__name__) from None


def looked_for(source: str) -> Looked:
    """List the strings a template looks for. Raises TemplateFailure where it does not parse."""
    tree = _parse(source)
    named = _named_strings(tree)
    strings: list[str] = [text for texts in named.values() for text in texts]
    openers: list[str] = []
    closers: list[str] = []
    stripped: list[str] = []

    def texts(parts: list[nodes.Node]) -> list[str]:
        return [text for part in parts for text in _texts(part, named)]

    for node in tree.find_all((nodes.Call, nodes.Filter, nodes.Test, nodes.Compare)):
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            found = texts(list(node.args))
            if node.node.attr in _STRIPPING:
                stripped += found
            elif node.node.attr in _LOOKING:
                strings += found
                (closers if node.node.attr in {"endswith", "removesuffix"} else openers).extend(found)
        elif isinstance(node, nodes.Filter) and node.name in _STRIPPING:
            stripped += texts(list(node.args))
        elif isinstance(node, nodes.Filter) and node.name in _LOOKING_FILTERS:
            strings += texts(list(node.args))
        elif isinstance(node, nodes.Test):
            strings += texts([node.node, *node.args])
        elif isinstance(node, nodes.Compare):
            strings += texts([node.expr, *(operand.expr for operand in node.ops)])
    return Looked(_unique(strings), _unique(openers), _unique(closers), "".join(_unique("".join(stripped))))


def _unique(texts: list[str] | str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _named_strings(tree: nodes.Template) -> dict[str, list[str]]:
    """Return the literals that variables are set to: a template may name what it looks for first."""
    named: dict[str, list[str]] = {}
    for node in tree.find_all(nodes.Assign):
        value = node.node.value if isinstance(node.node, nodes.Const) else None
        if isinstance(node.target, nodes.Name) and isinstance(value, str):
            named.setdefault(node.target.name, []).append(value)
    return named


def _texts(node: nodes.Node, named: dict[str, list[str]]) -> Iterator[str]:
    if isinstance(node, nodes.Const):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, nodes.Name):
        yield from named.get(node.name, ())
    elif isinstance(node, (nodes.List, nodes.Tuple, nodes.Concat, nodes.Add, nodes.Or, nodes.And, nodes.CondExpr)):
        for child in node.iter_child_nodes():
            yield from _texts(child, named)


def runaway(source: str) -> Literal["nested", "doubles"] | None:
    """Say how a template could run away on a short input, None for one that cannot be seen to.

    Refused are a counting loop inside a counting loop and a text that is set to itself twice over: no
    published template has them, and each turns a small input into an unbounded one. Raises TemplateFailure.
    """
    tree = _parse(source)
    if any(_counting_inside(loop) for loop in tree.find_all(nodes.For) if _counts(loop.iter)):
        return "nested"
    named: dict[str, nodes.Node] = {}
    for assign in tree.find_all(nodes.Assign):
        name = _target(assign.target)
        if name is not None and _mentions(assign.node, name, named, 0) > 1:
            return "doubles"
        if name is not None:
            named[name] = assign.node
    return None


def _counts(node: nodes.Node) -> bool:
    calls = [node, *node.find_all(nodes.Call)]
    return any(
        isinstance(call, nodes.Call) and isinstance(call.node, nodes.Name) and call.node.name == "range"
        for call in calls
    )


def _counting_inside(loop: nodes.For) -> bool:
    return any(_counts(inner.iter) for part in loop.body for inner in _loops(part))


def _loops(node: nodes.Node) -> Iterator[nodes.For]:
    if isinstance(node, nodes.For):
        yield node
    yield from node.find_all(nodes.For)


def _target(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.NSRef):
        return f"{node.name}.{node.attr}"
    return None


_DEEPEST = 4


def _mentions(node: nodes.Node, name: str, named: Mapping[str, nodes.Node], depth: int) -> int:
    """Count how often an expression holds the named text, also through other names set before it."""
    own = _target_of(node)
    if own == name:
        return 1
    if own is not None and own in named and depth < _DEEPEST:
        return _mentions(named[own], name, named, depth + 1)
    if isinstance(node, nodes.Mul):
        return 2 * sum(_mentions(child, name, named, depth) for child in node.iter_child_nodes())
    if isinstance(node, nodes.CondExpr):
        branches = [branch for branch in (node.expr1, node.expr2) if branch is not None]
        return max(_mentions(branch, name, named, depth) for branch in branches)
    # A namespace outlives a loop's step; a plain name does not, and replacing in it is everyday work.
    grows = isinstance(node, nodes.Filter) and node.name in {"replace", "indent"} and "." in name
    if isinstance(node, (nodes.Concat, nodes.Add, nodes.Filter, nodes.List, nodes.Tuple)):
        inner = sum(_mentions(child, name, named, depth) for child in node.iter_child_nodes())
        return inner * 2 if grows else inner
    return 0


def _target_of(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return f"{node.node.name}.{node.attr}"
    return node.name if isinstance(node, nodes.Name) else None
