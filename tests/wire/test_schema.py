"""The published schema is generated, current, and says what the parser does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from planner.values.request import PlanRequest
from planner.wire.dump import dump_request
from planner.wire.schema import SCHEMA_PATH, schema_text
from tests.wire.strategies import instances

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(schema_text())


def test_the_published_schema_is_current() -> None:
    """After changing the values: python -c "from planner.wire.schema import write_schema; write_schema()"."""
    assert schema_text() == (ROOT / SCHEMA_PATH).read_text(encoding="utf-8")


def test_the_schema_is_a_schema() -> None:
    """It is valid JSON Schema and publishes the defaults."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$defs"]["Options"]["properties"]["lowWater"]["default"] == 1.0


@given(instances(PlanRequest))
def test_what_we_write_follows_the_schema(request: PlanRequest) -> None:
    """Every dumped request is an instance of the schema, ids apart, which the strategy does not bound."""
    without_patterns = json.loads(schema_text(), object_hook=_drop_patterns)
    jsonschema.validate(json.loads(dump_request(request)), without_patterns)


def _drop_patterns(node: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in node.items() if key != "pattern"}


@pytest.mark.parametrize(
    "patch",
    [{"unknown": 1}, {"maxInputTokens": "8192"}, {"maxInputTokens": -1}, {"conversationId": "two words"},
     {"passages": [{"citationId": "c", "text": "x", "relevance": 1.5}]}, {"schemaVersion": "2.0"}],
)  # fmt: skip
def test_the_schema_refuses_what_the_parser_or_the_checks_refuse(patch: dict[str, Any]) -> None:
    """Unknown fields, other types, other majors, ids and shares out of bounds."""
    jsonschema.validate({"modelBundleId": "b"}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"modelBundleId": "b", **patch}, SCHEMA)
