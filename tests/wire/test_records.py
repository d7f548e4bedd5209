"""Turns, summaries and compaction plans as JSON lines: what was written is read back, anything else is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.compaction import CompactionPlan, Run
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Removal
from planner.values.summary import StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Turn
from planner.wire.dump import dump_record
from planner.wire.parse import parse_record
from tests.strategies import Wanted, requests

RUN = Run(
    ("t1", "t2"), ("m1", "m2"), (1, 3), 1, 4, 6, "f", "p", ("k",), ("i",), ("c",), (Removal("turn/t3", "cancelled"),)
)
PLAN = CompactionPlan("p1", "c1", "main", 2, 9, "v1", "s1", (RUN,), ("m7",), (), 12)
STATE = SummaryState("g", "task-1", (StateEntry("d", ("m1",)),), (StateEntry("k text", id="k"),))
SUMMARY = SummaryRecord(
    "s1", "p1", "c1", 2, 9, ("m1", "m2"), "f", 1, 4, 6, 1, "v1", "s1", "text", STATE, source_versions=(1, 3)
)  # fmt: skip


@given(data=st.data())
def test_a_turn_is_read_back_as_it_was(data: st.DataObject) -> None:
    """parse(dump(turn)) == turn for every turn a request may hold (law 15)."""
    for turn in data.draw(requests("b", Wanted(max_turns=4))).turns:
        line = dump_record(turn)
        assert turn == parse_record(Turn, line)
        assert line == dump_record(parse_record(Turn, line))
        assert b"\n" not in line


@pytest.mark.parametrize("record", [PLAN, SUMMARY])
def test_a_record_is_read_back_as_it_was(record: object) -> None:
    """The same for a compaction plan and a summary; both name their schema version."""
    line = dump_record(record)
    assert record == parse_record(type(record), line)
    assert "1.0" == json.loads(line)["schemaVersion"]


@pytest.mark.parametrize("record", [PLAN, SUMMARY])
def test_an_unknown_major_version_or_field_is_refused(record: object) -> None:
    """Data of another major version is refused with a clear line, never half read."""
    tree = json.loads(dump_record(record))
    for change in ({"schemaVersion": "2.0"}, {"unknown": 1}):
        with pytest.raises(RefusalSignal) as caught:
            parse_record(type(record), json.dumps({**tree, **change}).encode())
        assert "invalid-input" == caught.value.reason
