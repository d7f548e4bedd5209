"""From JSON to a request: names, types, versions, and errors that show nothing of the input (R216, R188)."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import fields
from typing import Any

import pytest

from planner.values.reasons import RefusalSignal
from planner.values.request import Options, PlanRequest
from planner.values.turn import Message
from planner.values.wire_names import wire_fields
from planner.wire.parse import parse_request

CANARY = "kestrel7391"


def parse(tree: Any) -> PlanRequest:
    """Parse a tree as JSON."""
    return parse_request(json.dumps(tree).encode())


def refusal(tree: Any) -> str:
    """Return the detail of the refusal and look for the canary everywhere an exception carries words."""
    with pytest.raises(RefusalSignal) as caught:
        parse(tree)
    assert caught.value.reason == "invalid-input"
    assert CANARY not in repr(caught.value.args)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.detail


def test_R216_structured_request_parts() -> None:
    """Policy, tools, output schema, turns, summaries, passages, request and reserve are parts apart."""
    request = parse({
        "modelBundleId": "b",
        "policy": [{"id": "p1", "text": "Be brief."}],
        "tools": [{"id": "f", "declaration": {"type": "function", "function": {"name": "f"}}}],
        "outputSchema": {"id": "o", "schema": {"type": "object"}},
        "turns": [
            {"id": "t1", "sequence": 1, "state": "completed", "messages": [{"role": "user", "text": "x"}]},
        ],
        "passages": [{"citationId": "c1", "text": "y", "relevance": 0.5}],
        "summaries": [{
            "id": "s1", "planId": "p", "conversationId": "c", "sourceGeneration": 1, "sourceRevision": 0,
            "sourceIds": ["m1"], "sourceFingerprint": "f", "coversFrom": 1, "coversTo": 1, "throughSequence": 1,
            "policyVersion": "1", "strategyVersion": "1", "summaryVersion": 2, "summaryText": "w",
            "state": {"goal": "g"},
        }],
        "request": {"id": "r1", "text": "z"},
        "reservedOutputTokens": 100,
    })  # fmt: skip
    assert (
        request.policy[0].id,
        request.tools[0].id,
        request.output_schema and request.output_schema.id,
        request.turns[0].id,
        request.passages[0].citation_id,
        request.request.text,
        request.reserved_output_tokens,
    ) == ("p1", "f", "o", "t1", "c1", "z", 100)
    assert (Message("user", text="x"),) == request.turns[0].messages
    assert [("s1", 2, "w")] == [(one.id, one.summary_version, one.summary_text) for one in request.summaries]


def test_absent_fields_take_the_documented_default() -> None:
    """A request needs a bundle and nothing else; the rest is what the values say."""
    assert PlanRequest("b") == parse({"modelBundleId": "b"})
    assert Options() == parse({"modelBundleId": "b", "options": {}}).options


@pytest.mark.parametrize(
    ("patch", "detail"),
    [
        ({"kestrel7391": 1}, "$: has an unknown field"),
        ({"options": {"kestrel7391": 1}}, "$.options: has an unknown field"),
        ({"model_bundle_id": "b"}, "$: has an unknown field"),
        ({"maxInputTokens": True}, "$.maxInputTokens: expected a whole number"),
        ({"maxInputTokens": 8192.0}, "$.maxInputTokens: expected a whole number"),
        ({"maxInputTokens": "kestrel7391"}, "$.maxInputTokens: expected a whole number"),
        ({"request": {"text": ["kestrel7391"]}}, "$.request.text: expected a string"),
        ({"request": "kestrel7391"}, "$.request: expected an object"),
        ({"policy": [{"id": "kestrel7391"}]}, "$.policy[0].text: is missing"),
        ({"policy": {"kestrel7391": 1}}, "$.policy: expected an array"),
        ({"options": {"mode": "kestrel7391"}}, "$.options.mode: is not one of the allowed values"),
        ({"options": {"sticky": 1}}, "$.options.sticky: expected true or false"),
        ({"options": {"lowWater": "1"}}, "$.options.lowWater: expected a number"),
        ({"templateOptions": ["kestrel7391"]}, "$.templateOptions: expected an object"),
        ({"schemaVersion": "2.0", "kestrel7391": 1},
         "$.schemaVersion: is a major version this build does not read"),
        ({"schemaVersion": "kestrel7391"}, "$.schemaVersion: expected major.minor"),
        ({"schemaVersion": 1}, "$.schemaVersion: expected major.minor"),
    ],
)  # fmt: skip
def test_wrong_forms_are_refused_by_path(patch: dict[str, Any], detail: str) -> None:
    """No value is coerced, no field is ignored, and neither values nor unknown keys are shown."""
    assert detail == refusal({"modelBundleId": "b", **patch})


def test_another_minor_version_is_read() -> None:
    """Only the major version decides; what this build does not know is still refused as a field."""
    assert parse({"modelBundleId": "b", "schemaVersion": "1.7"}).schema_version == "1.7"


@pytest.mark.parametrize("role", ["im_end", "System", "", None, 1])
def test_an_unknown_role_is_refused(role: Any) -> None:
    """H07: a role is one of five words, because some templates print it as framing."""
    turn = {"id": "t", "sequence": 1, "state": "open", "messages": [{"role": role, "text": CANARY}]}
    assert (
        refusal({"modelBundleId": "b", "turns": [turn]})
        == "$.turns[0].messages[0].role: is not one of the allowed values"
    )


def test_arguments_are_an_object_or_a_string_and_nothing_else() -> None:
    """D06: the wire keeps both as they came."""

    def chat(arguments: Any) -> dict[str, Any]:
        calls = [{"id": "c", "name": "f", "arguments": arguments}]
        message = {"role": "assistant", "toolCalls": calls}
        return {
            "modelBundleId": "b",
            "turns": [{"id": "t", "sequence": 1, "state": "open", "messages": [message]}],
        }

    for arguments in ({"b": 1, "a": None}, '{"b":1}', "no JSON"):
        assert arguments == parse(chat(arguments)).turns[0].messages[0].tool_calls[0].arguments
    path = "$.turns[0].messages[0].toolCalls[0].arguments"
    assert refusal(chat([CANARY])) == f"{path}: expected an object or a string"


def test_a_flood_of_errors_costs_no_more_than_one() -> None:
    """A list is left at its first bad item: noting millions of them would take a gigabyte."""
    tree = {"modelBundleId": "b", "request": {"evidenceGroups": [["c", 1] * 10_000] * 30}}
    tracemalloc.start()
    try:
        assert refusal(tree) == "$.request.evidenceGroups[0][1]: expected a string"
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_more_messages_than_the_bound_are_refused() -> None:
    """20,000 messages in all, however they are spread over turns."""
    messages = [{"role": "user", "text": ""}] * 10_001
    turns = [{"id": f"t{n}", "sequence": n, "state": "completed", "messages": messages} for n in (1, 2)]
    assert refusal({"modelBundleId": "b", "turns": turns}) == "$.turns: have more than 20000 messages"


def test_wire_names_are_the_camel_case_of_the_values() -> None:
    """One spelling rule, used by parse, dump and schema alike."""
    assert {"maxInputTokens", "modelBundleId", "templateOptions"} <= {one.alias for one in wire_fields(PlanRequest)}
    assert len(fields(PlanRequest)) == len({one.alias for one in wire_fields(PlanRequest)})


def test_chats_dumps_and_checks_run_without_pydantic() -> None:
    """`planner count` reads a chat; loading pydantic would cost more than the counting."""
    code = (
        "import sys\n"
        "import planner.adapters.openai, planner.wire.chat, planner.wire.dump, planner.wire.ids_file\n"
        "import planner.values.check, planner.values.unsupported\n"
        "assert not {'pydantic', 'numpy', 'jinja2', 'transformers'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
