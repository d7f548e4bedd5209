"""See every named test fail: break the code in one place after the other, run the tests that must notice.

    python tools/mutants/run.py                  every mutant
    python tools/mutants/run.py R159 R62         those that must be seen by a test of these requirements
    python tools/mutants/run.py steps/admit.py   those of one file
    python tools/mutants/run.py --unseen         no run: name the tests that no mutant must make fail

The tree is copied to a temporary folder and changed there. Exit status 1 where a mutant lives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.mutants.mutant import Mutant, named_tests
from tools.mutants.table import MUTANTS

_SEEN = re.compile(r"^FAILED ([^:\s]+)::(\w+)", re.MULTILINE)
_SECONDS = 600


def survivors(mutant: Mutant, tree: Path, tests: Sequence[tuple[str, str]]) -> list[str]:
    """Return the tests that did not fail with this mutant in the tree, or the one word `broken`."""
    target = tree / "planner" / mutant.file
    whole = target.read_text(encoding="utf-8")
    target.write_text(mutant.text(ROOT), encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and names of our tests
            [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", "-p", "no:cacheprovider", "-x" if len(tests) == 1
             else "-q", *dict.fromkeys(f"{path}::{name}" for path, name in tests)],
            cwd=tree, env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return []  # it hangs, which is seen
    finally:
        target.write_text(whole, encoding="utf-8")
    if done.returncode not in (0, 1):
        return ["broken"]
    failed = {(match[1], match[2]) for match in _SEEN.finditer(done.stdout)}
    return [f"{path}::{name}" for path, name in tests if (path, name) not in failed]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(wanted: Sequence[str]) -> int:
    """Run the mutants asked for; print one line each."""
    named = named_tests()
    if list(wanted) == ["--unseen"]:
        seen = {test for one in MUTANTS for test in one.tests(named)}
        left = [test for tests in named.values() for test in tests if test not in seen]
        for path, name in left:
            _say(f"{path}::{name}")
        return 1 if left else 0
    chosen = [
        one
        for one in MUTANTS
        if not wanted or one.file in wanted or any(re.split("[@_]", name)[0] in wanted for name in one.kills.split())
    ]
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(ROOT, tree, ignore=ignored)
        (tree.parent / "shared").symlink_to(ROOT.parent / "shared")
        for at, mutant in enumerate(chosen, 1):
            tests = list(mutant.tests(named))
            left = survivors(mutant, tree, tests)
            alive += bool(left)
            verdict = "lives" if left else "killed"
            _say(f"{at}/{len(chosen)} {verdict}  {mutant.kills}  {mutant.file}")
            for name in left:
                _say(f"    not failed: {name}")
    _say(f"{len(chosen)} mutants, {alive} alive")
    return 1 if alive or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
