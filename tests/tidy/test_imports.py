"""Who may import whom, where each third-party library lives, and what never stands on the path of a plan."""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, ROOT, imported, modules, tree

RANKS = {
    "values": 0,
    "encoding": 1,
    "steps": 2,
    "compaction": 2,
    "pipeline": 3,
    "conversation": 3,
    "wire": 4,
    "bundles": 4,
    "runtimes": 4,
    "ledger": 4,
    "prepare": 5,
    "certify": 5,
    "whatif": 5,
    "activation": 5,
    "lint": 5,
    "compactor": 5,
    "adapters": 6,
    "gate": 6,
    "planner": 7,
    "__init__": 7,
    "cli": 8,
    "pytest_plugin": 8,
}
"""Every part of the package by rank; a part imports lower ranks and itself (style.md §3)."""

ALSO_ALLOWED = {("conversation", "pipeline"), ("__init__", "planner")}
"""A growing conversation runs the pipeline, the package's front door opens a planner; never the reverse."""

HOMES = {
    "jinja2": ("encoding/template*.py", "encoding/tracked*.py"),
    "markupsafe": ("encoding/template*.py", "encoding/tracked*.py"),
    "tokenizers": ("bundles/*.py",),
    "sentencepiece": ("bundles/*.py",),
    "tiktoken": ("bundles/*.py",),
    "kitoken": ("bundles/fast_engine.py",),
    "mistral_common": ("bundles/*.py",),
    "huggingface_hub": ("bundles/hub.py",),
    "pydantic": ("wire/*.py",),
    "pydantic_core": ("wire/*.py",),
    "apsw": ("ledger/*.py",),
    "numpy": ("values/plan.py",),
    "click": ("cli/*.py",),
    "rich": ("cli/draw*.py",),
    "pytest": ("pytest_plugin.py",),
    "cryptography": ("gate/signature.py",),
    "distributed": ("gate/engine_dask.py",),
    "platformdirs": ("cli/files.py",),
}
STANDARD_HOMES = {
    "subprocess": ("bundles/probe*.py", "bundles/measure*.py", "runtimes/*.py"),
    "resource": ("bundles/probe*.py", "bundles/measure*.py"),
    "time": ("cli/*.py", "bundles/probe*.py"),
}
_POSIX_MODULES = frozenset({"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"})
_POSIX_CALLS = frozenset({
    "os.fork", "os.setsid", "os.getuid", "os.geteuid", "os.getpgid", "os.killpg", "os.mkfifo", "os.nice",
    "os.fchmod", "os.chown", "os.uname", "os.getloadavg", "os.sched_getaffinity", "signal.SIGKILL",
    "signal.SIGALRM", "signal.alarm", "signal.setitimer", "os.O_NOFOLLOW", "os.O_DIRECTORY", "os.pread",
})  # fmt: skip


def part_of(path: Path) -> str:
    """Name the part of the house a file belongs to."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def test_every_part_has_a_rank() -> None:
    """A new folder or module needs a place in the house before it is built."""
    assert {part_of(path) for path in modules()} <= RANKS.keys()


def test_imports_only_point_down() -> None:
    """values < encoding < steps < pipeline < edges < prepare < adapters < planner < cli; edges never meet."""
    wrong = []
    for path in modules():
        here = part_of(path)
        for name, line, _ in imported(path):
            if not name.startswith("planner."):
                continue
            there = name.split(".")[1]
            lower = RANKS.get(there, 99) < RANKS[here]
            if here != there and not lower and (here, there) not in ALSO_ALLOWED:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


def test_each_library_has_one_home() -> None:
    """A third-party library is imported in its home alone, and every one that is imported has a home."""
    wrong = []
    for path in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        for name, line, _ in imported(path):
            library = name.partition(".")[0]
            if library in ("planner", "__future__"):
                continue
            if library in sys.stdlib_module_names and library not in STANDARD_HOMES:
                continue
            homes = HOMES.get(library, STANDARD_HOMES.get(library, ()))
            if not any(fnmatch.fnmatch(inside, home) for home in homes):
                wrong.append(f"{inside}:{line} imports {library}")
    assert wrong == []


def test_output_exit_and_clock_live_in_the_command() -> None:
    """print, stdout, sys.exit and the clock appear in cli alone; a probe that runs apart talks by a pipe."""
    wrong = []
    for path in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        if inside.startswith("cli/"):
            continue
        for node in ast.walk(tree(path)):
            named = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            if named in ("print", "sys.stdout", "sys.stderr", "sys.exit", "datetime.now", "time.time"):
                if inside.startswith("bundles/probe") and named in ("sys.stdout", "sys.exit"):
                    continue
                wrong.append(f"{inside}:{getattr(node, 'lineno', 0)} {named}")
    assert wrong == []


def test_nothing_of_posix_alone_on_the_path_of_a_plan() -> None:
    """Import, count and plan work on Windows too: POSIX modules and calls only inside guarded functions."""
    wrong = []
    for path in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        wrong += [
            f"{inside}:{line} imports {name}" for name, line, top in imported(path) if top and name in _POSIX_MODULES
        ]
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in _POSIX_CALLS:
                wrong.append(f"{inside}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import planner", "transformers numpy pydantic jinja2 click rich tokenizers platformdirs"),
        (
            "from planner import Planner, PlanRequest, Conversation",
            "transformers numpy pydantic rich tokenizers",
        ),
        (
            "import planner; planner.plan(messages=[{'role': 'user', 'content': 'x'}], bundle='reference')",
            "transformers numpy pydantic rich click mistral_common tiktoken",
        ),
    ],
)  # fmt: skip
def test_a_fresh_interpreter_imports_no_more_than_it_needs(code: str, absent: str) -> None:
    """Start-up stays cheap because a library is imported where it is first used."""
    program = f"{code}\nimport sys\nprint([name for name in {absent.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, cwd=ROOT, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
