"""Receipts, observations and parts: what proves a plan, what a runtime said of it, what replay needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ledger.codec import decode, encode
from planner.ledger.diagnostics import text_free
from planner.ledger.ledger import Ledger
from planner.values.compaction import CompactionPlan, Run
from planner.values.receipt import Removal
from planner.values.summary import SummaryRecord
from planner.wire.dump import dump_record
from tests.ledger.summary_support import CHAT, dump, fill, freeze, summary_of
from tests.ledger.support import events, fault


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with three completed turns."""
    with Ledger.open(tmp_path / "ledger") as opened:
        fill(opened, 1, 2, 3)
        yield opened


def receipt(plan_id: str, **more: object) -> bytes:
    """Return the bytes of a receipt."""
    return json.dumps({"planId": plan_id, "conversationId": CHAT, "requestDigest": "ab" * 32, **more}).encode()


def test_R55_old_generation_results_refused_for_receipts(ledger: Ledger) -> None:
    """R55: the receipt of a plan of an older generation is not stored; one of this generation reads back."""
    ledger.save_receipt(CHAT, receipt("p1", generation=1), generation=1)
    ledger.new_generation(CHAT)
    assert "stale_generation" == fault(lambda: ledger.save_receipt(CHAT, receipt("p2", generation=1), generation=1))
    assert "stale_generation" == fault(lambda: ledger.save_receipt(CHAT, receipt("p2", generation=1), generation=2))
    ledger.save_receipt(CHAT, receipt("p2", generation=2), generation=2)
    assert (receipt("p1", generation=1), receipt("p2", generation=2), None) == (
        ledger.receipt(CHAT, "p1"), ledger.receipt(CHAT, "p2"), ledger.receipt(CHAT, "p3"),
    )  # fmt: skip


def test_H18_a_plan_of_generation_n_minus_1_is_not_written_back(ledger: Ledger) -> None:
    """H18: `stale_generation`, and nothing is stored."""
    ledger.new_generation(CHAT)
    assert "stale_generation" == fault(lambda: ledger.save_receipt(CHAT, receipt("p1"), generation=1))
    assert ledger.receipt(CHAT, "p1") is None


def test_the_same_receipt_again_is_a_no_op(ledger: Ledger, tmp_path: Path) -> None:
    """One receipt a plan: a repeated call changes nothing, another receipt under the id is refused."""
    ledger.save_receipt(CHAT, receipt("p1"), generation=1)
    before = dump(tmp_path / "ledger")
    ledger.save_receipt(CHAT, receipt("p1"), generation=1)
    assert before == dump(tmp_path / "ledger")
    assert "duplicate_id" == fault(lambda: ledger.save_receipt(CHAT, receipt("p1", flags=[]), generation=1))
    with pytest.raises(apsw.ConstraintError):
        ledger._store.connection().execute("UPDATE receipt SET generation = 2")


@pytest.mark.parametrize(
    "broken",
    [b"", b"[]", b"{", b'{"planId": " "}', b'{"planId": "p", "conversationId": "c9"}', b'{"planId": "p"}' + b"\xff",
     b'{"planId": "p", "requestDigest": 1}', b'{"planId": "p", "generation": true}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_receipt_is_invalid_input(ledger: Ledger, broken: bytes) -> None:
    """Bytes that are no receipt of this conversation are refused, without a word of them."""
    assert "invalid-input" == fault(lambda: ledger.save_receipt(CHAT, broken, generation=1))


def test_a_receipt_is_no_event_of_the_conversation(ledger: Ledger) -> None:
    """P5: planning leaves a receipt and changes neither revision nor events; a failed receipt changes nothing."""
    head, known = ledger.head(CHAT), events(ledger)
    ledger.save_receipt(CHAT, receipt("p1"), generation=1)

    def fail(name: str) -> None:
        if name == "before_commit":
            raise OSError(28, "no space")

    ledger._store.fail = fail
    assert "ledger_full" == fault(lambda: ledger.save_receipt(CHAT, receipt("p2"), generation=1))
    ledger._store.fail = lambda _: None
    assert (head, known) == (ledger.head(CHAT), events(ledger))
    assert (receipt("p1"), None) == (ledger.receipt(CHAT, "p1"), ledger.receipt(CHAT, "p2"))
    fill(ledger, 4)


def test_an_observation_of_an_older_generation_is_refused(ledger: Ledger) -> None:
    """R55: a runtime's count for a plan belongs to the plan's generation and stands beside its receipt, once."""
    assert "conversation_not_found" == fault(lambda: ledger.save_observation(CHAT, "p1", 1, 812))
    ledger.save_receipt(CHAT, receipt("p1"), generation=1)
    for _ in range(2):
        ledger.save_observation(CHAT, "p1", 1, 812)
    assert 812 == json.loads(ledger.part(CHAT, "observation", "p1"))["reportedTokens"]
    assert "duplicate_id" == fault(lambda: ledger.save_observation(CHAT, "p1", 1, 813))
    assert "invalid-input" == fault(lambda: ledger.save_observation(CHAT, "p1", 1, -1))
    ledger.new_generation(CHAT)
    assert "stale_generation" == fault(lambda: ledger.save_observation(CHAT, "p1", 1, 812))
    assert "stale_generation" == fault(lambda: ledger.save_observation(CHAT, "p1", 2, 812))


def test_R189_originals_behind_authorised_store(ledger: Ledger, tmp_path: Path) -> None:
    """A part is read by its exact key alone; the request stands under its digest; what is missing is named by kind."""
    request_digest = "cd" * 32
    assert request_digest == ledger.put_part(CHAT, "canonical_request", b"{}", request_digest)
    assert request_digest == ledger.put_part(CHAT, "canonical_request", b"{}", request_digest)
    assert b"{}" == ledger.part(CHAT, "canonical_request", request_digest)
    assert "duplicate_id" == fault(lambda: ledger.put_part(CHAT, "canonical_request", b"[]", request_digest))
    assert "part_missing:canonical_request" == fault(lambda: ledger.part(CHAT, "canonical_request", "ef" * 32))
    assert "part_missing:policy_file" == fault(lambda: ledger.part(None, "policy_file", request_digest))
    first, second = (ledger.put_part(None, "passage", b"same words") for _ in range(2))
    assert first != second, "a key tells nothing about short words"
    assert b"same words" == ledger.part(None, "passage", first)
    assert "conversation_not_found" == fault(lambda: ledger.put_part("c9", "passage", b""))
    assert "invalid-input" == fault(lambda: ledger.put_part(CHAT, "two words", b""))


IDS = st.text("abc019._:-", min_size=1, max_size=6)
RUNS = st.builds(
    Run, turn_ids=st.lists(IDS, max_size=3).map(tuple), source_ids=st.lists(IDS, max_size=3).map(tuple),
    source_versions=st.lists(st.integers(1, 9), max_size=3).map(tuple), covers_from=st.integers(0, 99),
    covers_to=st.integers(0, 99), through_sequence=st.integers(0, 99), source_fingerprint=IDS,
    protected_fingerprint=IDS, skipped=st.lists(st.builds(Removal, IDS, IDS), max_size=2).map(tuple),
)  # fmt: skip
PLANS = st.builds(
    CompactionPlan, IDS, IDS, IDS, st.integers(1, 9), st.integers(0, 9), IDS, IDS,
    st.lists(RUNS, max_size=3).map(tuple), st.lists(IDS, max_size=3).map(tuple), event=st.integers(0, 9),
)  # fmt: skip


@given(PLANS)
def test_a_plan_survives_its_json(plan: CompactionPlan) -> None:
    """decode(encode(x)) == x, and the spelling is that of the wire."""
    assert plan == decode(CompactionPlan, encode(plan), "test")
    assert json.loads(dump_record(plan)) == {**json.loads(encode(plan)), "schemaVersion": "1.0"}


def test_a_summary_survives_its_json(ledger: Ledger) -> None:
    """The same holds for a summary with every kind of field; damage is named and nothing else of it."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    assert record == decode(SummaryRecord, encode(record), "test")
    assert json.loads(dump_record(record)) == {**json.loads(encode(record)), "schemaVersion": "1.0"}
    for text in ("", "[]", "{}", encode(record).replace('"coversFrom":0', '"coversFrom":"0"'), '{"secret": 1}'):
        assert "ledger_corrupt" == fault(lambda text=text: decode(SummaryRecord, text, "test"))  # type: ignore[misc]


@given(st.dictionaries(st.text(max_size=9), st.one_of(st.text(max_size=9), st.integers(), st.floats(), st.booleans())))
def test_diagnostics_hold_ids_and_numbers_only(found: dict[str, object]) -> None:
    """R188: whatever is handed over, nothing that has a space or another character of a sentence is kept."""
    kept = json.loads(text_free(found) or "{}")
    words = [*kept, *(value for value in kept.values() if isinstance(value, str))]
    assert [] == [word for word in words if not word.isascii() or any(char.isspace() for char in word)]
    assert len(found) == len(kept) - ("leftOut" in kept) + kept.get("leftOut", 0) or "leftOut" in found
