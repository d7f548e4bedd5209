"""States, generations, branches, constraints: what an application's events do to a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from planner.ledger.ledger import Ledger
from planner.values.constraint import Constraint
from planner.values.receipt import Removal
from planner.values.turn import TRANSITIONS, Message, MustPreserve, OpenItem, ToolCall, TurnState
from tests.ledger.support import chat, events, fault, fill


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger.open(tmp_path / "ledger")


def _touches(ledger: Ledger) -> list[tuple[int, str, str]]:
    with ledger._store.read("test") as connection:
        return connection.execute("SELECT sequence, cause, causing_id FROM touch ORDER BY event, sequence").fetchall()  # type: ignore[return-value]


def test_R53_conversation_has_generation(tmp_path: Path) -> None:
    """A conversation begins with generation 1 and keeps its generation over closing, rotation and rebuild (X12)."""
    path = tmp_path / "ledger"
    with Ledger.open(path) as ledger:
        assert 1 == ledger.append("c", "t0", chat(0)).generation
        assert 2 == ledger.new_generation("c")
    for _ in range(2):
        with Ledger.open(path) as ledger:
            assert (2, 2) == (ledger.head("c").generation, ledger.view("c").generation)
    assert Ledger.open(path).verify(rebuild=True).rebuilt
    assert 2 == Ledger.open(path).head("c").generation


def test_R54_generation_bumps(ledger: Ledger) -> None:
    """A page switch, a resend and going on with a branch each begin a new generation; making a branch does not."""
    fill(ledger, 2)
    assert 2 == ledger.new_generation("c")
    assert 3 == ledger.resend("c", "t1")
    ledger.branch("c", "b1", at_turn_id="t0")
    assert 3 == ledger.head("c").generation
    assert 4 == ledger.switch("c", "b1")
    assert (4, "b1") == (ledger.head("c").generation, ledger.head("c").branch)
    assert 1 == len({"superseded"} & {turn.state for turn in ledger.turns("c", branch="main")})


def test_R55_old_generation_results_refused(ledger: Ledger) -> None:
    """Every call that states an older or a later generation is refused and leaves nothing; the present one passes."""
    fill(ledger, 2)
    ledger.append("c", "open", [Message("user", "o1", "x")])
    ledger.new_generation("c")
    before = events(ledger)
    calls = (
        lambda g: ledger.append("c", "t9", chat(9), generation=g),
        lambda g: ledger.set_state("c", "open", "superseded", generation=g),
        lambda g: ledger.cancel("c", "open", generation=g),
        lambda g: ledger.withdraw("c", "t0", generation=g),
        lambda g: ledger.edit("c", "u0", Message("user", None, "y"), generation=g),
        lambda g: ledger.protect("c", "u0", "audit-evidence", generation=g),
        lambda g: ledger.refuse("c", "u0", generation=g),
        lambda g: ledger.mark("c", "t0", [MustPreserve("C1")], generation=g),
        lambda g: ledger.supersede("c", "t1", ["C1"], generation=g),
        lambda g: ledger.set_item("c", "t0", OpenItem("i1", "done"), generation=g),
        lambda g: ledger.view("c", generation=g),
    )
    for call in calls:
        for generation in (1, 3):
            assert "stale_generation" == fault(lambda c=call, g=generation: c(g))
    assert before == events(ledger)
    assert 2 == ledger.append("c", "t9", chat(9), generation=2).generation


def test_states_move_by_the_table_and_never_back(ledger: Ledger) -> None:
    """From each state every move is tried: those of the table are done, the others refused without a trace."""
    states = get_args(TurnState)
    for number, (before, after) in enumerate((a, b) for a in states for b in states):
        turn_id = f"t{number}"
        ledger.append("c", turn_id, chat(number), state=before)
        revision = ledger.head("c").revision
        if after == before:
            assert not ledger.set_state("c", turn_id, after).changed
        elif after in TRANSITIONS[before]:
            assert revision + 1 == ledger.set_state("c", turn_id, after).revision
        else:
            assert "invalid-input" == fault(lambda t=turn_id, s=after: ledger.set_state("c", t, s))
            assert revision == ledger.head("c").revision
        expected = after if after in TRANSITIONS[before] else before
        assert expected == next(turn.state for turn in ledger.turns("c") if turn.id == turn_id)


def test_R58_cancelled_keeps_minimal_terminal_record(ledger: Ledger) -> None:
    """A cancelled turn shows id, sequence, state and what is protected; its actor is kept, its words are not shown."""
    messages = [Message("user", "u1", "question"), Message("assistant", "a1", tool_calls=(ToolCall("k", "f", {}),))]
    done = ledger.append("c", "t1", messages)
    ledger.cancel("c", "t1", actor="user:7")
    turn = next(ledger.turns("c"))
    assert ("t1", 0, "cancelled", ()) == (turn.id, turn.sequence, turn.state, turn.messages)
    view = ledger.view("c")
    assert ((), (Removal("turn/t1", "cancelled"),)) == (tuple(view.turns), view.hidden)
    assert [("open", None), ("cancelled", "user:7")] == [
        (entry.state, entry.actor) for entry in ledger.turn_versions("c", "t1")
    ]
    with ledger._store.read("test") as connection:
        assert "question" not in str(connection.execute("SELECT * FROM turn").fetchall())
    assert (0, 1) == done.sequences
    # X37: what refuses is protected, and then it is there for whoever looks at the run.
    ledger.append("c", "t2", [Message("user", "u2", "no, never")])
    ledger.refuse("c", "u2")
    ledger.cancel("c", "t2")
    assert ["u2"] == [entry.id for turn in ledger.turns("c") for entry in turn.messages]
    assert [True] == [turn.pinned for turn in ledger.turns("c") if turn.id == "t2"]


def test_R59_half_stream_never_in_memory(ledger: Ledger) -> None:
    """A stream that is cut leaves an open turn without an answer; cancelled or resent, no later read shows a word."""
    ledger.append("c", "t1", [Message("user", "u1", "x")])
    assert ["u1"] == [entry.id for turn in ledger.view("c").turns for entry in turn.messages]
    ledger.cancel("c", "t1")
    # The answer arrives after all: there is no turn that takes it.
    late = Message("assistant", "a1", "half an ans")
    assert "invalid-input" == fault(lambda: ledger.append("c", "t1", [late]))
    ledger.append("c", "t2", [Message("user", "u2", "again"), Message("assistant", "a2", "whole")], state="completed")
    with ledger._store.read("test") as connection:
        assert 0 == connection.execute("SELECT count(*) FROM message WHERE instr(body, 'half')").get
    assert ["u2", "a2"] == [entry.id for turn in ledger.turns("c") for entry in turn.messages]


def test_R60_superseded_turn_not_in_context(ledger: Ledger) -> None:
    """A withdrawn or resent turn is hidden with its reason; its rows stay (X53)."""
    fill(ledger, 3)
    ledger.withdraw("c", "t0")
    ledger.resend("c", "t2")
    view = ledger.view("c")
    assert ["t1"] == [turn.id for turn in view.turns]
    assert (Removal("turn/t0", "superseded"), Removal("turn/t2", "superseded")) == view.hidden
    assert ("question 0",) == tuple(entry.text for entry in ledger.versions("c", "u0"))
    assert [(0, "state", "t0"), (4, "state", "t2")] == _touches(ledger)


def test_R18_changes_during_generation_are_seen(ledger: Ledger) -> None:
    """An edit, a withdrawal, a protection, a mark and an item of a completed turn leave a touch; appends leave none."""
    fill(ledger, 4)
    ledger.append("c", "open", [Message("user", "o1", "x")], open_items=[OpenItem("i9", "pending")])
    ledger.append("c", "open", [Message("assistant", "o2", "y")], state="completed")
    assert [] == _touches(ledger)
    ledger.edit("c", "a0", Message("assistant", None, "edited"))
    ledger.withdraw("c", "t1")
    ledger.protect("c", "u2", "audit-evidence")
    ledger.mark("c", "t3", [MustPreserve("C1", "w")])
    ledger.set_item("c", "t3", OpenItem("i1", "pending"))
    ledger.append("c", "t5", chat(5), state="completed", supersedes=["C1"])
    assert [
        (0, "edit", "a0"), (2, "state", "t1"), (4, "protection", "u2"), (6, "constraint", "C1"), (6, "item", "i1"),
        (6, "constraint", "C1"),
    ] == _touches(ledger)  # fmt: skip
    view = ledger.view("c")
    ledger.new_generation("c")
    assert "stale_generation" == fault(lambda: ledger.view("c", generation=view.generation))


def test_R151_supersedes_from_new_turn(ledger: Ledger) -> None:
    """A later turn takes a constraint back; the mark stays, the constraint is no longer in force (X44)."""
    ledger.append("c", "t1", chat(1), state="completed", must_preserve=[MustPreserve("C1", "only read")])
    assert (Constraint("C1", "t1", "only read"),) == ledger.view("c").constraints
    ledger.append("c", "t2", chat(2), state="completed", supersedes=["C1"])
    assert () == ledger.view("c").constraints
    turns = list(ledger.turns("c"))
    assert ((MustPreserve("C1", "only read"),), ("C1",)) == (turns[0].must_preserve, turns[1].supersedes)
    # Made again later it is in force there; where that turn is withdrawn, the withdrawal before it counts again.
    ledger.append("c", "t3", chat(3), state="completed", must_preserve=[MustPreserve("C1", "read and list")])
    assert (Constraint("C1", "t3", "read and list"),) == ledger.view("c").constraints
    ledger.withdraw("c", "t3")
    assert () == ledger.view("c").constraints
    ledger.withdraw("c", "t2")
    assert (Constraint("C1", "t1", "only read"),) == ledger.view("c").constraints


def test_supersedes_of_an_unknown_later_or_own_constraint_is_refused(ledger: Ledger) -> None:
    """X56: the target is a constraint that an earlier turn of this line marks; nothing is stored otherwise."""
    ledger.append("c", "t1", chat(1), state="completed", must_preserve=[MustPreserve("C1")])
    ledger.append("c", "t2", chat(2), state="completed", must_preserve=[MustPreserve("C2")])
    ledger.branch("c", "b", at_turn_id="t1")
    before = events(ledger)
    for turn_id, names in (("t2", ["C9"]), ("t1", ["C2"]), ("t1", ["C1"]), ("t2", ["C2"]), ("t2", ["C1", "C9"])):
        assert "invalid-input" == fault(lambda t=turn_id, n=names: ledger.supersede("c", t, n))
    both = {"supersedes": ["C2"], "must_preserve": [MustPreserve("C2", "w")]}
    assert "invalid-input" == fault(lambda: ledger.append("c", "t3", chat(3), **both))
    assert before == events(ledger)
    ledger.switch("c", "b")
    ledger.append("c", "t4", chat(4), state="completed")
    assert "invalid-input" == fault(lambda: ledger.supersede("c", "t4", ["C2"]))
    ledger.supersede("c", "t4", ["C1"])
    before = events(ledger)
    assert "invalid-input" == fault(lambda: ledger.mark("c", "t4", [MustPreserve("C1", "w")])), "no plan would take it"
    assert before == events(ledger)


def test_refusals_and_revocations_protect_while_in_force_and_as_evidence_afterwards(ledger: Ledger) -> None:
    """X36: the structured event sets the reason, its end turns it into audit-evidence, a repeat changes nothing."""
    fill(ledger, 1)
    for kind in ("refusal", "revocation"):
        ledger.refuse("c", "u0", kind)
        assert "active-constraint" == next(ledger.turns("c")).messages[0].protection_reason
        assert not ledger.refuse("c", "u0", kind).changed
        ledger.refuse("c", "u0", kind, in_force=False)
        assert "audit-evidence" == next(ledger.turns("c")).messages[0].protection_reason
    assert "invalid-input" == fault(lambda: ledger.refuse("c", "u0", "regret"))  # type: ignore[arg-type]
    assert (0,) == tuple(ledger.view("c").pinned)


def test_a_constraint_keeps_its_words(ledger: Ledger) -> None:
    """The same id on the same turn with other words is refused; in another turn it is a mark of its own."""
    ledger.append("c", "t1", chat(1), state="completed", must_preserve=[MustPreserve("C1", "words")])
    assert not ledger.mark("c", "t1", [MustPreserve("C1", "words")]).changed
    for text in ("other", None):
        assert "duplicate_id" == fault(lambda t=text: ledger.mark("c", "t1", [MustPreserve("C1", t)]))
    ledger.append("c", "t2", chat(2), state="completed", must_preserve=[MustPreserve("C1", "other")])
    assert (Constraint("C1", "t2", "other"),) == ledger.view("c").constraints


def test_a_branch_sees_its_ancestors_as_they_were(ledger: Ledger) -> None:
    """What is edited, protected, superseded or appended on the old line after the branch point does not show."""
    ledger.append("c", "t0", chat(0), state="completed", must_preserve=[MustPreserve("C1", "w")])
    fill(ledger, 3, start=1)
    ledger.append("c", "t4", [Message("user", "u4", "open")])
    before = [turn for turn in ledger.turns("c") if turn.id in ("t0", "t1", "t2")]
    made = ledger.branch("c", "b", at_turn_id="t2")
    ledger.edit("c", "u0", Message("user", None, "edited"))
    ledger.protect("c", "a1", "audit-evidence")
    ledger.withdraw("c", "t2")
    ledger.supersede("c", "t4", ["C1"])
    assert before == list(ledger.turns("c", branch="b"))
    ledger.switch("c", "b")
    view = ledger.view("c")
    assert (before, (), (Constraint("C1", "t0", "w"),)) == (list(view.turns), tuple(view.pinned), view.constraints)
    assert ("main", 4) == (made.parent, made.at_sequence)
    # Sequences go on over all branches, so this branch has a gap (X6).
    assert (9,) == ledger.append("c", "n1", [Message("user", "n1", "new")]).sequences
    assert "conversation_not_found" == fault(lambda: ledger.edit("c", "u4", Message("user", None, "x")))
    assert "duplicate_id" == fault(lambda: ledger.append("c", "n2", [Message("user", "u4", "open")]))
    assert "duplicate_id" == fault(lambda: ledger.append("c", "t4", [Message("user", "n3", "open")]))
    assert "duplicate_id" == fault(lambda: ledger.branch("c", "b", at_turn_id="t1"))
    ledger.switch("c", "main")
    assert ["t0", "t1", "t3", "t4"] == [turn.id for turn in ledger.view("c").turns]


def test_conversations_do_not_leak(ledger: Ledger) -> None:
    """R61: two conversations with the same ids hold their own turns, constraints and generations."""
    for name in ("c", "d"):
        ledger.append(name, "t1", [Message("user", "u1", f"of {name}")], must_preserve=[MustPreserve("C1", name)])
    ledger.new_generation("d")
    assert ["of c", "of d"] == [next(ledger.turns(name)).messages[0].text for name in ("c", "d")]
    assert ["c", "d"] == [ledger.view(name).constraints[0].text for name in ("c", "d")]
    assert [1, 2] == [ledger.head(name).generation for name in ("c", "d")]
    assert ("c", "d") == ledger.conversations()


def test_a_policy_is_kept_with_its_conversation(ledger: Ledger) -> None:
    """The newest one is read back byte for byte; there may be none."""
    fill(ledger, 1)
    assert ledger.policy("c") is None
    for policy in (b'{"a":1}', b'{"a":1}', '{"b":"é"}'.encode()):
        ledger.store_policy("c", policy)
        assert policy == ledger.policy("c")
    assert 2 == [row[4] for row in events(ledger)].count("policy")


def test_what_no_plan_takes_is_stored_by_no_call(ledger: Ledger) -> None:
    """Facts are never taken away again, so what breaks a rule of a turn is refused before it is one."""
    fill(ledger, 2)
    before = (events(ledger), list(ledger.turns("c")))
    for text in (" ", "\n", "\x00", "\ud800"):
        marks = [MustPreserve("C9", text)]
        assert "invalid-input" == fault(lambda marks=marks: ledger.mark("c", "t0", marks))  # type: ignore[misc]
        assert "invalid-input" == fault(lambda marks=marks: ledger.append("c", "n", chat(7), must_preserve=marks))  # type: ignore[misc]
    for material in ("poem", ["chat"], 1):
        assert "invalid-input" == fault(lambda kind=material: ledger.append("c", "n", chat(7), material=kind))  # type: ignore[misc]
    assert before == (events(ledger), list(ledger.turns("c")))


@pytest.mark.parametrize("state", ["cancelled", "superseded"])
def test_a_turn_ends_by_an_append_as_by_a_call_of_its_own(tmp_path: Path, state: TurnState) -> None:
    """What it marked or took back is given back to the turn that carried it, and what it names is no longer named."""
    left = []
    for how in ("append", "set_state"):
        with Ledger.open(tmp_path / how) as ledger:
            fill(ledger, 2)
            ledger.mark("c", "t0", [MustPreserve("C1", "Only read."), MustPreserve("C2", "Only read.")])
            question = Message("user", "u9", "Ask.", constraint_ids=("C3",))
            ledger.append("c", "t9", [question], must_preserve=[MustPreserve("C1", "x")], supersedes=["C2"])
            if how == "append":
                ledger.append("c", "t9", [], state=state)
            else:
                ledger.set_state("c", "t9", state)
            assert () == ledger.verify().problems
            left.append((ledger.view("c").constraints, _touches(ledger)))
    assert left[0] == left[1]
