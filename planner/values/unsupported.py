"""Fields whose rule is not built yet: refused by name, never ignored (`not_supported_yet`).

One row a field. A row fires where its field differs from the default, or where its own test says so; every
other field of the request is built (tests/wire/test_supported_fields.py holds that list).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, NoReturn

from planner.values.account import wire_field
from planner.values.passage import Passage
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous
from planner.values.turn import Message, ToolResult, Turn


@dataclass(frozen=True, slots=True)
class Row:
    """A field and what this version says to it; `fires` None means: where it differs from the default."""

    owner: type
    name: str
    sentence: str
    fires: Callable[[Any], bool] | None = None


_SUMMARY = "summaries are not planned with yet"
_RIGHTS = "rights and sources of texts are not checked yet"
_DATES = "dates of texts are not checked yet"
_FACTS = "facts of passages are not compared yet"
_SHORT = "shorter forms are not chosen yet"
_EVIDENCE = "evidence is not required yet"
_RELATIONS = "relations between turns are not followed yet"
_COMPACTION = "compaction is not advised yet"
_FRESH = "fresh tokens are not limited yet"

ROWS: tuple[Row, ...] = (
    Row(PlanRequest, "reserved_output", "a reserve split between answer and reasoning is not planned yet"),
    Row(PlanRequest, "device_window", "the window of a device is not considered yet"),
    Row(PlanRequest, "summaries", _SUMMARY),
    Row(PlanRequest, "citations", _RIGHTS),
    Row(PlanRequest, "claims", _RIGHTS),
    Row(CurrentRequest, "requires_citation", _EVIDENCE),
    Row(CurrentRequest, "evidence_groups", _EVIDENCE),
    Row(CurrentRequest, "high_impact", _FACTS),
    Row(CurrentRequest, "risk", _COMPACTION),
    Row(CurrentRequest, "on_invalid_summary", _SUMMARY),
    Row(Previous, "summary_ids", _SUMMARY),
    Row(Previous, "advice_fired", _COMPACTION),
    Row(Options, "mode", "mode messages is not built yet", lambda mode: mode == "messages"),
    Row(Options, "compact_at", _COMPACTION),
    Row(Options, "max_fresh_tokens", _FRESH),
    Row(Options, "on_fresh_exceeded", _FRESH),
    Row(Options, "tail_turns", "a tail is not pinned yet"),
    Row(Options, "allow_history_eviction", "history cannot be held against the budget yet"),
    Row(Options, "give_way_order", "another order of giving way is not built yet"),
    Row(Options, "sections", "bounds of sections are not kept yet"),
    Row(Options, "history_notice", "a notice in the prompt is not written yet"),
    Row(Options, "unicode_policy", "hidden characters are kept; no other policy is built yet"),
    Row(Options, "tool_carrier", "tools travel in the template only"),
    Row(Options, "stubs", _SHORT),
    Row(Turn, "must_preserve", "constraints are not carried yet"),
    Row(Turn, "supersedes", _RELATIONS),
    Row(Turn, "open_items", _RELATIONS),
    Row(Turn, "material", _COMPACTION),
    Row(Message, "citation_ids", _RIGHTS),
    Row(ToolResult, "short_forms", _SHORT),
    Row(Passage, "tenant", _RIGHTS),
    Row(Passage, "dataset", _RIGHTS),
    Row(Passage, "source", _RIGHTS),
    Row(Passage, "valid_from", _DATES),
    Row(Passage, "valid_to", _DATES),
    Row(Passage, "fact_key", _FACTS),
    Row(Passage, "fact_value", _FACTS),
    Row(Passage, "short_forms", _SHORT),
)
CONSTRAINT_SENTENCE = "constraints are carried by protected turns only; protect a message of this turn"
"""`Message.constraint_ids` depends on its turn: it must not leave, and so far only a pin keeps it."""

_Compiled = tuple[tuple[str, Any, Row], ...]


def _compile(owner: type) -> _Compiled:
    defaults = {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(owner)
    }
    return tuple((row.name, defaults[row.name], row) for row in ROWS if row.owner is owner)


_REQUEST, _CURRENT, _PREVIOUS, _OPTIONS = map(_compile, (PlanRequest, CurrentRequest, Previous, Options))
_TURN, _MESSAGE, _RESULT, _PASSAGE = map(_compile, (Turn, Message, ToolResult, Passage))


def check_supported(request: PlanRequest) -> None:
    """Refuse what this version has no rule for; the request must have passed `check_request`.

    Raises RefusalSignal `not_supported_yet` with the JSON path.
    """
    check_supported_frame(request)
    for index, turn in enumerate(request.turns):
        check_supported_turn(turn, f"$.turns[{index}]")


def check_supported_frame(request: PlanRequest) -> None:
    """The same for everything but the turns."""
    _look(request, _REQUEST, "$")
    _look(request.request, _CURRENT, "$.request")
    _look(request.options, _OPTIONS, "$.options")
    if request.previous is not None:
        _look(request.previous, _PREVIOUS, "$.previous")
    for index, passage in enumerate(request.passages):
        _look(passage, _PASSAGE, f"$.passages[{index}]")


def check_supported_turn(turn: Turn, path: str) -> None:
    """The same for one turn."""
    _look(turn, _TURN, path)
    for index, message in enumerate(turn.messages):
        if message.citation_ids:
            _look(message, _MESSAGE, f"{path}.messages[{index}]")
        if message.tool_result is not None:
            _look(message.tool_result, _RESULT, f"{path}.messages[{index}].toolResult")
        if message.constraint_ids and turn.state == "completed" and not turn.pinned:
            _refuse(f"{path}.messages[{index}].constraintIds", CONSTRAINT_SENTENCE)


def _look(value: Any, compiled: _Compiled, path: str) -> None:
    for name, default, row in compiled:
        found = getattr(value, name)
        if found is not default and (found != default if row.fires is None else row.fires(found)):
            _refuse(f"{path}.{wire_field(name)}", row.sentence)


def _refuse(path: str, sentence: str) -> NoReturn:
    raise RefusalSignal("not_supported_yet", f"{path}: {sentence}")
