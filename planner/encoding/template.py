"""Chat templates: compile and render, exactly as transformers does it, inside a sandbox.

Settings follow transformers 5 (trim_blocks, lstrip_blocks, loop controls, the `generation` tag, a `tojson`
that keeps non-ASCII text and key order); facts-encoding.md §3 and facts-bundles.md fact 17 hold the proof.
The clock is an input (X57). This is the only home of jinja2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache, update_wrapper
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils

from planner.encoding.template_bounds import (
    FILTERS,
    REMOVED_FILTERS,
    REMOVED_METHODS,
    BoundedCodeGenerator,
    OutputBudgetExceeded,
    check_format,
    check_method,
    check_operator,
    narrow,
    plain_concat,
    plain_tilde,
    plus,
    set_bound,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TemplateFailure(Exception):  # noqa: N818 - the template failed, not this program
    """A template raised. `kind` is the class name of what it raised; its words are never kept (R188)."""

    def __init__(self, kind: str) -> None:
        """Keep the kind only."""
        super().__init__(kind)
        self.kind = kind


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}..{% endgeneration %}`: transformers' marker of assistant text; the body is kept."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 reads a plain set from the class

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """Wrap the body in a call block so that it renders as in transformers, trailing newline and all."""
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    @staticmethod
    def _body(caller: Callable[[], str]) -> str:
        return caller()


_DICT_ATTRIBUTES = frozenset(dir(dict))
# Attributes the sandbox lets through after a dozen checks; looked up here at once, with the same answer.
_SAFE_TEXT_METHODS = frozenset(
    "startswith endswith split rsplit splitlines strip lstrip rstrip replace lower upper title capitalize "
    "removeprefix removesuffix find rfind index count join partition rpartition isdigit isspace".split()
)
_OPEN_KINDS = (jinja2.runtime.LoopContext, jinja2.utils.Namespace)


class TemplateEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox with transformers' settings; whatever makes a text longer is bounded, folding is off."""

    code_generator_class = BoundedCodeGenerator
    concat = staticmethod(plain_concat)
    tilde = staticmethod(plain_tilde)
    plus = staticmethod(plus)
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse a product, power or format that could grow without bound."""
        check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call as the sandbox does; a string's own `replace` and `join` stay within the bound."""
        name = getattr(obj, "__name__", None)
        if name in ("replace", "join"):
            owner = getattr(obj, "__self__", None)
            if isinstance(owner, str):
                check_method(owner, name, args)
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Format as the sandbox does, within the bound."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        owner = value.__self__

        def limited(*args: Any, **kwargs: Any) -> str:
            named = args[0] if value.__name__ == "format_map" and args and isinstance(args[0], Mapping) else kwargs
            check_format(owner, args, named)
            return wrapped(*args, **kwargs)

        return update_wrapper(limited, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look into our own plain dicts without the sandbox's slow path; the answer is the same."""
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        if (type(obj) in _OPEN_KINDS and attribute[:1] != "_") or (
            attribute in _SAFE_TEXT_METHODS and isinstance(obj, str)
        ):
            try:
                return getattr(obj, attribute)
            except AttributeError:
                pass
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look into our own plain dicts and lists without the sandbox's slow path; the answer is the same."""
        kind = type(obj)
        if (kind is dict and type(argument) is str and argument not in _DICT_ATTRIBUTES) or (
            kind is list and type(argument) is int
        ):
            try:
                return obj[argument]
            except (KeyError, IndexError):
                return self.undefined(obj=obj, name=argument)  # type: ignore[arg-type]
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Take away the string methods whose width argument is unbounded (threats.md §2.5)."""
        if isinstance(obj, str) and attr in REMOVED_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)


def raise_exception(_message: str) -> NoReturn:
    """Fail as the template asks, without its words: they may hold the user's text."""
    raise jinja2.exceptions.TemplateError("raised by the template") from None


def plain_tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Dump JSON as transformers' filter does: no HTML escapes, non-ASCII kept, keys in given order."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(
    environment: type[TemplateEnvironment] = TemplateEnvironment,
) -> TemplateEnvironment:
    """Build an environment with transformers' settings."""
    env = environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters.update(FILTERS)
    env.filters["tojson"] = narrow(plain_tojson)
    env.globals["raise_exception"] = raise_exception
    for name in ("lipsum", "cycler", "joiner"):
        env.globals.pop(name, None)
    for name in REMOVED_FILTERS:
        env.filters.pop(name, None)
    return env


def clock(now: str | None) -> Callable[[str], str]:
    """Return `strftime_now` for the request's instant; without one the epoch stands for it (R44).

    >>> clock("2026-11-30T08:00:00Z")("%d %b %Y")
    '30 Nov 2026'
    """
    instant = EPOCH if now is None else datetime.fromisoformat(now)
    return instant.strftime


def variables(
    messages: Any, tools: Any, options: Mapping[str, Any], strings: Mapping[str, str], now: str | None
) -> dict[str, Any]:
    """Collect what a template sees: messages, tools, the bundle's strings, switches and the clock."""
    return {
        **strings,
        "messages": messages,
        "tools": tools,
        "documents": None,
        "add_generation_prompt": True,
        "strftime_now": clock(now),
        **options,
    }


@lru_cache(maxsize=64)
def compile_plain(source: str) -> jinja2.Template:
    """Compile a template for plain rendering. Raises TemplateFailure for whatever compiling raises."""
    return compile_with(make_environment(), source)


def compile_with(environment: TemplateEnvironment, source: str) -> jinja2.Template:
    """Compile in the given environment. Raises TemplateFailure, also for recursion and deep nesting."""
    try:
        return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, ValueError, TypeError) as error:
        raise TemplateFailure(type(error).__name__) from None


def pieces(template: jinja2.Template, values: Mapping[str, Any], budget_characters: int) -> Iterator[str]:
    """Yield the output piece by piece.

    Raises TemplateFailure for whatever the template raises and OutputBudgetExceeded past the budget.
    """
    written = 0
    # Renders of one thread never interleave: whoever asks for pieces takes them all before the next render.
    before = set_bound(budget_characters)
    try:
        for piece in template.root_render_func(template.new_context(dict(values))):
            written += len(piece)
            if written > budget_characters:
                raise OutputBudgetExceeded
            yield piece
    except OutputBudgetExceeded:
        raise
    except (
        jinja2.TemplateError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError,
        LookupError, RecursionError, MemoryError,
    ) as error:  # fmt: skip
        raise TemplateFailure(type(error).__name__) from None
    finally:
        set_bound(before)


def render_plain(source: str, values: Mapping[str, Any], budget_characters: int = 1 << 30) -> str:
    """Render to plain text.

    >>> render_plain("{{ messages[0].content }}!", {"messages": [{"content": "hi"}]})
    'hi!'
    """
    return "".join(pieces(compile_plain(source), values, budget_characters))


def output_budget(input_characters: int) -> int:
    """Return how many characters an honest template may write for so many characters of input."""
    return 8 * input_characters + 65_536


_BUILT_IN = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "strftime_now", "raise_exception",
     "bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token",
     "namespace", "range", "dict", "lipsum", "cycler", "joiner"}
)  # fmt: skip


def option_names(source: str) -> tuple[str, ...]:
    """List the switches a template reads that are not part of every template's input, sorted."""
    tree = make_environment().parse(source)
    return tuple(sorted(jinja2.meta.find_undeclared_variables(tree) - _BUILT_IN))


def literals(source: str) -> tuple[str, ...]:
    """List every string literal and every stretch of plain text of a template, in order, without repeats."""
    tree = make_environment().parse(source)
    found = [node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)]
    found += [node.data for node in tree.find_all(jinja2.nodes.TemplateData)]
    return tuple(dict.fromkeys(text for text in found if text))
