"""Rewrite a chat template so that one thing it relies on no longer matters, its output unchanged.

`trim_blocks` and `lstrip_blocks` are settings of Jinja2, not of a template; an engine without them prints newlines
and indents that the publisher never saw. Where they matter, the tag before is marked with a minus, and what is to be
printed after it becomes a literal.
"""

from __future__ import annotations

from dataclasses import dataclass

import jinja2

from planner.encoding.template import TemplateFailure, make_environment


@dataclass(frozen=True, slots=True)
class _Tag:
    """A statement, expression or comment as it stands in the source, without the white space its marks swallow."""

    opener: str
    body: str
    closer: str

    def marked(self, right: bool) -> str:
        """Return the tag, with a minus at its end where it needs one."""
        closer = "-" + self.closer.lstrip("-+") if right else self.closer
        return f"{self.opener}{self.body}{closer}"


def without_block_trimming(source: str) -> str:
    """Return a template that renders the same with trim_blocks and lstrip_blocks on or off, and as `source` with both.

    Raises TemplateFailure where it does not parse, and of kind `raw` for a template with raw blocks.

    >>> print(without_block_trimming("{% if a %}\\n  x{% endif %}"))
    {% if a -%}
    {{- '  x' -}}
    {% endif %}
    """
    trimmed = _cut(source, trimming=True)
    tags, whole = _cut(source, trimming=False)
    texts = trimmed[1]
    differs = [one != other for one, other in zip(texts, whole, strict=True)]
    parts: list[str] = []
    for index, text in enumerate(texts):
        between = [_literal(text)] if text else []
        if differs[index]:
            # The marks swallow these newlines, which only keep the lines short.
            parts.append("\n".join([*([""] if index else []), *between, *([""] if index < len(tags) else [])]))
        else:
            # A brace beside the tag that follows would make another tag of both.
            parts += between if text.endswith("{") else [text]
        if index < len(tags):
            parts.append(tags[index].marked(right=differs[index + 1]))
    if texts[-1].endswith("\n") and not differs[-1]:
        # Jinja2 takes the last newline of a file away, and has done so once already.
        parts.append("\n")
    return "".join(parts)


def _cut(source: str, *, trimming: bool) -> tuple[list[_Tag], list[str]]:
    """Return the tags and the texts before, between and after them."""
    environment = make_environment()
    environment.trim_blocks = environment.lstrip_blocks = trimming
    tags: list[_Tag] = []
    texts = [""]
    opener, body = "", ""
    try:
        environment.parse(source)
        for _, kind, value in environment.lex(source):
            if kind.startswith("raw"):
                raise TemplateFailure("raw")
            if kind == "data":
                texts[-1] += value
            elif kind.endswith("_begin"):
                opener, body = value, ""
            elif kind.endswith("_end"):
                tags.append(_Tag(opener, body, value.strip()))
                texts.append("")
            else:
                body += value
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, ValueError, TypeError) as error:
        raise TemplateFailure(type(error).__name__) from None
    return tags, texts


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "{{- '" + escaped + "' -}}"
