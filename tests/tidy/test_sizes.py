"""Bounds of size: a file 300 lines, a function 60, parameters 6; what is larger today may only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import PACKAGE, ROOT, modules, tree

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6

FILES: dict[str, int] = {}
FUNCTIONS: dict[str, int] = {}
PARAMETERS = {"steps/answer.py:refused": 7}
"""Ratchets, `file` or `file:function` to its size: lower an entry when the code shrinks, never raise one."""


def _functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(PACKAGE).as_posix()}:{node.name}", node


def _compare(found: dict[str, int], ratchet: dict[str, int], bound: int) -> list[str]:
    grown = [
        f"{name} is {size}, may be {max(bound, ratchet.get(name, 0))}"
        for name, size in found.items()
        if size > max(bound, ratchet.get(name, 0))
    ]
    stale = [
        f"{name} is {found.get(name, 0)}: its ratchet of {size} is no longer needed"
        for name, size in ratchet.items()
        if found.get(name, 0) <= bound
    ]
    return grown + stale


def test_files_stay_below_300_lines() -> None:
    """A file that outgrows its bound holds two subjects."""
    found = {p.relative_to(PACKAGE).as_posix(): len(p.read_text("utf-8").splitlines()) for p in modules()}
    assert _compare(found, FILES, MAX_FILE_LINES) == []


def test_functions_stay_below_60_lines() -> None:
    """Docstring and signature count, as a reader scrolls over them too."""
    found: dict[str, int] = {}
    for path in modules():
        for name, node in _functions(path):
            found[name] = max(found.get(name, 0), (node.end_lineno or 0) - node.lineno + 1)
    assert _compare(found, FUNCTIONS, MAX_FUNCTION_LINES) == []


def test_functions_take_at_most_6_parameters() -> None:
    """Positional and keyword parameters together, without self."""
    found: dict[str, int] = {}
    for path in modules():
        for name, node in _functions(path):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(one.arg not in ("self", "cls") for one in given)
            found[name] = max(found.get(name, 0), count)
    assert _compare(found, PARAMETERS, MAX_PARAMETERS) == []


def test_no_leftover_marks() -> None:
    """Work that is open stands in an issue, not in the code."""
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if any(mark in line for mark in marks)
    ]
    assert wrong == []
