"""The names of the wire format: which classes it is made of, how they are spelled, which JSON is free.

Everything is read off the frozen values, so that a new field is on the wire without a second list.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any

from planner.values.account import Account, wire_field
from planner.values.device import DeviceProfile
from planner.values.observation import Observation
from planner.values.passage import Citation, Claims, Passage, Source
from planner.values.plan import Advice, CompactionAdvice, Plan, PlanFile, PlanFileItem, Refusal
from planner.values.policy_file import Caps, Finding, FixedCost, PolicyFile
from planner.values.receipt import (
    ConcessionUse,
    Dispute,
    FormUse,
    HistoryReduced,
    PartUse,
    Prefix,
    Receipt,
    Removal,
    SummaryUse,
)
from planner.values.request import (
    CurrentRequest,
    Options,
    OutputSchema,
    PlanRequest,
    Previous,
    ReservedOutput,
    SectionBounds,
    Sections,
    TextItem,
    Tool,
    UnicodeChannels,
)
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Message, MustPreserve, OpenItem, Part, ToolCall, ToolResult, Turn

SCHEMA_VERSION = "1.0"
"""major.minor of everything we write; another major is refused when read."""

REQUEST_CLASSES: tuple[type, ...] = (
    PlanRequest, CurrentRequest, Options, OutputSchema, Previous, ReservedOutput, SectionBounds, Sections,
    TextItem, Tool, Turn, Message, Part, ToolCall, ToolResult, MustPreserve, OpenItem, Passage, Source,
    Citation, Claims, UnicodeChannels, SummaryRecord, SummaryState, StateEntry, ConfirmedFact,
)  # fmt: skip
ANSWER_CLASSES: tuple[type, ...] = (
    Plan, Refusal, Receipt, Account, Advice, CompactionAdvice, Removal, HistoryReduced, Prefix, ConcessionUse,
    SummaryUse, Dispute, FormUse, PartUse, PlanFile, PlanFileItem, Observation,
)  # fmt: skip
POLICY_CLASSES: tuple[type, ...] = (PolicyFile, Caps, FixedCost, Finding)
FILE_CLASSES: tuple[type, ...] = (DeviceProfile,)
"""Small files a command reads beside a request."""
CHAT_NAMES = frozenset({
    "role", "content", "type", "text", "name", "tool_calls", "tool_call_id", "function", "arguments",
    "description", "parameters", "reasoning_content", "reasoning", "thinking", "messages", "tools",
    "max_tokens", "max_completion_tokens",
})  # fmt: skip
FREE_JSON = frozenset({"declaration", "schema", "arguments", "template_options", "messages"})
"""Fields that may hold an application's JSON: key order is kept, because templates print it."""


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a class on the wire."""

    name: str
    alias: str
    default: Any
    is_float: bool
    is_free: bool


@cache
def wire_fields(owner: Any) -> tuple[WireField, ...]:
    """Return a class's fields on the wire in the order of their aliases; `default` is MISSING where there is none."""
    found = [
        WireField(
            name=one.name,
            alias=wire_field(one.name),
            default=one.default_factory() if one.default_factory is not MISSING else one.default,
            is_float=str(one.type).startswith("float"),
            # Only fields typed with Any are an application's own; `messages` of a turn are ours.
            is_free=one.name in FREE_JSON and "Any" in str(one.type),
        )
        for one in fields(owner)
        if one.metadata.get("wire", True)
    ]
    return tuple(sorted(found, key=lambda one: one.alias))


KNOWN_NAMES: frozenset[str] = CHAT_NAMES | {
    one.alias
    for owner in (*REQUEST_CLASSES, *ANSWER_CLASSES, *POLICY_CLASSES, *FILE_CLASSES)
    for one in wire_fields(owner)
}
"""Keys a message may show. Any other key is the input's own word and is written as `*`."""
