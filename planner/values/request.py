"""One planning request: everything a plan depends on, and nothing else (R216, design.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.values.passage import Citation, Claims, Passage
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

Mode = Literal["ids", "text", "messages"]
Shrinking = Literal["off", "json", "logs", "all"]
Concession = Literal["serialise_parallel_calls", "omit_text_beside_call", "join_same_role"]
UnicodeRule = Literal["keep", "refuse", "strip"]
UNICODE_CHANNELS = ("policy", "tools", "user", "assistant", "tool_result", "passage", "summary")
CONCESSIONS: tuple[Concession, ...] = ("serialise_parallel_calls", "omit_text_beside_call", "join_same_role")


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text with an id: a policy rule, a data scope, a preference or a required parameter."""

    id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of this task's allowlist; `declaration` is the JSON object the template prints."""

    id: str
    declaration: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON Schema an answer must follow."""

    id: str
    schema: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReservedOutput:
    """A reserve split between the answer and the reasoning before it (tokens)."""

    answer: int
    reasoning: int


@dataclass(frozen=True, slots=True)
class CurrentRequest:
    """The question to answer; `turn_id` names the newest open turn (design.md §2).

    `text` absent means: continue that open turn, as an agent loop does.
    """

    id: str | None = None
    turn_id: str | None = None
    text: str | None = field(default=None, repr=False)
    required_parameters: tuple[TextItem, ...] = ()
    requires_citation: bool = False
    evidence_groups: tuple[tuple[str, ...], ...] = ()
    high_impact: bool | None = None
    risk: Literal["low", "high"] | None = None
    on_invalid_summary: Literal["raw", "refuse"] = "raw"


@dataclass(frozen=True, slots=True)
class Previous:
    """The plan the runtime's session holds now; `ids` as it was planned, `generated_ids` what followed."""

    plan_id: str | None = None
    first_kept_turn_id: str | None = None
    summary_ids: tuple[str, ...] = ()
    ids: tuple[int, ...] | None = field(default=None, repr=False)
    generated_ids: tuple[int, ...] | None = field(default=None, repr=False)
    advice_fired: bool = False


@dataclass(frozen=True, slots=True)
class SectionBounds:
    """Bounds of a section in tokens; they order the moves and never force one (design.md §5)."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Sections:
    """Bounds per section."""

    history: SectionBounds = SectionBounds()
    summary: SectionBounds = SectionBounds()
    retrieval: SectionBounds = SectionBounds()


@dataclass(frozen=True, slots=True)
class UnicodeChannels:
    """What becomes of hidden characters in one channel, where it differs from `unicodePolicy`.

    policy  policy, data scope, output schema and constraint texts; user  user messages, preferences, parameters and
    system messages inside turns; assistant  answers, reasoning and calls.
    """

    policy: UnicodeRule | None = None
    tools: UnicodeRule | None = None
    user: UnicodeRule | None = None
    assistant: UnicodeRule | None = None
    tool_result: UnicodeRule | None = None
    passage: UnicodeRule | None = None
    summary: UnicodeRule | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How to plan; every default is documented in docs/cli.md and published in the schema."""

    mode: Mode = "ids"
    compact_at: float | None = None
    low_water: float = 1.0
    sticky: bool = False
    max_fresh_tokens: int | None = None
    on_fresh_exceeded: Literal["accept", "refuse"] = "accept"
    tail_turns: int | None = None
    allow_history_eviction: bool = True
    give_way_order: tuple[int, ...] = ()
    sections: Sections = Sections()
    history_notice: Literal["receipt", "prompt"] = "receipt"
    low_value_line: float | None = None
    source_share: float | None = None
    drop_duplicates: bool = False
    passage_order: Literal["value", "edges"] = "value"
    unicode_policy: UnicodeRule = "keep"
    unicode_channels: UnicodeChannels | None = None
    tool_carrier: Literal["template", "policy_text"] = "template"
    stubs: bool = False
    shrink_results: Shrinking = "off"
    concessions: tuple[Concession, ...] = ()


def unicode_rule(options: Options, channel: str) -> UnicodeRule:
    """Return what becomes of hidden characters in a channel.

    >>> unicode_rule(Options(unicode_channels=UnicodeChannels(passage="strip")), "passage")
    'strip'
    """
    own: UnicodeRule | None = getattr(options.unicode_channels, channel, None)
    return own or options.unicode_policy


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One request for a plan. Absent fields take the documented default of design.md §2.

    Token figures are whole numbers of tokens of the named bundle.
    `now` is an RFC 3339 instant; it is the only clock a template or a date rule may see (X57).
    """

    model_bundle_id: str
    request: CurrentRequest = CurrentRequest()
    conversation_id: str | None = None
    generation: int = 1
    revision: int = 0
    policy_version: str = "unversioned"
    max_input_tokens: int | None = None
    tier_id: str | None = None
    reserved_output_tokens: int | None = None
    reserved_output: ReservedOutput | None = None
    safety_margin_tokens: int | None = None
    device_window: int | None = None
    policy: tuple[TextItem, ...] = ()
    data_scope: tuple[TextItem, ...] = ()
    preferences: tuple[TextItem, ...] = ()
    tools: tuple[Tool, ...] = ()
    output_schema: OutputSchema | None = None
    turns: tuple[Turn, ...] = ()
    summaries: tuple[SummaryRecord, ...] = ()
    passages: tuple[Passage, ...] = ()
    citations: tuple[Citation, ...] = ()
    claims: Claims | None = None
    now: str | None = None
    previous: Previous | None = None
    candidate_id: str | None = None
    app_version: str | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    options: Options = Options()
    schema_version: str = "1.0"
