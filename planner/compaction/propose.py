"""Which turns are to be summarised: validate, freeze, keep the tail, take runs of the rest (R62..R72, X1, X2)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from planner.compaction.strategy import Settings
from planner.values.admission import rests_on
from planner.values.check_summary import may_be_covered, may_be_skipped, messages_in_order, run_of
from planner.values.check_turn import check_turn
from planner.values.compaction import CompactionPlan, Run, Unplanned
from planner.values.constraint import Constraint
from planner.values.field_rules import ID_RULE, invalid, is_id, is_version, is_whole
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Removal
from planner.values.relations import check_supersedes
from planner.values.turn import Turn

_SKIPPED = ("cancelled", "superseded")


@dataclass(frozen=True, slots=True)
class Material:
    """A conversation as it is when the plan is made: everything that may be compacted, and what already is.

    turns                   every visible turn of every state, in any order (R65).
    covered                 the interval of turn sequences, both inclusive, of each current summary.
    constraints             the live ones.
    purged_constraint_ids   marks whose turn retention removed; they may still be superseded (X56).
    revoked                 citation ids that may not be used any more: a turn on one ends a run and is skipped (X39).
    event                   the newest ledger event seen, 0 without a ledger.
    """

    conversation_id: str
    turns: Sequence[Turn] = field(repr=False)
    policy_version: str
    generation: int = 1
    revision: int = 0
    branch: str = "main"
    event: int = 0
    covered: tuple[tuple[int, int], ...] = ()
    constraints: tuple[Constraint, ...] = field(default=(), repr=False)
    purged_constraint_ids: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()

    def may_be_covered(self, turn: Turn) -> bool:
        """Tell whether a summary may stand for a turn now."""
        return may_be_covered(turn, self.constraints) and not rests_on(turn, self.revoked)


def propose(material: Material, settings: Settings) -> CompactionPlan | Unplanned:
    """Return the frozen plan of what to summarise, or why there is none. Changes nothing (R70).

    `Unplanned("invalid-input")` names the JSON path; `Unplanned("nothing_to_compact")` means that no summary job
    starts (R72), with the detail `source_revoked` where turns were left aside because of their sources. The same
    material and settings give the same plan, whatever order the turns come in.
    """
    refusal: RefusalSignal | None = None
    try:
        ordered = _validated(material, settings)
    except RefusalSignal as signal:
        refusal = signal
    if refusal is not None:
        return Unplanned(refusal.reason, refusal.detail)
    candidates = [turn for turn in ordered if turn.state == "completed"]
    # The tail counts completed turns; open ones stay in addition (X2).
    before = candidates[-settings.tail_turns].sequence if settings.tail_turns < len(candidates) else None
    runs: tuple[Run, ...] = ()
    if before is not None:
        prefix = [turn for turn in ordered if turn.sequence < before]
        runs = tuple(_runs(prefix, material, settings))
    if not runs:
        left = any(rests_on(turn, material.revoked) for turn in candidates[: -settings.tail_turns])
        return Unplanned("nothing_to_compact", "source_revoked" if left else "")
    plan = CompactionPlan(
        plan_id=settings.plan_id,
        conversation_id=material.conversation_id,
        branch=material.branch,
        generation=material.generation,
        source_revision=material.revision,
        policy_version=material.policy_version,
        strategy_version=settings.strategy_version,
        runs=(),
        preserved_ids=(),
        event=material.event,
    )
    return with_runs(plan, runs, material)


def with_runs(plan: CompactionPlan, runs: tuple[Run, ...], material: Material) -> CompactionPlan:
    """Return a plan with other runs of the same material: what no run covers is preserved or skipped (R69).

    This is how a run is split (see `split`) and how a turn that fits no summariser stays raw: its run is left out.
    """
    covered = {entry for run in runs for entry in run.turn_ids}
    skipped: list[Removal] = []
    kept: list[Turn] = []
    for turn in sorted(material.turns, key=lambda turn: turn.sequence):
        if may_be_skipped(turn, material.constraints):
            skipped.append(Removal(f"turn/{turn.id}", turn.state))
            continue
        if turn.state == "completed" and rests_on(turn, material.revoked):  # in no context, as long as that holds
            skipped.append(Removal(f"turn/{turn.id}", "source_revoked"))
            continue
        if turn.id not in covered:
            kept.append(turn)
        # A candidate that was not chosen is in no context, so it is neither summarised nor preserved (X63).
        skipped += [
            Removal(f"message/{entry.id}", "candidate_not_accepted") for entry in turn.messages if not entry.accepted
        ]
    preserved = tuple(message.id or "" for message in messages_in_order(kept))
    return replace(plan, runs=runs, preserved_ids=preserved, skipped=tuple(skipped))


def split(run: Run, turns: Iterable[Turn], at: int, constraints: Iterable[Constraint]) -> tuple[Run, Run]:
    """Return the two runs that a run falls into behind its first `at` turns (X66).

    turns  at least the turns of the run; others are left aside.
    Raises ValueError unless both parts have a turn.
    """
    if not 0 < at < len(run.turn_ids):
        raise ValueError(f"a run of {len(run.turn_ids)} turns cannot be split at {at}")
    inside = sorted(
        (turn for turn in turns if run.covers_from <= turn.sequence <= run.covers_to), key=lambda turn: turn.sequence
    )
    border = next(turn.sequence for turn in inside if turn.id == run.turn_ids[at])
    constraints = tuple(constraints)
    first = _trimmed([turn for turn in inside if turn.sequence < border])
    return run_of(first, constraints), run_of([turn for turn in inside if turn.sequence >= border], constraints)


def _trimmed(turns: list[Turn]) -> list[Turn]:
    """Return turns without the skipped ones behind the last covered one: an interval ends with a covered turn."""
    while turns and turns[-1].state in _SKIPPED:
        turns = turns[:-1]
    return turns


def _runs(prefix: Sequence[Turn], material: Material, settings: Settings) -> list[Run]:
    """Return the runs of the prefix by sequence: maximal, gap-free, outside current summaries (X1)."""
    intervals = sorted(material.covered)
    starts = [first for first, _ in intervals]

    def covered(turn: Turn) -> bool:
        # Current summaries never overlap (X51), so the nearest one that begins before is the only one to ask.
        place = bisect_right(starts, turn.sequence) - 1
        return place >= 0 and turn.sequence <= intervals[place][1]

    stretches: list[list[Turn]] = [[]]
    for turn in prefix:
        if may_be_skipped(turn, material.constraints) and not (covered(turn) and not settings.merge_neighbours):
            if stretches[-1]:
                stretches[-1].append(turn)
        elif material.may_be_covered(turn) and (settings.merge_neighbours or not covered(turn)):
            stretches[-1].append(turn)
        else:
            stretches.append([])
    runs: list[Run] = []
    for stretch in map(_trimmed, stretches):
        run = run_of(stretch, material.constraints) if stretch else None
        if run is None or len(run.turn_ids) < settings.min_run_turns:
            continue
        if (run.covers_from, run.covers_to) not in intervals:
            runs.append(run)
    return runs


def _validated(material: Material, settings: Settings) -> list[Turn]:
    """Return the turns by sequence; raises RefusalSignal `invalid-input` (R64, X47, X56)."""
    if not is_id(material.conversation_id):
        invalid("$.conversationId", ID_RULE)
    if not is_version(material.policy_version):
        invalid("$.policyVersion", "is no version")
    if not is_id(settings.plan_id):
        invalid("$.planId", ID_RULE)
    if not is_whole(settings.tail_turns, 1):
        invalid("$.tailTurns", "expected a whole number, 1 or more")
    if not is_whole(settings.min_run_turns, 1):
        invalid("$.minRunTurns", "expected a whole number, 1 or more")
    seen = _Seen()
    for index, turn in enumerate(material.turns):
        path = f"$.turns[{index}]"
        check_turn(turn, path, seen.message_ids)
        seen.add(turn, path)
    ordered = sorted(material.turns, key=lambda turn: turn.sequence)
    _check_supersedes(ordered, material.purged_constraint_ids)
    return ordered


class _Seen:
    """Ids and sequences of the turns so far: each stands once in a ledger."""

    def __init__(self) -> None:
        self.message_ids: set[str] = set()
        self._turn_ids: set[str] = set()
        self._turn_sequences: set[int] = set()
        self._message_sequences: set[int] = set()

    def add(self, turn: Turn, path: str) -> None:
        if turn.id in self._turn_ids:
            invalid(f"{path}.id", "is used by another turn")
        if turn.sequence in self._turn_sequences:
            invalid(f"{path}.sequence", "is used by another turn")
        self._turn_ids.add(turn.id)
        self._turn_sequences.add(turn.sequence)
        for index, message in enumerate(turn.messages):
            if message.id is None:
                invalid(f"{path}.messages[{index}].id", "is missing, and a source is named by its id")
            if message.sequence is not None:
                if message.sequence in self._message_sequences:
                    invalid(f"{path}.messages[{index}].sequence", "is used by another message")
                self._message_sequences.add(message.sequence)


def _check_supersedes(ordered: Sequence[Turn], purged: frozenset[str]) -> None:
    """Refuse a target that no earlier turn marks; retention may have removed the turn that did (X56)."""
    marked: set[str] = set(purged)
    for turn in ordered:
        check_supersedes(turn, marked, f"$.turns[{turn.id}]")
        marked |= {mark.constraint_id for mark in turn.must_preserve}
