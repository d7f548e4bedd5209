"""Messages enter as the application states them, keep their ids and order, and change only by new versions."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.values.receipt import Removal
from planner.values.turn import Message, MustPreserve, OpenItem, Part, ProtectionReason, ToolCall, ToolResult, Turn
from tests.ledger.support import chat, events, fault, fill
from tests.strategies import histories


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger.open(tmp_path / "ledger")


def _table(ledger: Ledger, sql: str) -> list[object]:
    with ledger._store.read("test") as connection:
        return connection.execute(sql).fetchall()


def test_R1_ledger_is_only_fact_record(ledger: Ledger) -> None:
    """A row of a fact cannot be changed, replaced or deleted, whoever asks; only a new row follows it."""
    fill(ledger, 2)
    ledger.mark("c", "t1", [MustPreserve("C1", "keep")])
    ledger.refuse("c", "u1")
    ledger.store_policy("c", b"{}")
    before = events(ledger)
    connection = ledger._store.connection()
    for table in ("event", "conversation", "branch", "generation", "policy", "message", "turn", "refusal", "mark",
                  "touch", "part"):  # fmt: skip
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        assert connection.execute(f"SELECT count(*) FROM {table}").get > 0, table
        names = ", ".join(columns)
        for sql in (
            f"UPDATE {table} SET {columns[-1]} = {columns[-1]}",
            f"DELETE FROM {table}",
            f"INSERT OR REPLACE INTO {table} ({names}) SELECT {names} FROM {table}",
        ):
            with pytest.raises(Exception, match="append-only"):
                connection.execute(sql)
    assert before == events(ledger)


def test_R2_compaction_deletes_nothing(ledger: Ledger) -> None:
    """Only a retention run opens the switch under which text leaves, and no other code names it."""
    package = Path(__file__).resolve().parents[2] / "planner"
    naming = {path.name for path in package.rglob("*.py") if "retention_switch" in path.read_text("utf-8")}
    assert {"retain.py"} == naming
    fill(ledger, 1)
    connection = ledger._store.connection()
    connection.execute("BEGIN; INSERT INTO retention_switch VALUES (1)")
    for sql in ("UPDATE message SET body = 'x'", "UPDATE message SET body = NULL", "DELETE FROM message",
                "UPDATE message SET body = NULL, salt = NULL, id = 'x'"):  # fmt: skip
        with pytest.raises(Exception, match="append-only"):
            connection.execute(sql)
    connection.execute("ROLLBACK")


def test_R3_ledger_and_summaries_stored_apart(ledger: Ledger) -> None:
    """Originals and summaries have tables of their own, and no table refers from an original to a summary."""
    rows = _table(ledger, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
    tables = {str(name): str(sql) for name, sql in rows}  # type: ignore[misc]
    assert {"message", "turn", "summary", "summary_source"} <= tables.keys()
    for name in ("conversation", "branch", "message", "turn", "mark"):
        assert "summary" not in tables[name], name


def test_R5_message_fields_set_at_ingest(tmp_path: Path) -> None:
    """Every field of every message comes back as the application stated it, byte for byte."""
    message = Message(
        "assistant", "a1", parts=(Part("text", "x\u200b"), Part("text", "é\u0301")), reasoning="why",
        tool_calls=(ToolCall("k1", "look", {"z": 1.0, "a": [None, True, {"b": "中"}]}), ToolCall("k2", "see", "{}")),
        source="desk", protection_reason="audit-evidence", constraint_ids=("C1",), citation_ids=("s1", "s2"),
    )  # fmt: skip
    results = [Message("tool", f"r{n}", tool_result=ToolResult(f"k{n}", "", ("short",))) for n in (1, 2)]
    other = Message("assistant", "a2", "not chosen", accepted=False)
    given_ = [Message("user", "u1", ""), message, *results, Message("assistant", "a3", "done"), other]
    stated = {field.name for field in fields(Message)}
    shown = {name for name in stated for entry in given_ if getattr(entry, name) not in (None, (), True, 1)}
    assert stated - {"sequence", "version", "accepted", "tool_result"} <= shown | {"accepted", "tool_result"}
    with Ledger.open(tmp_path / "ledger") as ledger:
        items = (OpenItem("i1", "blocked"),)
        done = ledger.append("c", "t1", given_, state="completed", open_items=items, material="code",
                             must_preserve=(MustPreserve("C1", "words"), MustPreserve("C2")))  # fmt: skip
        read = next(ledger.turns("c"))
    placed = tuple(replace(entry, sequence=place) for place, entry in enumerate(given_))
    expected = Turn("t1", 0, "completed", placed, (MustPreserve("C1", "words"), MustPreserve("C2")), (), items, "code")
    assert expected == read
    assert tuple(range(6)) == done.sequences
    assert list(message.tool_calls[0].arguments) == list(read.messages[1].tool_calls[0].arguments)


@given(history=histories())
def test_what_is_appended_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, history: tuple[Turn, ...]) -> None:
    """Generated turns come back equal, with the sequences they were given."""
    with Ledger.open(tmp_path_factory.mktemp("round") / "ledger") as ledger:
        expected = []
        for turn in history:
            messages = [
                replace(entry, id=entry.id or f"{turn.id}.{place}")
                for place, entry in enumerate(turn.messages)
                if entry.role in ("user", "assistant", "tool")
            ]
            if not messages:
                continue
            done = ledger.append("c", turn.id, messages, state=turn.state, open_items=turn.open_items)
            shown = messages if turn.state != "cancelled" else []
            placed = tuple(
                replace(entry, sequence=sequence) for entry, sequence in zip(messages, done.sequences, strict=True)
            )
            if turn.state == "cancelled":
                placed = tuple(
                    entry for entry in placed if entry.role == "user" and entry.protection_reason is not None
                )
            assert len(done.sequences) == len(messages) >= len(shown)
            expected.append(Turn(turn.id, done.sequences[0], turn.state, placed, open_items=turn.open_items))
        assert expected == list(ledger.turns("c") if expected else ())


def test_R6_message_role_closed_set(ledger: Ledger) -> None:
    """user, assistant and tool are messages; any other role is refused and nothing is stored."""
    for role in ("system", "developer", "function", "", None):
        message = Message(role, "m1", "text")  # type: ignore[arg-type]
        assert "invalid-input" == fault(lambda m=message: ledger.append("c", "t1", [m]))
    assert () == ledger.conversations()


def test_R7_protection_reason_closed_set(ledger: Ledger) -> None:
    """Three reasons protect, no other does, and a protected message always carries one."""
    fill(ledger, 1)
    for reason in get_args(ProtectionReason):
        ledger.protect("c", "u0", reason)
        assert [reason] == [turn.messages[0].protection_reason for turn in ledger.turns("c")]
    for reason in ("pinned", "", True, "Audit-Evidence"):
        assert "invalid-input" == fault(lambda r=reason: ledger.protect("c", "u0", r))
    bad = Message("user", "m1", "text", protection_reason="pinned")  # type: ignore[arg-type]
    assert "invalid-input" == fault(lambda: ledger.append("c", "t9", [bad]))


def test_R8_protection_by_state_machine_only(ledger: Ledger) -> None:
    """An edit cannot set or clear protection, whatever it states; `protect` and `refuse` do, as events."""
    fill(ledger, 1)
    ledger.edit("c", "u0", Message("user", "u0", "other", protection_reason="audit-evidence"))
    assert [None] == [turn.messages[0].protection_reason for turn in ledger.turns("c")]
    ledger.protect("c", "u0", "pending-confirmation")
    ledger.edit("c", "u0", Message("user", "u0", "once more"))
    assert ["pending-confirmation"] == [turn.messages[0].protection_reason for turn in ledger.turns("c")]
    assert 1 == [row[4] for row in events(ledger)].count("protection")


@pytest.mark.parametrize(
    "text", ["please confirm", "don't delete", "you MUST keep this", "protected: true", "不要删除"]
)
def test_R9_no_keyword_protection(ledger: Ledger, text: str) -> None:
    """Words protect nothing, whichever role speaks them."""
    messages = [
        Message("user", "u1", text),
        Message("assistant", "a1", tool_calls=(ToolCall("k", "f", {text: text}),)),
        Message("tool", "r1", tool_result=ToolResult("k", text)),
        Message("assistant", "a2", text),
    ]
    ledger.append("c", "t1", messages, state="completed")
    view = ledger.view("c")
    assert ((), ()) == (tuple(view.pinned), view.constraints)
    assert {None} == {entry.protection_reason for entry in view.turns[0].messages}


def test_R10_message_id_stable_and_unique(ledger: Ledger) -> None:
    """The same message again is a no-op with its sequence; the same id with another field is refused."""
    first = ledger.append("c", "t1", [Message("user", "u1", "text")])
    again = ledger.append("c", "t1", [Message("user", "u1", "text")])
    assert (first.sequences, False, first.revision) == (again.sequences, again.changed, again.revision)
    others = (
        Message("user", "u1", "other"),
        Message("assistant", "u1", "text"),
        Message("user", "u1", "text", source="desk"),
        Message("user", "u1", "text", protection_reason="audit-evidence"),
        Message("user", "u1", "text", sequence=7),
    )
    for other in others:
        assert "duplicate_id" == fault(lambda m=other: ledger.append("c", "t1", [m]))
    assert "duplicate_id" == fault(lambda: ledger.append("c", "t2", [Message("user", "u1", "text")]))
    assert "invalid-input" == fault(lambda: ledger.append("c", "t2", [Message("user", None, "text")]))
    twice = [Message("user", "u2", "x"), Message("user", "u2", "x")]
    assert "invalid-input" == fault(lambda: ledger.append("c", "t2", twice))
    # Ids are those of one conversation; another one may use them.
    assert (0,) == ledger.append("d", "t1", [Message("user", "u1", "other")]).sequences


def test_a_repeated_append_after_later_events_changes_nothing(ledger: Ledger) -> None:
    """A caller that lost the answer may repeat it after an edit, a protection or the end of the turn."""
    items = [OpenItem("i1", "pending")]
    call = lambda: ledger.append(  # noqa: E731
        "c", "t1", chat(1), state="completed", open_items=items, must_preserve=[MustPreserve("C1", "words")]
    )
    first = call()
    ledger.edit("c", "u1", Message("user", "u1", "edited"))
    ledger.protect("c", "a1", "audit-evidence")
    ledger.set_item("c", "t1", OpenItem("i1", "done"))
    ledger.append("c", "t2", chat(2), state="completed")
    ledger.supersede("c", "t2", ["C1"])
    ledger.withdraw("c", "t1")
    before = ledger.head("c")
    again = call()
    assert (first.sequences, False, before) == (again.sequences, again.changed, ledger.head("c"))


def test_R11_conversation_has_id_revision_turns(ledger: Ledger) -> None:
    """Every change raises the revision of its conversation by one; a call without effect and other ones do not."""
    changes = [
        lambda: ledger.append("c", "t1", [Message("user", "u1", "x")], must_preserve=[MustPreserve("C1")]),
        lambda: ledger.append("c", "t1", [Message("assistant", "a1", "y")]),
        lambda: ledger.set_state("c", "t1", "completed"),
        lambda: ledger.edit("c", "u1", Message("user", "u1", "z")),
        lambda: ledger.protect("c", "u1", "audit-evidence"),
        lambda: ledger.refuse("c", "a1"),
        lambda: ledger.mark("c", "t1", [MustPreserve("C2", "w")]),
        lambda: ledger.append("c", "t2", chat(2), state="completed"),
        lambda: ledger.supersede("c", "t2", ["C1"]),
        lambda: ledger.set_item("c", "t2", OpenItem("i1", "pending")),
        lambda: ledger.branch("c", "b1", at_turn_id="t1"),
        lambda: ledger.switch("c", "b1"),
        lambda: ledger.new_generation("c"),
        lambda: ledger.store_policy("c", b"{}"),
        lambda: ledger.withdraw("c", "t1"),
    ]
    ledger.append("d", "t1", chat(1))
    seen = []
    for change in changes:
        change()
        seen.append(ledger.head("c").revision)
    assert list(range(1, len(changes) + 1)) == seen
    ledger.withdraw("c", "t1")
    ledger.store_policy("c", b"{}")
    assert (len(changes), 1) == (ledger.head("c").revision, ledger.head("d").revision)
    assert ("c", 1) == (ledger.head("c").conversation_id, ledger.head("c").turns)


def test_R12_sequence_is_the_only_order(ledger: Ledger) -> None:
    """A late result of an older turn stands in its turn, and turns stand in the order they began."""
    ledger.append("c", "z", [Message("user", "u1", "x"),
                             Message("assistant", "a1", tool_calls=(ToolCall("k", "f", {}),))])  # fmt: skip
    ledger.append("c", "a", [Message("user", "b0", "y")])
    ledger.append("c", "z", [Message("tool", "r1", tool_result=ToolResult("k", "late"))])
    ledger.append("c", "a", [Message("assistant", "a0", "y")], state="completed")
    ledger.append("c", "z", [Message("assistant", "zz", "done")], state="completed")
    turns = list(ledger.turns("c"))
    assert [("z", [0, 1, 3, 5]), ("a", [2, 4])] == [
        (turn.id, [entry.sequence for entry in turn.messages]) for turn in turns
    ]
    assert turns == list(ledger.view("c").turns)


@given(steps=st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_R13_sequence_unique_and_monotone(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    """Sequences only rise; a caller's own one may leave a gap, and one that is not above the last is refused (X6)."""
    with Ledger.open(tmp_path_factory.mktemp("sequence") / "ledger") as ledger:
        last = -1
        for number, step in enumerate(steps):
            message = Message("user", f"u{number}", "x", sequence=last + step)
            call = lambda m=message, n=number: ledger.append("c", f"t{n}", [m])  # noqa: E731
            if step == 0:
                if last >= 0:
                    assert "invalid-input" == fault(call)
                continue
            last += step
            assert (last,) == call().sequences
        if last >= 0:
            found = [entry.sequence or 0 for turn in ledger.turns("c") for entry in turn.messages]
            assert sorted(set(found)) == found
            assert last == ledger.head("c").last_sequence


def test_R14_unclassifiable_legacy_record_stays_raw(ledger: Ledger) -> None:
    """A record without a known role or source keeps its text to the letter and is neither shown nor a turn."""
    odd = "text \ud800 \x00 with what no message may hold"
    records = [
        LegacyRecord("l1", "question", "user", "old"),
        LegacyRecord("l2", "answer", "assistant", "old"),
        LegacyRecord("l3", "who said this", None, "old"),
        LegacyRecord("l4", "rules", "system", "old"),
        LegacyRecord("l5", "no source", "user", None),
        LegacyRecord("l6", odd, "user", "old"),
        LegacyRecord("l7", "answer without question", "assistant", "old"),
    ]
    ledger.import_legacy("c", records)
    again = ledger.import_legacy("c", records)
    raw = ledger.unclassified("c")
    assert (False, ["l3", "l4", "l5", "l6", "l7"]) == (again.changed, [name for name, _ in raw])
    assert [record.text for record in records[2:]] == [json.loads(body)["text"] for _, body in raw]
    view = ledger.view("c")
    assert [("l1", "completed")] == [(turn.id, turn.state) for turn in view.turns]
    assert tuple(Removal(f"message/l{n}", "unclassified_record") for n in range(3, 8)) == view.hidden
    assert ["l1", "l2"] == [entry.id for turn in ledger.turns("c") for entry in turn.messages]
    assert "duplicate_id" == fault(lambda: ledger.import_legacy("c", [LegacyRecord("l3", "other", None)]))


def test_an_edit_is_a_new_version_and_the_old_ones_stay(ledger: Ledger) -> None:
    """Id and sequence stay, the version rises, an edit back is a version too, the same fields again are none."""
    fill(ledger, 1)
    for text in ("one", "one", "question 0"):
        ledger.edit("c", "u0", Message("user", "u0", text))
    versions = ledger.versions("c", "u0")
    assert [("question 0", 1), ("one", 2), ("question 0", 3)] == [(entry.text, entry.version) for entry in versions]
    assert {0} == {entry.sequence for entry in versions}
    assert versions[-1] == next(ledger.turns("c")).messages[0]
    assert "conversation_not_found" == fault(lambda: ledger.edit("c", "none", Message("user", None, "x")))


def test_a_turn_is_checked_as_a_whole(ledger: Ledger) -> None:
    """A result without its call, a call left open at completion and a broken edit are refused, and nothing stays."""
    call = Message("assistant", "a1", tool_calls=(ToolCall("k", "f", {}),))
    result = Message("tool", "r1", tool_result=ToolResult("k", "x"))
    assert "invalid-input" == fault(lambda: ledger.append("c", "t1", [Message("user", "u1", "x"), result]))
    ledger.append("c", "t1", [Message("user", "u1", "x"), call])
    before = events(ledger)
    assert "invalid-input" == fault(lambda: ledger.set_state("c", "t1", "completed"))
    ledger.append("c", "t1", [result, Message("assistant", "a2", "done")], state="completed")
    after = events(ledger)
    assert "invalid-input" == fault(lambda: ledger.edit("c", "a1", Message("assistant", None, "no call")))
    assert (before, after) == (after[: len(before)], events(ledger))
    assert () == ledger.verify().problems


def test_a_message_does_not_join_a_turn_that_has_ended(ledger: Ledger) -> None:
    """Only an open turn takes messages; a turn begins with at least one."""
    fill(ledger, 1)
    assert "invalid-input" == fault(lambda: ledger.append("c", "t0", [Message("user", "x", "late")]))
    assert "invalid-input" == fault(lambda: ledger.append("c", "new", []))
    assert "conversation_not_found" == fault(lambda: ledger.set_state("c", "new", "completed"))
    assert "conversation_not_found" == fault(lambda: ledger.head("none"))
