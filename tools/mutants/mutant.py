"""What a mutant is: one small change of the code that named tests must see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NAMED = re.compile(r"^def (test_(R\d+|validator)_\w+)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` occurs once in `file`, below planner/; with `new` in its place every test of `kills` must fail.

    kills  requirements, such as `R159`: every test that is named after it. `R25_priority` takes those whose name
           goes on so (the one of just this name, where there is one), `R66@plan_summaries` those of files with
           these words in their path. `validator_limits_v4` stands for a row of the validator, which has no number.
    """

    file: str
    old: str
    new: str
    kills: str

    def text(self, root: Path = ROOT) -> str:
        """Return the mutated file. Raises ValueError where `old` does not occur exactly once."""
        text = (root / "planner" / self.file).read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times")
        return text.replace(self.old, self.new)

    def tests(self, named: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
        """Yield file and name of every test that must fail. Raises ValueError where a requirement has none."""
        for wanted in self.kills.split():
            name, _, part = wanted.partition("@")
            number, _, rest = name.partition("_")
            whole = f"test_{number}_{rest}"
            found = [one for one in named.get(number, ()) if part in one[0] and one[1].startswith(whole)]
            if not found:
                raise ValueError(f"{wanted} names no test")
            yield from [one for one in found if one[1] == whole] or found


def named_tests(root: Path = ROOT) -> dict[str, list[tuple[str, str]]]:
    """Return requirement -> file and name of every test that is named after it."""
    out: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for match in _NAMED.finditer(path.read_text(encoding="utf-8")):
            out.setdefault(match[2], []).append((path.relative_to(root).as_posix(), match[1]))
    return out
