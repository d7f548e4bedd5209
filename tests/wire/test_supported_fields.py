"""Every field of the request is built or refused by name; none is read and then ignored."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from planner.values.account import wire_field
from planner.values.passage import Passage
from planner.values.reasons import RefusalSignal
from planner.values.request import (
    Options,
    PlanRequest,
    Previous,
    ReservedOutput,
    SectionBounds,
    Sections,
)
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from planner.values.unsupported import ROWS, check_supported

BUILT = {
    "PlanRequest": "model_bundle_id request conversation_id generation revision policy_version "
    "max_input_tokens tier_id reserved_output_tokens safety_margin_tokens policy data_scope preferences "
    "tools output_schema turns summaries passages citations claims now previous candidate_id app_version "
    "template_options options schema_version",
    "CurrentRequest": "id turn_id text required_parameters requires_citation evidence_groups high_impact risk"
    " on_invalid_summary",
    "TextItem": "id text",
    "Tool": "id declaration",
    "OutputSchema": "id schema",
    "Previous": "plan_id first_kept_turn_id summary_ids ids generated_ids advice_fired",
    "Options": "mode compact_at low_water sticky tail_turns allow_history_eviction give_way_order sections"
    " history_notice low_value_line source_share drop_duplicates passage_order stubs shrink_results concessions"
    " unicode_policy unicode_channels",
    "Sections": "history summary retrieval",
    "SectionBounds": "min max",
    "UnicodeChannels": "policy tools user assistant tool_result passage summary",
    "Turn": "id sequence state messages must_preserve supersedes open_items material",
    "MustPreserve": "constraint_id text",
    "OpenItem": "id status",
    "SummaryRecord": "id plan_id conversation_id source_generation source_revision source_ids source_fingerprint"
    " covers_from covers_to through_sequence summary_version policy_version strategy_version summary_text state branch"
    " source_versions protected_fingerprint summariser_bundle required_constraint_ids open_items confirmed_facts"
    " citation_ids",
    "SummaryState": "goal goal_from decisions constraints open_actions questions evidence",
    "StateEntry": "text message_ids owner status excerpt archive_ref id",
    "ConfirmedFact": "id text fact_key fact_value source_ids confirmation_id status rejected_values",
    "Message": "role id text parts tool_calls tool_result reasoning source accepted protection_reason constraint_ids"
    " citation_ids sequence version",
    "Part": "type text id width_px height_px duration_ms",
    "ToolCall": "id name arguments",
    "ToolResult": "call_id text short_forms",
    "Passage": "citation_id text relevance tenant dataset source valid_from valid_to fact_key fact_value short_forms",
    "Source": "id grade",
    "Citation": "citation_id tenant dataset source valid_from valid_to",
    "Claims": "tenant datasets sources",
}
"""What this version plans with. `sections` are built in part; their own tests are below."""


def reachable(owner: Any, refused: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class and of every class below a field that is not refused."""
    hints = typing.get_type_hints(owner)
    for one in fields(owner):
        yield owner.__name__, one.name
        if (owner.__name__, one.name) not in refused:
            for inner in classes_in(hints[one.name]):
                yield from reachable(inner, refused)


def classes_in(hint: Any) -> Iterator[Any]:
    """Yield the dataclasses named anywhere in a type."""
    if is_dataclass(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from classes_in(inner)


def test_every_field_of_the_wire_is_built_or_refused() -> None:
    """A field added to the values must be put into one of the two lists."""
    refused = {(row.owner.__name__, row.name) for row in ROWS if row.fires is None}
    partly = {(row.owner.__name__, row.name) for row in ROWS if row.fires is not None}
    built = {(owner, name) for owner, names in BUILT.items() for name in names.split()}
    assert not built & refused
    assert partly <= built
    assert built | refused == set(reachable(PlanRequest, refused))


TOOL_TURN = Turn(
    "t1", 1, "open",
    (Message("user", text="x"), Message("assistant", tool_calls=(ToolCall("c", "f", {}),)),
     Message("tool", tool_result=ToolResult("c", "r"))),
)  # fmt: skip
BASE = PlanRequest(
    "b", turns=(TOOL_TURN,), passages=(Passage("c1", "text"),), previous=Previous(plan_id="p")
)  # fmt: skip
VALUES: dict[tuple[str, str], Any] = {
    ("PlanRequest", "reserved_output"): ReservedOutput(1, 2),
    ("PlanRequest", "device_window"): 100,
    ("Options", "max_fresh_tokens"): 0,
    ("Options", "on_fresh_exceeded"): "refuse",
    ("Options", "sections"): Sections(summary=SectionBounds(min=1)),
    ("Options", "tool_carrier"): "policy_text",
}


def with_field(owner: str, name: str, value: Any) -> tuple[PlanRequest, str]:
    """Return the base request with one field set, and the path of the place."""
    change = {name: value}
    places: dict[str, tuple[dict[str, Any], str]] = {
        "PlanRequest": (change, "$"),
        "Options": ({"options": Options(**change)} if owner == "Options" else {}, "$.options"),
    }
    change, path = places[owner]
    return replace(BASE, **change), path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.owner.__name__}.{row.name}")
def test_a_refused_field_is_refused_at_its_path(row: Any) -> None:
    """`not_supported_yet` names the field; the default of the same field passes."""
    check_supported(BASE)
    owner = row.owner.__name__
    request, path = with_field(owner, row.name, VALUES[owner, row.name])
    with pytest.raises(RefusalSignal) as caught:
        check_supported(request)
    head, *rest = row.name.split("_")
    spelled = head + "".join(word.capitalize() for word in rest)
    assert (caught.value.reason, caught.value.detail) == (
        "not_supported_yet",
        f"{path}.{spelled}: {row.sentence}",
    )


@pytest.mark.parametrize("mode", ["ids", "text", "messages"])
def test_every_mode_is_built(mode: Any) -> None:
    """Whether a plan may be handed over in it is the bundle's certificate to say."""
    check_supported(replace(BASE, options=Options(mode=mode)))


def test_summaries_have_no_minimum() -> None:
    """Every other bound of a section orders moves."""
    built = Sections(SectionBounds(1, 5), SectionBounds(max=5), SectionBounds(1, 5))
    check_supported(replace(BASE, options=Options(sections=built, give_way_order=(4,))))
    with pytest.raises(RefusalSignal, match="not_supported_yet"):
        check_supported(replace(BASE, options=Options(sections=Sections(summary=SectionBounds(min=5)))))


def test_the_page_names_every_field_that_is_refused() -> None:
    """A reader of docs/cli.md knows what is not built, and why."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split("## Fields of a request that are refused\n", 1)[1]
    assert [] == [row.name for row in ROWS if wire_field(row.name) not in section]
