"""Rules of everything in a request but its turns: limits, texts, tools, passages, options (R39, R216)."""

from __future__ import annotations

import re
from typing import Any, get_args

from planner.values.account import wire_field
from planner.values.check_evidence import check_citations, check_claims, check_evidence, check_passages
from planner.values.check_record import check_summaries
from planner.values.field_rules import (
    ID_RULE,
    VERSION_RULE,
    invalid,
    is_id,
    is_instant,
    is_share,
    is_version,
    is_whole,
    json_problem,
    text_problem,
)
from planner.values.give_way import order_problem
from planner.values.request import (
    CONCESSIONS,
    UNICODE_CHANNELS,
    CurrentRequest,
    Mode,
    Options,
    OutputSchema,
    PlanRequest,
    Previous,
    SectionBounds,
    Sections,
    Shrinking,
    TextItem,
    Tool,
    UnicodeChannels,
    UnicodeRule,
)

_MODES = get_args(Mode)
_UNICODE_RULES = get_args(UnicodeRule)
_SHRINKING = get_args(Shrinking)
_RISKS = (None, "low", "high")
_BOOL_RULE = "expected true or false"
_TUPLE_RULE = "expected a tuple"
_WHOLE_RULE = "expected a whole number, 0 or more"


def check_frame(request: PlanRequest, passed: PlanRequest | None = None) -> None:
    """Check everything of a request but its turns.

    passed  an earlier request that passed: fields that are the very same objects are not looked at again.
    """
    known = passed if type(passed) is PlanRequest else None
    if type(request.schema_version) is not str or not re.fullmatch(r"1\.[0-9]+", request.schema_version):
        invalid("$.schemaVersion", "is not a version this build reads")
    for name, value in (
        ("modelBundleId", request.model_bundle_id),
        ("conversationId", request.conversation_id),
        ("tierId", request.tier_id),
        ("candidateId", request.candidate_id),
    ):
        if not is_id(value) and (value is not None or name == "modelBundleId"):
            invalid(f"$.{name}", ID_RULE)
    for name, value in (("policyVersion", request.policy_version), ("appVersion", request.app_version)):
        if not is_version(value) and (value is not None or name == "policyVersion"):
            invalid(f"$.{name}", VERSION_RULE)
    if request.now is not None and not is_instant(request.now):
        invalid("$.now", "expected an RFC 3339 instant with its zone")
    _check_limits(request)
    if known is None or known.policy is not request.policy:
        _check_text_items(request.policy, "$.policy")
    if known is None or known.data_scope is not request.data_scope:
        _check_text_items(request.data_scope, "$.dataScope")
    if known is None or known.preferences is not request.preferences:
        _check_text_items(request.preferences, "$.preferences")
    if known is None or known.tools is not request.tools:
        _check_tools(request.tools)
    if known is None or known.output_schema is not request.output_schema:
        _check_schema(request.output_schema)
    if known is None or known.passages is not request.passages:
        check_passages(request.passages)
    if known is None or known.citations is not request.citations:
        check_citations(request.citations)
    check_claims(request.claims)
    if known is None or known.summaries is not request.summaries:
        check_summaries(request.summaries, "$.summaries")
    _check_current(request.request)
    _check_previous(request.previous)
    _check_json_object(request.template_options, "$.templateOptions")
    if known is None or known.options is not request.options:
        _check_options(request.options)


def _check_limits(request: PlanRequest) -> None:
    limit, reserve = request.max_input_tokens, request.reserved_output_tokens
    if limit is not None and not is_whole(limit, 1):
        invalid("$.maxInputTokens", "expected a whole number, 1 or more")
    for name, value in (
        ("reservedOutputTokens", reserve),
        ("safetyMarginTokens", request.safety_margin_tokens),
        ("deviceWindow", request.device_window),
    ):
        if value is not None and not is_whole(value):
            invalid(f"$.{name}", _WHOLE_RULE)
    for name, value in (("generation", request.generation), ("revision", request.revision)):
        if not is_whole(value):
            invalid(f"$.{name}", _WHOLE_RULE)
    if limit is not None and reserve is not None and limit <= reserve:
        invalid("$.reservedOutputTokens", "is not smaller than maxInputTokens")
    if reserve is not None and request.reserved_output is not None:
        invalid("$.reservedOutput", "stands beside reservedOutputTokens")


def _check_text_items(items: tuple[TextItem, ...], path: str) -> None:
    seen: set[str] = set()
    if type(items) is not tuple:
        invalid(path, _TUPLE_RULE)
    for index, item in enumerate(items):
        if type(item) is not TextItem:
            invalid(f"{path}[{index}]", "expected a TextItem")
        _check_own_id(item.id, seen, f"{path}[{index}].id")
        problem = text_problem(item.text)
        if problem:
            invalid(f"{path}[{index}].text", problem)


def _check_own_id(value: str, seen: set[str], path: str) -> None:
    if not is_id(value):
        invalid(path, ID_RULE)
    if value in seen:
        invalid(path, "is used twice")
    seen.add(value)


def _check_tools(tools: tuple[Tool, ...]) -> None:
    if type(tools) is not tuple:
        invalid("$.tools", _TUPLE_RULE)
    ids: set[str] = set()
    names: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"$.tools[{index}]"
        if type(tool) is not Tool:
            invalid(path, "expected a Tool")
        _check_own_id(tool.id, ids, f"{path}.id")
        check_declaration(tool.declaration, f"{path}.declaration")
        _check_own_id(tool.declaration["function"]["name"], names, f"{path}.declaration.function.name")


def check_declaration(declaration: Any, path: str) -> None:
    """Check a tool declaration of the OpenAI shape: type, function, function.name; the rest is free JSON."""
    _check_json_object(declaration, path)
    if declaration.get("type") != "function":
        invalid(f"{path}.type", 'expected "function"')
    function = declaration.get("function")
    if type(function) is not dict:
        invalid(f"{path}.function", "expected an object")
    if not is_id(function.get("name")):
        invalid(f"{path}.function.name", ID_RULE)
    if type(function.get("description", "")) is not str:
        invalid(f"{path}.function.description", "expected a string")
    if type(function.get("parameters", {})) is not dict:
        invalid(f"{path}.function.parameters", "expected an object")


def _check_json_object(value: object, path: str) -> None:
    if type(value) is not dict:
        invalid(path, "expected an object")
    problem = json_problem(value)
    if problem:
        invalid(path, problem)


def _check_schema(schema: OutputSchema | None) -> None:
    if schema is None:
        return
    if type(schema) is not OutputSchema:
        invalid("$.outputSchema", "expected an OutputSchema")
    if not is_id(schema.id):
        invalid("$.outputSchema.id", ID_RULE)
    _check_json_object(schema.schema, "$.outputSchema.schema")


def _check_current(current: CurrentRequest) -> None:
    if type(current) is not CurrentRequest:
        invalid("$.request", "expected a CurrentRequest")
    for name, value in (("id", current.id), ("turnId", current.turn_id)):
        if value is not None and not is_id(value):
            invalid(f"$.request.{name}", ID_RULE)
    problem = text_problem(current.text) if current.text is not None else None
    if problem:
        invalid("$.request.text", problem)
    _check_text_items(current.required_parameters, "$.request.requiredParameters")
    check_evidence(current)
    if current.risk not in _RISKS:
        invalid("$.request.risk", "is not one of the risks")
    if current.on_invalid_summary not in ("raw", "refuse"):
        invalid("$.request.onInvalidSummary", "is not one of the ways")


def _check_previous(previous: Previous | None) -> None:
    if previous is None:
        return
    if type(previous) is not Previous:
        invalid("$.previous", "expected a Previous")
    for name, value in (("planId", previous.plan_id), ("firstKeptTurnId", previous.first_kept_turn_id)):
        if value is not None and not is_id(value):
            invalid(f"$.previous.{name}", ID_RULE)
    if type(previous.summary_ids) is not tuple or not all(map(is_id, previous.summary_ids)):
        invalid("$.previous.summaryIds", ID_RULE)
    if type(previous.advice_fired) is not bool:
        invalid("$.previous.adviceFired", _BOOL_RULE)
    for name, ids in (("ids", previous.ids), ("generatedIds", previous.generated_ids)):
        if ids is not None and not (type(ids) is tuple and all(type(one) is int for one in ids)):
            invalid(f"$.previous.{name}", "expected token ids")
        if ids and not (min(ids) >= 0 and max(ids) < 2**31):
            invalid(f"$.previous.{name}", "expected token ids of 31 bits")


def _check_options(options: Options) -> None:
    if type(options) is not Options:
        invalid("$.options", "expected an Options")
    if options.mode not in _MODES:
        invalid("$.options.mode", "is not one of the modes")
    for name, share in (("compactAt", options.compact_at), ("lowWater", options.low_water)):
        if (not is_share(share) or share == 0) and (share is not None or name == "lowWater"):
            invalid(f"$.options.{name}", "expected a number above 0 and up to 1")
    if options.low_value_line is not None and not is_share(options.low_value_line):
        invalid("$.options.lowValueLine", "expected a finite number from 0 to 1")
    if options.source_share is not None and (not is_share(options.source_share) or options.source_share == 0):
        invalid("$.options.sourceShare", "expected a number above 0 and up to 1")
    if options.passage_order not in ("value", "edges"):
        invalid("$.options.passageOrder", "is not one of the orders")
    for name, flag in (
        ("sticky", options.sticky),
        ("allowHistoryEviction", options.allow_history_eviction),
        ("dropDuplicates", options.drop_duplicates),
        ("stubs", options.stubs),
    ):
        if type(flag) is not bool:
            invalid(f"$.options.{name}", _BOOL_RULE)
    if options.shrink_results not in _SHRINKING:
        invalid("$.options.shrinkResults", "is not one of the ways")
    if options.tail_turns is not None and not is_whole(options.tail_turns, 1):
        invalid("$.options.tailTurns", "expected a whole number, 1 or more")
    if options.history_notice not in ("receipt", "prompt"):
        invalid("$.options.historyNotice", "is not one of the places")
    _check_unicode(options)
    _check_sections(options.sections)
    problem = order_problem(options.give_way_order)
    if problem:
        invalid("$.options.giveWayOrder", problem)
    known = type(options.concessions) is tuple and all(name in CONCESSIONS for name in options.concessions)
    if not known or len(set(options.concessions)) != len(options.concessions):
        invalid("$.options.concessions", "expected names of concessions, each once")


def _check_unicode(options: Options) -> None:
    if options.unicode_policy not in _UNICODE_RULES:
        invalid("$.options.unicodePolicy", "is not one of the policies")
    channels = options.unicode_channels
    if channels is None:
        return
    if type(channels) is not UnicodeChannels:
        invalid("$.options.unicodeChannels", "expected a UnicodeChannels")
    for name in UNICODE_CHANNELS:
        if getattr(channels, name) not in (None, *_UNICODE_RULES):
            invalid(f"$.options.unicodeChannels.{wire_field(name)}", "is not one of the policies")


def _check_sections(sections: Sections) -> None:
    if type(sections) is not Sections:
        invalid("$.options.sections", "expected a Sections")
    for name in ("history", "summary", "retrieval"):
        bounds = getattr(sections, name)
        if type(bounds) is not SectionBounds:
            invalid(f"$.options.sections.{name}", "expected a SectionBounds")
        for end, value in (("min", bounds.min), ("max", bounds.max)):
            if value is not None and not is_whole(value):
                invalid(f"$.options.sections.{name}.{end}", _WHOLE_RULE)
