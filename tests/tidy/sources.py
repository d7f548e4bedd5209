"""What the tidy tests read: our own files as paths and syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "planner"
_NOT_OURS = frozenset({
    ".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__",
    "build", "dist",
})  # fmt: skip


def our_files() -> Iterator[Path]:
    """Yield every file of the checkout that is not made by a tool."""
    level = [ROOT]
    while level:
        for path in sorted(level.pop().iterdir()):
            if path.name in _NOT_OURS or path.name.endswith(".egg-info"):
                continue
            if path.is_dir():
                level.append(path)
            else:
                yield path


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def modules() -> list[Path]:
    """List the Python files of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield (dotted name, line, at module level) of every import, those inside functions too.

    An import under `if TYPE_CHECKING` binds types only; for direction it counts like any other.
    """
    top = set(_top_level(tree(path).body))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in top
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno, node in top
            # `from planner.x import y` may name a module as well as a value.
            for alias in node.names:
                if (ROOT / (f"{node.module}.{alias.name}".replace(".", "/") + ".py")).is_file():
                    yield f"{node.module}.{alias.name}", node.lineno, node in top


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from _top_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _top_level([*node.body, *node.orelse, *node.finalbody])
