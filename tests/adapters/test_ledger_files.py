"""Histories into a ledger and out again: the same turns, one transaction each, repeatable after any end."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adapters.frames import dump_frame, frame_of, read_frame, stored_frame
from planner.adapters.ledger_files import export_turns, import_history, import_records
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.passage import Passage
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.request import PlanRequest, TextItem
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from planner.wire.parse import parse_request
from tests.adapters.histories import lines, plain
from tests.cli.support import CHAT, REQUEST

CANARY = "canary-7f3a"


@st.composite
def _interleaved(draw: st.DrawFn) -> list[Turn]:
    """Turns whose messages have any sequences, with marks: late results interleave them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    places = draw(st.permutations(range(sum(sizes))))
    gap = draw(st.integers(1, 3))
    turns, at = [], 0
    for number, size in enumerate(sizes):
        own = sorted(places[at : at + size])
        at += size
        messages = tuple(
            Message(
                "assistant" if place else "user",
                f"m{number}.{place}",
                f"text {number} {place}",
                sequence=gap * sequence,
            )
            for place, sequence in enumerate(own)
        )
        turns.append(
            Turn(
                "",
                gap * own[0],
                draw(st.sampled_from(("completed", "open", "superseded"))),
                messages,
                must_preserve=(MustPreserve(f"k{number}", "keep"),) if draw(st.booleans()) else (),
                open_items=(OpenItem(f"i{number}", "pending"),) if draw(st.booleans()) else (),
                material=draw(st.sampled_from((None, "chat", "code"))),
            )
        )
    return [replace(turn, id=f"t{at}") for at, turn in enumerate(sorted(turns, key=lambda turn: turn.sequence))]


@given(turns=_interleaved())
def test_import_of_an_export_is_the_same_conversation(turns: list[Turn]) -> None:
    """import(export) == import == the turns of the file, whatever stands between their messages; twice is once."""
    with TemporaryDirectory() as folder, Ledger.open(f"{folder}/a") as first, Ledger.open(f"{folder}/b") as second:
        import_history(first, "c1", lines(turns))
        assert turns == list(first.turns("c1"))
        exported = b"".join(export_turns(first, "c1"))
        import_history(second, "c1", io.BytesIO(exported))
        again = import_history(second, "c1", io.BytesIO(exported))
        assert turns == list(second.turns("c1"))
        assert (len(turns), len(turns)) == (again.turns, again.known)
        assert exported == b"".join(export_turns(second, "c1"))
        assert first.view("c1").chain == second.view("c1").chain


def test_a_plan_from_an_import_is_the_plan_of_the_file(tmp_path: Path) -> None:
    """The demo's request planned from the ledger has the ids of the same request with its turns on the wire."""
    request = parse_request(REQUEST.read_bytes())
    with Ledger.open(tmp_path / "chat.db") as ledger:
        with REQUEST.open("rb") as stream:
            import_history(ledger, "c1", stream)
        frame = stored_frame(ledger, "c1")
        assert frame is not None
        planner = Planner("reference")
        asked = replace(frame.request, model_bundle_id="reference", request=request.request)
        warm = planner.ledger_conversation(ledger, "c1").plan(asked, record=False)
    cold = planner.plan(replace(request, model_bundle_id="reference"))
    assert cold.accepted
    assert getattr(cold, "ids", 0) == getattr(warm, "ids", 1)


class _End(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["before_begin", "after_message", "before_commit", "after_commit", "before_ack"])
def test_an_import_that_ended_anywhere_is_repeated_as_a_whole(tmp_path: Path, step: str) -> None:
    """R4, R11: whole turns up to the end are there, none twice; the repeated run gives what one run gives."""
    turns = plain(6)
    for countdown in range(1, 9):
        path = tmp_path / f"{step}-{countdown}"
        left = [countdown]

        def fail(name: str, left: list[int] = left) -> None:
            left[0] -= name == step
            if name == step and left[0] == 0:
                raise _End

        ended = False
        with Ledger.open(path, failpoint=fail) as ledger:
            try:
                import_history(ledger, "c1", lines(turns))
            except _End:
                ended = True
        with Ledger.open(path) as ledger:
            there = list(ledger.turns("c1")) if ledger.conversations() else []
            assert there == turns[: len(there)]
            import_history(ledger, "c1", lines(turns))
            assert turns == list(ledger.turns("c1"))
            assert ledger.verify().sound
        assert ended or countdown > 7


def test_a_grown_file_adds_what_is_new(tmp_path: Path) -> None:
    """The open turn gets its answer, new turns follow, and nothing is there twice."""
    chat = json.loads(CHAT.read_bytes())
    grown = [*chat, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Next?"}]
    with Ledger.open(tmp_path / "chat.db") as ledger:
        before = import_history(ledger, "c1", io.BytesIO(json.dumps(chat).encode()))
        after = import_history(ledger, "c1", io.BytesIO(json.dumps(grown).encode()))
        assert (before.turns + 1, before.turns - 1) == (after.turns, after.known)
        assert ["completed", "open"] == [turn.state for turn in ledger.turns("c1")][-2:]


def test_what_differs_from_the_ledger_is_refused_with_its_line(tmp_path: Path) -> None:
    """R11: another text under a known id changes nothing, and the line says where; the turns before it stay."""
    turns = plain(4)
    changed = replace(turns[2], messages=(replace(turns[2].messages[0], text=CANARY), turns[2].messages[1]))
    with Ledger.open(tmp_path / "chat.db") as ledger:
        import_history(ledger, "c1", lines(turns[:3]))
        with pytest.raises(PlannerFault) as caught:
            import_history(ledger, "c1", lines([turns[0], turns[1], changed, turns[3]]))
        assert "duplicate_id: line 3: $.messages[0].id is used with other fields" == str(caught.value)
        assert turns[:3] == list(ledger.turns("c1"))


def test_a_turn_behind_the_conversation_is_refused(tmp_path: Path) -> None:
    """A file of another conversation does not slip between the turns of this one."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        import_history(ledger, "c1", lines(plain(3, first=5)))
        with pytest.raises(RefusalSignal) as caught:
            import_history(ledger, "c1", lines(plain(1)))
    assert "line 1: $.messages[0].sequence: is not above the conversation's last sequence" == caught.value.detail


def test_unclassifiable_records_stay_raw(tmp_path: Path) -> None:
    """R14 through a file: records of unknown role or source are kept to the letter and never become a turn."""
    trees = [
        {"id": "q", "role": "user", "source": "app", "text": "Question?"},
        {"id": "a", "role": "assistant", "source": "app", "text": "Answer."},
        {"id": "z", "role": "oracle", "source": "app", "text": "raw \ud800"},
        {"id": "n", "role": "user", "text": "no source"},
    ]
    data = b"".join(json.dumps(tree).encode() + b"\n" for tree in trees)
    with Ledger.open(tmp_path / "chat.db") as ledger:
        done = import_records(ledger, "c1", io.BytesIO(data))
        again = import_records(ledger, "c1", io.BytesIO(data))
        assert (4, 2, 0) == (done.records, done.raw, done.known)
        assert (4, 2, 4) == (again.records, again.raw, again.known)
        assert ["q"] == [turn.id for turn in ledger.turns("c1")]
        assert ["z", "n"] == [name for name, _ in ledger.unclassified("c1")]
        assert "raw \ud800" == json.loads(ledger.unclassified("c1")[0][1])["text"]


def test_a_frame_holds_nothing_of_one_call() -> None:
    """What is stored beside a conversation is policy, tools and settings; question, history and evidence stay out."""
    request = parse_request(REQUEST.read_bytes())
    frame = frame_of(replace(request, passages=(Passage("x", "t"),), generation=7))
    assert ((), (), None, 1) == (frame.request.turns, frame.request.passages, frame.request.request.text,
                                 frame.request.generation)  # fmt: skip
    assert (request.policy, request.tools) == (frame.request.policy, frame.request.tools)


@pytest.mark.parametrize("names_bundle", [True, False])
def test_a_frame_reads_back(names_bundle: bool) -> None:
    """read(dump(frame)) == frame, with and without a bundle in it."""
    frame = frame_of(PlanRequest("reference", policy=(TextItem("p", "x"),), policy_version="v7"))
    frame = replace(frame, names_bundle=names_bundle)
    read = read_frame(dump_frame(frame))
    assert names_bundle == read.names_bundle
    assert frame.request == replace(read.request, model_bundle_id="reference")


def test_a_policy_that_an_application_stored_has_a_version(tmp_path: Path) -> None:
    """Its words are the version, as if an import had stored it: plans and compaction then mean the same policy."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        ledger.append("c1", "t", [Message("user", "u", "Hello.")])
        ledger.store_policy("c1", b'{"policy":[{"id":"p","text":"x"}]}')
        stored = stored_frame(ledger, "c1")
        assert stored is not None
        wanted = frame_of(PlanRequest("unnamed", policy=(TextItem("p", "x"),)), names_bundle=False)
        assert wanted.request.policy_version == stored.request.policy_version


def test_a_stored_policy_outlives_an_import_without_one(tmp_path: Path) -> None:
    """Turns alone store an empty frame once, so that a version is there; a stored policy is never lost to them."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        assert import_history(ledger, "c1", lines(plain(1))).policy_stored
        policy = frame_of(PlanRequest("reference", policy=(TextItem("p", "x"),)))
        assert import_history(ledger, "c1", lines(plain(1)), frame=policy).policy_stored
        assert not import_history(ledger, "c1", lines(plain(2))).policy_stored
        assert stored_frame(ledger, "c1") == policy
