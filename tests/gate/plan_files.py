"""A sound plan file, the published script as it stands in its source, and mutations of plan files."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import random
import re
import sys
from pathlib import Path
from typing import Any

SOUND: dict[str, Any] = {
    "maxInputTokens": 200,
    "reservedOutputTokens": 50,
    "generation": 3,
    "requiredPolicyIds": ["p1"],
    "requiredConstraintIds": ["C1"],
    "items": [
        {"id": "p1", "layer": "immutable_policy", "tokens": 20, "constraintIds": []},
        {"id": "t1", "layer": "history", "sequence": 10, "tokens": 40, "constraintIds": ["C1"]},
        {"id": "t2", "layer": "history", "sequence": 20, "tokens": 30, "constraintIds": []},
        {"id": "r1", "layer": "required_request", "sequence": 30, "tokens": 10, "constraintIds": []},
    ],
    "removedIds": ["t0"],
}


def changed(**fields: Any) -> dict[str, Any]:
    """Return the sound file with fields changed; `None` stands for null, `...` leaves the field out."""
    file = copy.deepcopy(SOUND)
    for name, value in fields.items():
        if value is ...:
            file.pop(name)
        else:
            file[name] = value
    return file


def with_item(place: int, **fields: Any) -> dict[str, Any]:
    """Return the sound file with fields of one item changed."""
    file = copy.deepcopy(SOUND)
    for name, value in fields.items():
        if value is ...:
            file["items"][place].pop(name, None)
        else:
            file["items"][place][name] = value
    return file


def published_script(shared: Path) -> str:
    """Cut the script out of the source document (source 002)."""
    text = next((shared / "sources").glob("002_*.txt")).read_text(encoding="utf-8")
    found = re.search(
        r"^import json\n.*?^    validate\(load_plan\(sys\.argv\[1\]\)\)\n", text, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found.group(0)


class Script:
    """The published script in this process; it sees a file and its own streams, as in a shell."""

    def __init__(self, shared: Path) -> None:
        """Compile it once."""
        self._code = compile(published_script(shared), "validate_context_plan.py", "exec")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr; a traceback is exit code 1, as Python has it."""
        out, err = io.StringIO(), io.StringIO()
        before = sys.argv
        sys.argv = ["validate_context_plan.py", *arguments]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                exec(self._code, {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = int(str(end.code))
        except Exception:  # what leaves the script as a traceback is exit code 1 to a shell; which one is not compared
            code = 1
        finally:
            sys.argv = before
        return code, out.getvalue(), err.getvalue()


_STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 50, 200, 10**6, 10**400, 0.5, 20.0, math.nan, math.inf, "", "p1", "C1", "t1", "40",
    [], ["p1"], ["C1", "C1"], [[]], [None], {}, {"id": "t1"}, [{"id": "t9", "layer": "immutable_policy"}],
    "immutable_policy", "required_request",
)  # fmt: skip


def mutate(chance: random.Random) -> Any:
    """Return the sound file with one to three things about it changed, dropped, swapped or doubled."""
    file: Any = copy.deepcopy(SOUND)
    for _ in range(chance.randint(1, 3)):
        if not isinstance(file, dict):
            break
        items = file.get("items")
        owner: Any = file
        if isinstance(items, list) and items and chance.random() < 0.6:
            chosen = chance.choice(items)
            owner = chosen if isinstance(chosen, dict) else file
        names = [*owner, "sequence", "generation", "removed", "layer", "id"]
        name = chance.choice(names)
        roll = chance.random()
        if roll < 0.2:
            owner.pop(name, None)
        elif roll < 0.8:
            owner[name] = copy.deepcopy(chance.choice(_STRANGE))
        elif isinstance(items, list) and len(items) > 1:
            one, two = chance.sample(range(len(items)), 2)
            items[one], items[two] = items[two], copy.deepcopy(items[one]) if roll > 0.95 else items[one]
        else:
            file = copy.deepcopy(chance.choice(_STRANGE))
    return file


def dumped(value: Any) -> bytes:
    """Return the bytes of a file; NaN and the infinities as Python writes them."""
    return json.dumps(value).encode()
