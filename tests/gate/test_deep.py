"""The deep check: the request planned and encoded again, and the file held against it (R201)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import Planner
from planner.gate.deep import findings
from planner.gate.plan_file import judge_bytes
from planner.values.plan import Plan
from planner.values.request import PlanRequest
from planner.wire.dump import dump_plan_file, dump_request
from planner.wire.parse import parse_request
from tests.cli.support import planner as command

DEMO = Path(__file__).resolve().parents[2] / "fixtures/demo/building_desk.request.json"


@pytest.fixture(scope="module")
def planner() -> Planner:
    """A planner of the embedded bundle."""
    return Planner("reference")


@pytest.fixture(scope="module")
def request_of_demo() -> PlanRequest:
    """The demo's conversation in a window that forces a cut."""
    asked = parse_request(DEMO.read_bytes())
    return replace(asked, model_bundle_id="reference", max_input_tokens=8192, tier_id=None)


@pytest.fixture(scope="module")
def file_of_demo(planner: Planner, request_of_demo: PlanRequest) -> dict[str, Any]:
    """Its plan file."""
    answer = planner.plan(request_of_demo)
    assert isinstance(answer, Plan)
    assert answer.removed
    found: dict[str, Any] = json.loads(dump_plan_file(answer.plan_file))
    return found


def lines(planner: Planner, file: dict[str, Any], request: PlanRequest) -> list[str]:
    """Return what the deep check finds."""
    again = Planner("reference").plan(request)
    return [found.line for found in findings(file, request, again, planner.encoder().bundle)]


def _tokens(file: dict[str, Any]) -> str:
    file["items"][3]["tokens"] += 1
    return f"tokens: {file['items'][3]['id']}"


def _foreign(file: dict[str, Any]) -> str:
    file["items"].append({"id": "tool/other", "layer": "tools", "tokens": 0})
    return "items: tool/other"


def _lost(file: dict[str, Any]) -> str:
    return f"items: {file['items'].pop()['id']}"


def _layer(file: dict[str, Any]) -> str:
    row = next(item for item in file["items"] if item["id"].startswith("turn/"))
    row["layer"] = "required_request"
    return f"layer: {row['id']}"


def _sequence(file: dict[str, Any]) -> str:
    row = [item for item in file["items"] if item["sequence"] is not None][-1]
    row["sequence"] += 1
    return f"sequence: {row['id']}"


def _constraint(file: dict[str, Any]) -> str:
    file["items"][0]["constraintIds"] = ["C9"]
    return f"constraintIds: {file['items'][0]['id']}"


def _policy(file: dict[str, Any]) -> str:
    return f"required: {file['requiredPolicyIds'].pop()}"


def _removed(file: dict[str, Any]) -> str:
    return f"removed: {file['removedIds'].pop()}"


def _limit(file: dict[str, Any]) -> str:
    file["maxInputTokens"] += 1000
    return "limits: maxInputTokens"


def _generation(file: dict[str, Any]) -> str:
    file.pop("generation")
    return "generation: generation"


CHANGES: list[Callable[[dict[str, Any]], str]] = [
    _tokens, _foreign, _lost, _layer, _sequence, _constraint, _policy, _removed, _limit, _generation,
]  # fmt: skip


def test_R201_real_system_adds_checks(
    planner: Planner, request_of_demo: PlanRequest, file_of_demo: dict[str, Any]
) -> None:
    """A plan of ours comes out, and every number or id changed in its file is named."""
    assert [] == lines(planner, file_of_demo, request_of_demo)
    for change in CHANGES:
        file = copy.deepcopy(file_of_demo)
        expected = change(file)
        assert expected in lines(planner, file, request_of_demo), change.__name__


def test_a_citation_that_may_not_be_used_is_named(planner: Planner, request_of_demo: PlanRequest) -> None:
    """A passage whose permission went since the plan was made is found (R159, R201)."""
    wide = replace(request_of_demo, max_input_tokens=32_768)
    answer = planner.plan(wide)
    assert isinstance(answer, Plan)
    file = json.loads(dump_plan_file(answer.plan_file))
    cited = [item["id"] for item in file["items"] if item["id"].startswith("passage/")]
    assert 2 <= len(cited)
    stated = tuple(
        replace(passage, tenant="elsewhere") if f"passage/{passage.citation_id}" == cited[0] else passage
        for passage in wide.passages
    )
    found = lines(planner, file, replace(wide, passages=stated))
    assert [f"citation: {cited[0]}"] == [line for line in found if line.startswith("citation")]


def test_a_tool_outside_the_request_or_without_a_schema_is_named(
    planner: Planner, request_of_demo: PlanRequest, file_of_demo: dict[str, Any]
) -> None:
    """Tools of the file are those of the call, each with parameters that a gateway can check (R201)."""
    fewer = replace(request_of_demo, tools=request_of_demo.tools[1:])
    assert f"tool_allowlist: tool/{request_of_demo.tools[0].id}" in lines(planner, file_of_demo, fewer)
    function = {"name": "f", "parameters": {"type": "object", "required": ["q"]}}
    broken = replace(request_of_demo.tools[0], declaration={"type": "function", "function": function})
    odd = replace(request_of_demo, tools=(broken, *request_of_demo.tools[1:]))
    assert f"tool_schema: tool/{broken.id}" in lines(planner, file_of_demo, odd)


def test_a_turn_beside_its_summary_is_named(planner: Planner, request_of_demo: PlanRequest) -> None:
    """The file may not hold a turn that a used summary covers (R205)."""
    from planner.values.receipt import SummaryUse

    answer = planner.plan(request_of_demo)
    assert isinstance(answer, Plan)
    file = json.loads(dump_plan_file(answer.plan_file))
    turn = next(t for t in request_of_demo.turns if f"turn/{t.id}" in answer.kept)
    use = SummaryUse("s1", 1, (turn.sequence, turn.sequence), "used")
    doubled = replace(answer, receipt=replace(answer.receipt, summaries=(use, replace(use, id="s2"))))
    found = [one.line for one in findings(file, request_of_demo, doubled, planner.encoder().bundle)]
    assert [f"coverage: turn/{turn.id}", "coverage: summary/s2"] == found


def test_a_prompt_that_encodes_otherwise_is_named(planner: Planner, request_of_demo: PlanRequest) -> None:
    """The prompt in one plain call of the tokenizer is the plan's ids."""
    answer = planner.plan(request_of_demo)
    assert isinstance(answer, Plan)
    assert answer.prompt is not None
    file = json.loads(dump_plan_file(answer.plan_file))
    other = replace(answer, prompt=answer.prompt + " ")
    assert ["encoding: prompt"] == [
        one.line for one in findings(file, request_of_demo, other, planner.encoder().bundle)
    ]


def test_every_plan_file_of_ours_passes_both_modes(file_of_demo: dict[str, Any]) -> None:
    """Strict and the script alone."""
    data = json.dumps(file_of_demo).encode()
    assert (None, None) == (judge_bytes(data).message, judge_bytes(data, compat=True).message)


def test_the_command_holds_a_file_against_its_request(tmp_path: Path, request_of_demo: PlanRequest) -> None:
    """Exit 0 for what we wrote, exit 2 with one line for a file of another window."""
    asked, file = tmp_path / "request.json", tmp_path / "plan.json"
    asked.write_bytes(dump_request(request_of_demo))
    assert 0 == command("plan", asked, "--plan-file", file).code
    assert 0 == command("verify", file, "--request", asked).code
    ended = command("verify", file, "--request", asked, "--window", "4096")
    assert 2 == ended.code
    assert ended.err.startswith("context plan rejected: plan_file_differs: limits: maxInputTokens and ")
    assert 1 == ended.err.count("\n")


def test_R197_plan_file_fields(file_of_demo: dict[str, Any], request_of_demo: PlanRequest) -> None:
    """The keys that the published gate reads, ids and numbers alone, and no word of the conversation."""
    assert {
        "maxInputTokens", "reservedOutputTokens", "generation", "requiredPolicyIds", "requiredConstraintIds", "items",
        "removedIds",
    } == file_of_demo.keys()  # fmt: skip
    assert {"id", "layer", "sequence", "tokens", "constraintIds"} == {
        key for item in file_of_demo["items"] for key in item
    }
    written = json.dumps(file_of_demo, ensure_ascii=False)
    words = [message.text for turn in request_of_demo.turns for message in turn.messages if message.text]
    words += [item.text for item in request_of_demo.policy] + [one.text for one in request_of_demo.passages]
    assert len(words) > 40
    assert not [text for text in words if text[:40] in written]
