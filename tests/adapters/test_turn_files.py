"""Histories in every shape that is read: what comes out, what is refused and with which place."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from planner.adapters.turn_files import LIMIT_BYTES, grouped, read_history, read_records
from planner.values.reasons import RefusalSignal
from planner.values.turn import Message, Turn

CANARY = "canary-7f3a"
CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": f"{CANARY} one?"},
    {"role": "assistant", "content": "One."},
    {"role": "user", "content": "And two?"},
]
TURNS = [
    {"id": "a", "sequence": 3, "state": "completed",
     "messages": [{"role": "user", "text": "One?"}, {"role": "assistant", "id": "own", "text": "One."}]},
    {"id": "b", "sequence": 7, "state": "open", "messages": [{"role": "user", "text": "Two?"}]},
]  # fmt: skip
AS_TURNS = [
    Turn("a", 3, "completed", (
        Message("user", "m1", "One?", sequence=3), Message("assistant", "own", "One.", sequence=4),
    )),
    Turn("b", 7, "open", (Message("user", "m3", "Two?", sequence=7),)),
]  # fmt: skip


def _lines(trees: list[Any]) -> bytes:
    return b"".join(json.dumps(tree).encode() + b"\n" for tree in trees)


def _read(data: bytes | list[Any] | dict[str, Any]) -> list[Turn]:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return [incoming.turn for incoming in read_history(io.BytesIO(raw)).turns]


def _refusal(data: bytes | list[Any] | dict[str, Any]) -> str:
    with pytest.raises(RefusalSignal) as caught:
        _read(data)
    return f"{caught.value.reason}: {caught.value.detail}"


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(TURNS).encode(),
        json.dumps(TURNS[::-1], indent=1).encode(),
        json.dumps({"turns": TURNS}).encode(),
        json.dumps({"modelBundleId": "reference", "turns": TURNS}, indent=2).encode(),
        _lines(TURNS),
        b"\n" + _lines(TURNS).replace(b"\n", b"\r\n") + b"\n",
        _lines(TURNS)[:-1],
    ],
    ids=["list", "list_out_of_order", "turns_alone", "request", "lines", "blank_lines", "no_last_newline"],
)
def test_our_turns_are_read_in_every_shape(data: bytes) -> None:
    """A list, a request and lines of turns hold the same turns; what has no id is named by its place."""
    assert AS_TURNS == _read(data)


def test_one_turn_on_one_line_is_a_turn() -> None:
    """A turn has `messages` as a chat body has, and is told from it by its sequence."""
    assert [Turn("b", 7, "open", (Message("user", "m1", "Two?", sequence=7),))] == _read(TURNS[1])


@pytest.mark.parametrize("data", [json.dumps(CHAT).encode(), json.dumps({"messages": CHAT}).encode(), _lines(CHAT)])
def test_a_chat_becomes_turns_and_a_policy(data: bytes) -> None:
    """Leading instructions are the policy, ids and sequences are places, the last question is open (design.md §2)."""
    history = read_history(io.BytesIO(data))
    assert [("t1", 2, "completed", ("m2", "m3")), ("t2", 4, "open", ("m4",))] == [
        (turn.id, turn.sequence, turn.state, tuple(message.id for message in turn.messages))
        for turn in (incoming.turn for incoming in history.turns)
    ]
    assert history.frame is not None
    assert [("p1", "Be short.")] == [(item.id, item.text) for item in history.frame.request.policy]


def test_a_chat_that_ends_with_an_answer_is_completed() -> None:
    """An answered list has no open turn, and one that waits for a tool has."""
    assert ["completed"] == [turn.state for turn in _read(CHAT[:3])]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    waiting = [*CHAT[:2], {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert ["open"] == [turn.state for turn in _read(waiting)]
    assert ["open"] == [
        turn.state for turn in _read([*waiting, {"role": "tool", "tool_call_id": "c1", "content": "x"}])
    ]


def test_a_longer_list_of_the_same_chat_keeps_its_ids() -> None:
    """Importing again after the chat has grown adds what is new: every id stays what it was."""
    longer = _read([*CHAT, {"role": "assistant", "content": "Two."}, {"role": "user", "content": "Three?"}])
    shorter = _read(CHAT)
    assert shorter[0] == longer[0]
    assert shorter[1].messages == longer[1].messages[:1]


def test_the_policy_of_a_chat_has_a_version_of_its_own() -> None:
    """Another policy is another version without anybody counting (X13); the same one is the same."""

    def version(text: str) -> str:
        chat = [{"role": "system", "content": text}, *CHAT[1:]]
        frame = read_history(io.BytesIO(json.dumps(chat).encode())).frame
        assert frame is not None
        return frame.request.policy_version

    assert version("Be short.") == version("Be short.")
    assert version("Be short.") != version("Be long.")


def test_lines_are_read_one_by_one() -> None:
    """A file of turns of any length is never in memory as a whole: a turn comes before the next line is read."""
    stream = io.BytesIO(_lines(TURNS))
    turns = read_history(stream).turns
    next(turns)
    assert len(_lines(TURNS[:1])) == stream.tell()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "$: holds nothing"),
        (b"\n \n", "$: holds nothing"),
        (CANARY.encode(), "$: is not JSON at character 0"),
        (_lines(TURNS[:1]) + b'{"id": "' + CANARY.encode(), "line 2: $: is not JSON at character 7"),
        (_lines([TURNS[0], {**TURNS[1], "state": CANARY}]), "line 2: $.state: is not one of the allowed values"),
        (_lines([TURNS[0], {**TURNS[1], CANARY: 1}]), "line 2: $: has an unknown field"),
        (
            _lines([TURNS[0], {**TURNS[1], "schemaVersion": "9.0"}]),
            "line 2: $.schemaVersion: is a major version this build does not read",
        ),
        ([TURNS[0], {**TURNS[1], "state": "completed", "messages": []}], "$[1].messages: is empty"),
        ({"turns": [TURNS[0], {**TURNS[1], "id": CANARY + " "}]}, "$.turns[1].id: expected 1 to 128 characters out of"),
        ({"turns": TURNS, CANARY: 1}, "$: has an unknown field"),
        (_lines([CHAT[1], {"role": CANARY, "content": CANARY}]), "line 2: $.role: is not one of system, developer"),
        (_lines([CHAT[1], {"role": "user", "content": 7}]), "line 2: $.content: expected a string, null or a list"),
        ([CHAT[1], {"role": "user", "content": 7}], "$.messages[1].content: expected a string, null or a list"),
        ([CHAT[0]], "$.messages: no user message"),
        (b" " * 10 + b"[" * LIMIT_BYTES, f"$: is larger than {LIMIT_BYTES} bytes; lines of turns may be more"),
        (_lines(TURNS[:1]) + b" " * LIMIT_BYTES + b"{}", f"line 2: is longer than {LIMIT_BYTES} bytes"),
    ],
)
def test_what_is_wrong_is_refused_by_its_place(data: Any, line: str) -> None:
    """A line number or a JSON path says where; no word of the file comes back (R188)."""
    found = _refusal(data)
    assert found.partition(": ")[2].startswith(line)
    assert CANARY not in found


def test_old_records_are_read_to_the_letter() -> None:
    """Unknown roles and sources, absent ids and text that no message may hold all pass (R14)."""
    trees = [{"role": "oracle", "text": "a\ud800b\x00"}, {"id": "x", "role": None, "source": "s", "text": ""}]
    found = [(one.where, one.record.id, one.record.role, one.record.text)
             for one in read_records(io.BytesIO(_lines(trees)))]  # fmt: skip
    assert [("line 1", "r1", "oracle", "a\ud800b\x00"), ("line 2", "x", None, "")] == found
    listed = [one.record for one in read_records(io.BytesIO(json.dumps(trees).encode()))]
    assert [one.record for one in read_records(io.BytesIO(_lines(trees)))] == listed


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (7, "line 1: $: expected an object"),
        ({"text": 7}, "line 1: $.text: expected a string"),
        ({"text": "x", "role": 7}, "line 1: $.role: expected a string or null"),
        ({"text": "x", CANARY: 7}, "line 1: $: has 1 fields a record does not know"),
        ({"text": "x", "id": CANARY + " "}, "line 1: $.id: expected 1 to 128 characters"),
    ],
)
def test_a_record_of_another_form_is_refused(tree: Any, line: str) -> None:
    """What would be lost silently is refused; so is what cannot be named."""
    # A number alone is a document, so the wrong record stands behind a right one.
    given = _lines([{"text": "first"}, tree])
    with pytest.raises(RefusalSignal) as caught:
        list(read_records(io.BytesIO(given)))
    assert caught.value.detail.startswith(line.replace("line 1", "line 2"))
    assert CANARY not in str(caught.value)


def test_a_question_is_stored_with_its_answers() -> None:
    """A group is what becomes one turn; a record that is neither stands alone."""
    roles = ["user", "assistant", "assistant", "user", None, "assistant", "user"]
    trees = [{"id": f"r{at}", "role": role, "source": "s", "text": "x"} for at, role in enumerate(roles)]
    groups = [[one.record.id for one in group] for group in grouped(read_records(io.BytesIO(_lines(trees))))]
    assert [["r0", "r1", "r2"], ["r3"], ["r4", "r5"], ["r6"]] == groups
