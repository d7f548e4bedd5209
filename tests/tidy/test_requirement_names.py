"""Every requirement and every name of the acceptance lists is a test somewhere below `tests/`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.tidy.sources import ROOT

_REQUIREMENT = re.compile(r"\*\*(R[0-9]+)\*\* `(\w+)`")
_OWNER = re.compile(r"^\| (?:R([0-9]+)(?:-R([0-9]+))?|V1-V12) \|.*\| ([A-G]) \|", re.MULTILINE)
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


@cache
def written() -> frozenset[str]:
    """Return the name of every test of this checkout."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(name for path in files for name in _TEST.findall(path.read_text(encoding="utf-8")))


def owners(coverage: str) -> dict[int, str]:
    """Return the issue of each requirement, by its number."""
    found = {}
    for first, last, issue in _OWNER.findall(coverage):
        if first:
            found |= dict.fromkeys(range(int(first), int(last or first) + 1), issue)
    return found


def test_every_requirement_is_a_named_test(shared_dir: Path) -> None:
    """R1..R220, each by number and name; what is missing is listed with the issue it belongs to."""
    named = _REQUIREMENT.findall((shared_dir / "requirements.md").read_text(encoding="utf-8"))
    by_number = owners((shared_dir / "coverage.md").read_text(encoding="utf-8"))
    assert list(range(1, 221)) == sorted(by_number) == sorted(int(number[1:]) for number, _ in named)
    wanted = {f"test_{number}_{name}": by_number[int(number[1:])] for number, name in named}
    missing = {name: issue for name, issue in wanted.items() if name not in written()}
    assert {} == missing


def test_every_name_of_the_acceptance_lists_is_a_test(shared_dir: Path) -> None:
    """A§9, A§10, B gate and script (V1..V12), C and card, by the list they stand in."""
    text = (shared_dir / "requirements.md").read_text(encoding="utf-8")
    lists = text.split("## Acceptance by source", 1)[1].split("\n## ", 1)[0]
    wanted = {
        name: head for head, *body in (part.split("\n") for part in lists.split("### ")[1:])
        for name in re.findall(r"\btest_\w+", "\n".join(body))
    }  # fmt: skip
    assert len(wanted) > 100
    for row in range(1, 13):
        assert any(name.startswith("test_validator_") and name.endswith(f"_v{row}") for name in wanted), row
    assert {} == {name: head for name, head in wanted.items() if name not in written()}
