"""Fields whose rule is not built yet: refused by name, never ignored (`not_supported_yet`).

One row a field. A row fires where its field differs from the default, or where its own test says so; every
other field of the request is built (tests/wire/test_supported_fields.py holds that list).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, NoReturn

from planner.values.account import wire_field
from planner.values.reasons import RefusalSignal
from planner.values.request import Options, PlanRequest


@dataclass(frozen=True, slots=True)
class Row:
    """A field and what this version says to it; `fires` None means: where it differs from the default."""

    owner: type
    name: str
    sentence: str
    fires: Callable[[Any], bool] | None = None


_FRESH = "fresh tokens are not limited yet"

ROWS: tuple[Row, ...] = (
    Row(PlanRequest, "reserved_output", "a reserve split between answer and reasoning is not planned yet"),
    Row(PlanRequest, "device_window", "the window of a device is not considered yet"),
    Row(Options, "max_fresh_tokens", _FRESH),
    Row(Options, "on_fresh_exceeded", _FRESH),
    Row(
        Options,
        "sections",
        "summaries have a maximum and no minimum",
        lambda sections: sections.summary.min is not None,
    ),
    Row(Options, "tool_carrier", "tools travel in the template only"),
)
_Compiled = tuple[tuple[str, Any, Row], ...]


def _compile(owner: type) -> _Compiled:
    defaults = {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(owner)
    }
    return tuple((row.name, defaults[row.name], row) for row in ROWS if row.owner is owner)


_REQUEST, _OPTIONS = map(_compile, (PlanRequest, Options))


def check_supported(request: PlanRequest) -> None:
    """Refuse what this version has no rule for; the request must have passed `check_frame`.

    No field of a turn, a summary or a passage is refused by name any more. Raises RefusalSignal `not_supported_yet`
    with the JSON path.
    """
    _look(request, _REQUEST, "$")
    _look(request.options, _OPTIONS, "$.options")


def _look(value: Any, compiled: _Compiled, path: str) -> None:
    for name, default, row in compiled:
        found = getattr(value, name)
        if found is not default and (found != default if row.fires is None else row.fires(found)):
            _refuse(f"{path}.{wire_field(name)}", row.sentence)


def _refuse(path: str, sentence: str) -> NoReturn:
    raise RefusalSignal("not_supported_yet", f"{path}: {sentence}")
