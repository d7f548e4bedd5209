"""The examples of README.md: files it shows, commands it runs, Python it types, and their true output.

    python -m tests.docs.readme_blocks            writes the output of every example into README.md

A fence `json NAME` is a file, a fence `console` holds `$ planner ...` lines, each with its output below it
and its exit code as `[exit 2]` where that is not 0; a fence `python` holds doctest lines.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_FENCE = re.compile(r"^```(json [\w.]+|console|python)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced example and where its text lies in the page."""

    kind: str
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """Return the examples in order."""
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in _FENCE.finditer(page)]


def commands(text: str) -> Iterator[str]:
    """Yield the command lines of a console block."""
    for line in text.splitlines():
        if line.startswith("$ "):
            yield line[2:]


def run_command(line: str, folder: Path) -> str:
    """Run one command line of ours in a folder and return what a person would see."""
    words = shlex.split(line)
    assert words[0] == "planner", line
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from planner.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), *words[1:]], cwd=folder, capture_output=True, check=False
    )
    out = done.stdout.decode()
    if target:
        (folder / target).write_bytes(done.stdout)
        out = ""
    assert done.returncode in (0, 2), done.stderr.decode()
    shown = out + done.stderr.decode() + (f"[exit {done.returncode}]\n" if done.returncode else "")
    return "".join(f"{one.rstrip()}\n" for one in shown.splitlines())


def with_output(text: str, folder: Path) -> str:
    """Return a console block with the true output below each command."""
    return "".join(f"$ {line}\n{run_command(line, folder)}" for line in commands(text))


def save_files(found: list[Block], folder: Path) -> None:
    """Write the files that the page shows."""
    for block in found:
        if block.kind.startswith("json "):
            (folder / block.kind.partition(" ")[2]).write_text(block.text, encoding="utf-8")


def updated(page: str) -> str:
    """Return the page with true outputs in its console blocks."""
    found = blocks(page)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_files(found, folder)
        outputs = {one.start: with_output(one.text, folder) for one in found if one.kind == "console"}
    for one in reversed(found):
        if one.kind == "console":
            page = page[: one.start] + outputs[one.start] + page[one.end :]
    return page


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
