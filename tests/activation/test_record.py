"""The record of activated templates: read back as it was written, and refused by path where it is not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.bundles.activated import ACTIONS, dump_state, parse_state, template_name
from planner.bundles.files import check_name
from planner.values.activation import (
    MAX_AUDIT_ROWS,
    AuditRow,
    TemplateState,
    TemplateVersion,
    activated,
    noted,
    stepped_back,
)
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
LABELS = st.none() | st.from_regex(r"[A-Za-z0-9._:+-]{1,12}", fullmatch=True)
TOKENS = st.builds(ControlToken, st.text(min_size=1, max_size=6),
                   st.integers(0, 9999), st.booleans(), st.booleans())  # fmt: skip
TEMPLATES = st.builds(
    TemplateVersion, DIGESTS, DIGESTS, st.from_regex(r"[a-z]{1,8}", fullmatch=True), LABELS, LABELS, LABELS,
    st.lists(TOKENS, max_size=2).map(tuple),
)  # fmt: skip
ROWS = st.builds(
    AuditRow, st.just("2026-11-30T12:00:00Z"), st.sampled_from(ACTIONS), st.none() | DIGESTS, LABELS, LABELS,
    st.lists(st.from_regex(r"[a-z_]{1,8}( [a-z/]{1,8})?", fullmatch=True), max_size=2).map(tuple),
)  # fmt: skip
STATES = st.builds(
    TemplateState, st.just("reference"), DIGESTS, st.none() | TEMPLATES, st.none() | TEMPLATES, st.booleans(),
    st.lists(ROWS, max_size=3).map(tuple),
)  # fmt: skip
ROW = AuditRow("2026-11-30T12:00:00Z", "activate", None)


@given(state=STATES)
def test_a_record_is_read_back_as_it_was_written(state: TemplateState) -> None:
    """parse(dump(x)) is x, and the bytes are the same again."""
    assert state == parse_state(dump_state(state))
    assert dump_state(state) == dump_state(parse_state(dump_state(state)))


@given(state=STATES, template=TEMPLATES)
def test_a_step_back_undoes_an_activation(state: TemplateState, template: TemplateVersion) -> None:
    """Whatever was active is active again, and there is no second step."""
    forward = activated(state, template, ROW)
    back = stepped_back(forward, ROW)
    assert (template, state.active, True) == (forward.active, forward.previous, forward.can_step_back)
    assert (state.active, None, False) == (back.active, back.previous, back.can_step_back)


def test_the_audit_keeps_the_newest_rows() -> None:
    """A bound, so that the record stays small; the row just written is never the one that leaves."""
    state = TemplateState("reference", "0" * 64)
    for number in range(MAX_AUDIT_ROWS + 5):
        state = noted(state, AuditRow(f"at {number}", "refuse", None))
    assert [f"at {number}" for number in range(5, MAX_AUDIT_ROWS + 5)] == [row.at for row in state.audit]


GOOD: dict[str, Any] = json.loads(dump_state(TemplateState("reference", "0" * 64, audit=(ROW,))))
TEMPLATE = {"sha256": "0" * 64, "bundleDigest": "0" * 64, "entry": "default", "controlTokens": []}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("$.schemaVersion", {"schemaVersion": "2.0"}),
        ("$.modelBundleId", {"modelBundleId": "../up"}),
        ("$.baseDigest", {"baseDigest": "ABC"}),
        ("$.active.sha256", {"active": TEMPLATE | {"sha256": "../../etc/passwd"}}),
        ("$.active.controlTokens[0].id", {"active": TEMPLATE | {"controlTokens": [{"id": -1, "text": "x"}]}}),
        ("$.active.controlTokens[0].text", {"active": TEMPLATE | {"controlTokens": [{"id": 1, "text": ""}]}}),
        ("$.active", {"active": TEMPLATE | {"more": 1}}),
        ("$.canStepBack", {"canStepBack": 1}),
        ("$.audit[0].action", {"audit": [{"at": "now", "action": "delete", "findings": []}]}),
        ("$", {"more": 1}),
    ],
)
def test_a_field_that_is_not_ours_is_named(path: str, changes: dict[str, Any]) -> None:
    """Strict: nothing of a value is shown, and no name leads out of the folder."""
    with pytest.raises(PlannerFault) as caught:
        parse_state(json.dumps(GOOD | changes).encode())
    assert ("manifest_invalid", True) == (caught.value.code, caught.value.detail.startswith(f"{path}: "))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"a": 1, "a": 2}', b"\xff", b'{"schemaVersion": NaN}'])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    """No JSON, another shape, a key twice."""
    with pytest.raises(PlannerFault, match="manifest_invalid"):
        parse_state(data)


def test_the_name_of_a_kept_template_is_a_plain_one() -> None:
    """Two levels inside the bundle's folder."""
    check_name(template_name("0" * 64))
