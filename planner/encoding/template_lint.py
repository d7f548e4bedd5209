"""What a chat template relies on that only some engines forgive, with line numbers, read without running it.

The engines are npm @huggingface/jinja 0.5.11 and llama.cpp's own (build b10775): their gaps were found by trying every
filter, test and method of Jinja2 in each. A finding is a place to look at, no proof of a difference: whether there
is one on real conversations is measured by `planner.runtimes.portability`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import jinja2
from jinja2 import nodes

from planner.encoding.template import TemplateFailure, make_environment
from planner.values.portability import LintFinding

RULES: Mapping[str, str] = {
    "null_into_filter": "a filter or method gets what may be null or undefined",
    "trim_blocks": "the text here depends on trim_blocks or lstrip_blocks being on",
    "integer_key": "an object literal has a key that is no string",
    "missing_filter": "an engine has no such filter",
    "missing_test": "an engine has no such test",
    "missing_method": "an engine has no such method or function",
    "clock": "the output depends on the clock",
    "printed_value": "a value is printed as Python writes it: True, None, 1.0, single quotes",
    "unpacked_tuple": "a loop unpacks tuples that the template itself wrote",
}
"""Rule to what it says."""

_BOTH, _NPM = "npm, llama", "npm"
_MISSING: Mapping[str, Mapping[str, str]] = {
    "missing_filter": {
        **dict.fromkeys(
            ("attr", "batch", "e", "escape", "filesizeformat", "forceescape", "groupby", "round", "striptags", "sum",
             "truncate", "urlencode", "wordcount", "wordwrap", "xmlattr"), _BOTH,
        ),
        **dict.fromkeys(("count", "d", "max", "min", "reject", "select"), _NPM),
        "unique": "llama",
    },
    "missing_test": {
        **dict.fromkeys(("escaped", "filter", "sameas"), _BOTH),
        **dict.fromkeys(("divisibleby", "eq", "equalto", "float", "ge", "greaterthan", "gt", "in", "le", "lessthan",
                         "lt", "ne", "test"), _NPM),
    },
    "missing_method": {
        **dict.fromkeys(
            ("splitlines", "removeprefix", "removesuffix", "find", "rfind", "index", "count", "join", "partition",
             "isdigit", "isspace", "isalpha", "isnumeric", "swapcase", "isupper", "dict"), _BOTH,
        ),
        **dict.fromkeys(("rsplit", "format"), _NPM),
    },
}  # fmt: skip
_ALWAYS_THERE = frozenset({"role", "function", "type", "arguments", "parameters", "properties", "id", "text"})
_TAKES_NULL = frozenset({"default", "d", "tojson", "safe"})
_TEXT_METHODS = frozenset(
    {"strip", "lstrip", "rstrip", "split", "startswith", "endswith", "replace", "lower", "upper", "title"}
)
_SHORT = 60


def lint_template(source: str) -> tuple[LintFinding, ...]:
    """Return the findings by line. Raises TemplateFailure where the template does not parse."""
    environment = make_environment()
    try:
        # A filter that Jinja2 itself lacks parses; it is a finding like any other.
        tree = environment.parse(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, ValueError, TypeError) as error:
        raise TemplateFailure(type(error).__name__) from None
    found = [*_missing(tree, environment), *_single(tree), *_trimmed(source), *_NullWalk(tree).findings()]
    return tuple(sorted(set(found), key=lambda one: (one.line, one.rule, one.about)))


def _missing(tree: nodes.Template, environment: jinja2.Environment) -> Iterator[LintFinding]:
    for node in tree.find_all((nodes.Filter, nodes.Test, nodes.Call)):
        rule, name = "missing_method", ""
        if isinstance(node, nodes.Filter):
            rule, name = "missing_filter", node.name
            if name not in environment.filters:
                yield LintFinding(rule, node.lineno, f"{_ascii(name)} (Jinja2)")
        elif isinstance(node, nodes.Test):
            rule, name = "missing_test", node.name
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            name = node.node.attr
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
            name = node.node.name
        if name in _MISSING[rule]:
            yield LintFinding(rule, node.lineno, f"{name} ({_MISSING[rule][name]})")


def _single(tree: nodes.Template) -> Iterator[LintFinding]:
    """Find what one node alone shows."""
    for node in tree.find_all((nodes.Dict, nodes.Name, nodes.Filter, nodes.For)):
        if isinstance(node, nodes.Dict):
            for pair in node.items:
                if isinstance(pair.key, nodes.Const) and not isinstance(pair.key.value, str):
                    yield LintFinding("integer_key", pair.lineno, _ascii(repr(pair.key.value)))
        elif isinstance(node, nodes.Name) and node.name == "strftime_now" and node.ctx == "load":
            yield LintFinding("clock", node.lineno, node.name)
        elif isinstance(node, nodes.Filter) and node.name == "string" and node.node is not None:
            yield LintFinding("printed_value", node.lineno, f"{spelled(node.node)} | string")
        elif isinstance(node, nodes.For) and isinstance(node.target, nodes.Tuple):
            written = node.iter.items if isinstance(node.iter, nodes.List | nodes.Tuple) else ()
            if any(isinstance(item, nodes.Tuple) for item in written):
                yield LintFinding("unpacked_tuple", node.lineno, spelled(node.target))


def _trimmed(source: str) -> Iterator[LintFinding]:
    """Compare the stretches of plain text with both settings on and off; a stretch is named by its line."""
    loose = make_environment()
    loose.trim_blocks = loose.lstrip_blocks = False
    pairs = zip(_stretches(make_environment(), source), _stretches(loose, source), strict=True)
    for (trimmed, line), (whole, _) in pairs:
        if trimmed != whole:
            yield LintFinding("trim_blocks", line, "white space beside a block")


def _stretches(environment: jinja2.Environment, source: str) -> list[tuple[str, int]]:
    """Return the text before, between and after all tags, each with the line on which the tag before it ends."""
    found: list[tuple[str, int]] = [("", 1)]
    for number, kind, value in environment.lex(source):
        if kind == "data":
            text, line = found[-1]
            found[-1] = (text + value, line)
        elif kind.endswith("_end"):
            found.append(("", number))
    return found


Guards = frozenset[str]


class _NullWalk:
    """Walks a template with the expressions that an enclosing condition has asked about."""

    def __init__(self, tree: nodes.Template) -> None:
        self._tree = tree
        self._namespaces = {"loop"}
        self._nullable: set[str] = set()
        for node in tree.find_all(nodes.Assign):
            if isinstance(node.target, nodes.Name) and isinstance(node.node, nodes.Call):
                made = node.node.node
                if isinstance(made, nodes.Name) and made.name == "namespace":
                    self._namespaces.add(node.target.name)
        self._found: list[LintFinding] = []

    def findings(self) -> Sequence[LintFinding]:
        """Return what was found, in no order."""
        self._visit(self._tree, frozenset())
        return self._found

    def _visit(self, node: nodes.Node, guards: Guards) -> None:
        if isinstance(node, nodes.If):
            self._branches(node, guards)
            return
        if isinstance(node, nodes.CondExpr):
            inner = guards | _asked(node.test)
            self._all((node.test,), guards)
            self._all([part for part in (node.expr1, node.expr2) if part is not None], inner)
            return
        if isinstance(node, nodes.And | nodes.Or):
            self._visit(node.left, guards)
            self._visit(node.right, guards | _asked(node.left))
            return
        self._note(node, guards)
        self._assign(node, guards)
        self._all(list(node.iter_child_nodes()), guards)

    def _branches(self, node: nodes.If, guards: Guards) -> None:
        """Visit every branch with what all tests of the chain asked: an else may rest on them too."""
        tests = [node.test, *(other.test for other in node.elif_)]
        inner = guards.union(*(_asked(test) for test in tests))
        before = guards
        for test in tests:
            self._visit(test, before)
            before |= _asked(test)
        self._all([*node.body, *(part for other in node.elif_ for part in other.body), *node.else_], inner)

    def _all(self, parts: Sequence[nodes.Node], guards: Guards) -> None:
        for part in parts:
            self._visit(part, guards)

    def _assign(self, node: nodes.Node, guards: Guards) -> None:
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            name = node.target.name
            if self._may_be_null(node.node, guards):
                self._nullable.add(name)
            else:
                self._nullable.discard(name)

    def _note(self, node: nodes.Node, guards: Guards) -> None:
        operand: nodes.Node | None = None
        if isinstance(node, nodes.Filter) and node.name not in _TAKES_NULL:
            operand = node.node
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            operand = node.node.node if node.node.attr in _TEXT_METHODS else None
        if operand is not None and self._may_be_null(operand, guards):
            self._found.append(LintFinding("null_into_filter", node.lineno, spelled(operand)))

    def _may_be_null(self, node: nodes.Node, guards: Guards) -> bool:
        """Tell whether nothing around `node` makes sure that it is there."""
        if spelled(node) in guards:
            return False
        if isinstance(node, nodes.Name):
            return node.name in self._nullable or node.name == "tools"
        key = _key(node)
        if key is None or key in _ALWAYS_THERE:
            return False
        base = node.node if isinstance(node, nodes.Getattr | nodes.Getitem) else None
        return not (isinstance(base, nodes.Name) and base.name in self._namespaces)


def _key(node: nodes.Node) -> str | None:
    """Return the key of a look-up by name."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
        return node.arg.value
    return None


def _asked(test: nodes.Node) -> Guards:
    """Return every look-up and name inside a condition, spelled out."""
    kinds = (nodes.Getattr, nodes.Getitem, nodes.Name)
    return frozenset(spelled(node) for node in [*test.find_all(kinds), *([test] if isinstance(test, kinds) else [])])


def spelled(node: nodes.Node) -> str:
    """Return an expression in one short ASCII line; `a["b"]` and `a.b` are spelled alike."""
    return _ascii(_spelled(node))


def _spelled(node: nodes.Node) -> str:
    if isinstance(node, nodes.Name):
        return node.name
    key = _key(node)
    if key is not None and isinstance(node, nodes.Getattr | nodes.Getitem):
        return f"{_spelled(node.node)}.{key}"
    if isinstance(node, nodes.Getitem):
        return f"{_spelled(node.node)}[{_spelled(node.arg)}]"
    if isinstance(node, nodes.Const):
        return repr(node.value)
    if isinstance(node, nodes.Tuple):
        return ", ".join(_spelled(item) for item in node.items)
    if isinstance(node, nodes.Filter) and node.node is not None:
        return f"{_spelled(node.node)} | {node.name}"
    if isinstance(node, nodes.Call):
        return f"{_spelled(node.node)}(..)"
    return type(node).__name__.lower()


def _ascii(text: str) -> str:
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= _SHORT else f"{shown[: _SHORT - 3]}..."
