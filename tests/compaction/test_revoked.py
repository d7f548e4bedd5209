"""What rests on a source that may not be used any more is covered by no summary and goes to no model (X39)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.propose import Material, propose, split, with_runs
from planner.compaction.strategy import Settings
from planner.values.compaction import CompactionPlan, Unplanned
from planner.values.receipt import Removal
from planner.values.turn import Turn
from tests.compaction.chats import conversations, live, material, protected, turn, with_message

NAMES = ("s1", "s2", "s3")
SOME = st.sets(st.sampled_from(NAMES))


def citing(subject: Turn, *names: str, place: int = -1) -> Turn:
    """Return a turn of which one message cites sources."""
    return with_message(subject, place, citation_ids=names) if names else subject


def runs_of(given: Material) -> list[tuple[str, ...]]:
    """Return the turns of each run, none where there is no plan."""
    plan = propose(given, Settings("p1", 1))
    return [run.turn_ids for run in plan.runs] if isinstance(plan, CompactionPlan) else []


@given(conversations(), st.lists(SOME, min_size=9, max_size=9), SOME)
def test_a_turn_on_a_revoked_source_ends_a_run_like_a_protected_one(
    turns: tuple[Turn, ...], cited: list[set[str]], revoked: set[str]
) -> None:
    """The oracle withdraws nothing: it protects each completed turn that cites one, and looks at plain runs."""
    turns = tuple(citing(entry, *sorted(names)) for entry, names in zip(turns, cited, strict=False))
    naive = []
    for entry in turns:
        rests = any(name in revoked for one in entry.messages if one.accepted for name in one.citation_ids)
        naive.append(protected(entry) if entry.state == "completed" and rests else entry)
    constraints = live(turns)
    withheld = material(*turns, constraints=constraints, revoked=frozenset(revoked))
    assert runs_of(material(*naive, constraints=constraints)) == runs_of(withheld)


def test_it_is_named_as_skipped_and_nothing_of_it_is_preserved() -> None:
    """The plan says which turn and why; a right that comes back makes another plan."""
    turns = (turn(1), citing(turn(2), "s1"), turn(3), turn(4))
    given = material(*turns, revoked=frozenset({"s1"}))
    plan = propose(given, Settings("p1", 1))
    assert isinstance(plan, CompactionPlan)
    assert ([("t1",), ("t3",)], (Removal("turn/t2", "source_revoked"),), ("u4", "a4")) == (
        [run.turn_ids for run in plan.runs], plan.skipped, plan.preserved_ids,
    )  # fmt: skip
    assert [("t1", "t2", "t3")] == runs_of(replace(given, revoked=frozenset()))


def test_where_nothing_else_is_left_the_reason_is_said() -> None:
    """`nothing_to_compact` alone would read as a short conversation."""
    turns = (citing(turn(1), "s1"), turn(2))
    assert Unplanned("nothing_to_compact", "source_revoked") == propose(
        material(*turns, revoked=frozenset({"s1"})), Settings("p1", 1)
    )
    assert Unplanned("nothing_to_compact") == propose(
        material(*reversed(turns), revoked=frozenset({"s9"})), Settings("p1", 2)
    )


def test_a_candidate_that_was_not_chosen_withholds_nothing() -> None:
    """Only what a summary would read counts."""
    other = replace(citing(turn(1), "s1").messages[-1], id="x1", sequence=17, accepted=False)
    spare = replace(turn(1), messages=(*turn(1).messages, other))
    assert [("t1", "t2")] == runs_of(material(spare, turn(2), turn(3), revoked=frozenset({"s1"})))


def test_a_split_run_keeps_what_was_skipped() -> None:
    """Fitting a plan to a window changes runs, not what was withheld."""
    turns = (turn(1), turn(2), citing(turn(3), "s1"), turn(4), turn(5))
    given = material(*turns, revoked=frozenset({"s1"}))
    plan = propose(given, Settings("p1", 1))
    assert isinstance(plan, CompactionPlan)
    halves = split(plan.runs[0], turns, 1, given.constraints)
    assert plan.skipped == with_runs(plan, (*halves, plan.runs[1]), given).skipped
