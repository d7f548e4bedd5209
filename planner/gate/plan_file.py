"""Reading one plan file and judging its structure: every way it can end is one line and an exit code (R198..R203)."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.gate.structure import extra_message, script_message

USAGE = "usage: validate_context_plan.py plan.json"
MISSING = "plan file is missing"
UNPARSABLE = "cannot parse plan: "

CLAIM = "structure and budget only: no summary was read for completeness, no model was asked to obey (R178, R196)"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`message` is what a rejected file is told, None where it is accepted; `plan` the parsed file then."""

    message: str | None
    items: int = 0
    plan: dict[str, Any] | None = None

    @property
    def line(self) -> str:
        """The one line: on stdout where accepted, on stderr otherwise."""
        if self.message is None:
            return f"context plan accepted: {self.items} items"
        return f"context plan rejected: {self.message}"


def judge_arguments(arguments: tuple[str, ...], *, compat: bool = False) -> Verdict:
    """Judge the one file that the command line names (V1, V2). Raises nothing."""
    if len(arguments) != 1:
        return Verdict(USAGE)
    return judge_path(Path(arguments[0]), compat=compat)


def judge_path(path: Path, *, compat: bool = False) -> Verdict:
    """Read and judge a file; the directory, the pipe and the absent file are all `plan file is missing` (V2, V3)."""
    try:
        if not path.is_file():
            return Verdict(MISSING)
        data = path.read_bytes()
    except OSError as error:
        return Verdict(f"{UNPARSABLE}{error}")
    return judge_bytes(data, compat=compat)


def judge_bytes(data: bytes, *, compat: bool = False) -> Verdict:
    """Judge the bytes of a plan file.

    compat  the published script alone; without it the stricter checks follow where the script accepts (X67).
    """
    try:
        # As the script reads it: line ends as Python's text files see them, a byte order mark left to the parser.
        text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
        plan = json.loads(text)
        message = script_message(plan)
        if message is None and not compat:
            message = _loose_json(text) or extra_message(plan)
    except json.JSONDecodeError as error:
        return Verdict(f"{UNPARSABLE}{error}")
    except UnicodeDecodeError:
        return Verdict(f"{UNPARSABLE}not UTF-8")
    except RecursionError:
        return Verdict(f"{UNPARSABLE}nested too deep")
    except ValueError:
        return Verdict(f"{UNPARSABLE}a number has too many digits")
    return Verdict(message) if message is not None else Verdict(None, len(plan["items"]), plan)


def _loose_json(text: str) -> str | None:
    """Name what Python's parser takes and JSON does not: a repeated key, NaN and the infinities (X21)."""
    flaws: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) != len(found):
            flaws.append("a key is repeated")
        return dict(found)

    json.loads(text, object_pairs_hook=pairs, parse_constant=lambda _: flaws.append("NaN and Infinity are no numbers"))
    return f"{UNPARSABLE}{flaws[0]}" if flaws else None
