"""Blocks, moves and selections: the vocabulary of `layer`, `ladder` and `fit` (design.md §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from planner.values.conflict import Conflict
from planner.values.constraint import Constraint
from planner.values.forms import NO_FORMS, FormStep, FormSteps, Shown, with_forms
from planner.values.passage import Passage
from planner.values.receipt import Removal, SummaryUse
from planner.values.request import CurrentRequest, OutputSchema, TextItem, Tool
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

Layer = Literal["immutable", "summarizable", "evictable"]
BlockKind = Literal[
    "immutable_policy", "required_request", "pinned_turn", "summarizable", "required_evidence", "evictable",
]  # fmt: skip
MoveKind = Literal["too_large", "low_value", "summary_replaces", "passage_value", "oldest_first", "not_required"]

LAYER_OF_KIND: dict[BlockKind, Layer] = {
    "immutable_policy": "immutable",
    "required_request": "immutable",
    "pinned_turn": "summarizable",
    "summarizable": "summarizable",
    "required_evidence": "evictable",
    "evictable": "evictable",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One item with its layer, set when the block is made and never changed after (R21).

    `key` is `kind/id`; `sequence` orders history (a summary stands at its coversTo), None elsewhere;
    `value` ranks passages.
    """

    key: str
    kind: BlockKind
    sequence: int | None = None
    value: float = 0.0
    covers: tuple[str, ...] = ()
    content_bytes: int = 0

    @property
    def layer(self) -> Layer:
        """The layer follows from the kind alone (R22)."""
        return LAYER_OF_KIND[self.kind]


@dataclass(frozen=True, slots=True)
class History:
    """What `recall` found: whole turns by sequence, oldest first, and what is never rendered.

    turns        may be read only where it is looked at; nothing goes through all of it.
    pinned       indexes of turns that may not leave (protected, or open beside the request's own).
    open_turn    the request's turn, its first user message the request.
    constraints  live ones by sequence of their turn.
    summaries    current ones by coverage, no two over one turn; `unused` says why others are not.
    held         indexes of turns that may leave only through a summary (X34, X44).
    withdrawing  indexes of turns that withdraw a constraint which an older turn marks.
    revoked      id and sequence of turns that are not among `turns`, because they rest on a source that may not be
                 used any more (X39).
    boundary     highest sequence whose original retention purged, None where nothing was (R146).
    echoing      ids of summaries that alone say what purged turns left unfinished.
    """

    turns: Sequence[Turn] = field(repr=False)
    pinned: Sequence[int]
    open_turn: Turn
    left_out: tuple[Removal, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    summaries: tuple[SummaryRecord, ...] = field(default=(), repr=False)
    unused: tuple[SummaryUse, ...] = ()
    held: Sequence[int] = ()
    withdrawing: Sequence[int] = ()
    revoked: tuple[tuple[str, int], ...] = ()
    boundary: int | None = None
    echoing: frozenset[str] = frozenset()


def with_tail(history: History, tail_turns: int | None) -> Sequence[int]:
    """Return the pins and, where a tail is named, the newest completed turns (X2, X35)."""
    if tail_turns is None:
        return history.pinned
    tail: list[int] = []
    for index in range(len(history.turns) - 1, -1, -1):
        if len(tail) == tail_turns:
            break
        if history.turns[index].state == "completed":
            tail.append(index)
    return sorted({*history.pinned, *tail})


@dataclass(frozen=True, slots=True)
class Layered:
    """Every part of a request in its fixed place, each item a block with its layer (R19..R21).

    `pinned` are the history's pins and the tail named by the request, `held` what may leave only through a
    summary; `notice` asks for a line in the prompt where history is missing (R147). `passages` stand best first;
    `edges` sets the best ones at both ends of their area. `required` are citation ids the answer must be able to cite,
    `conflicts` the disputed facts that are explained in the prompt, `disputed` all of them. `twins` are citation ids
    of passages that say what another one says. `staying_summaries` may not leave where their turns were purged.
    """

    policy: tuple[TextItem, ...] = field(repr=False)
    data_scope: tuple[TextItem, ...] = field(repr=False)
    output_schema: OutputSchema | None = field(repr=False)
    tools: tuple[Tool, ...] = field(repr=False)
    request: CurrentRequest = field(repr=False)
    preferences: tuple[TextItem, ...] = field(repr=False)
    history: History = field(repr=False)
    summaries: tuple[SummaryRecord, ...] = field(repr=False)
    passages: tuple[Passage, ...] = field(repr=False)
    pinned: Sequence[int] = ()
    held: Sequence[int] = ()
    notice: bool = False
    edges: bool = False
    required: frozenset[str] = frozenset()
    conflicts: tuple[Conflict, ...] = ()
    disputed: tuple[Conflict, ...] = ()
    twins: frozenset[str] = frozenset()
    staying_summaries: frozenset[str] = frozenset()

    @property
    def pinned_passages(self) -> frozenset[str]:
        """Citation ids of passages that may not leave: required ones, and those behind a dispute."""
        return self.required.union(one.citation_id for one in self.conflicts if one.citation_id is not None)

    @property
    def open_turn(self) -> Turn:
        """The request's own turn."""
        return self.history.open_turn

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints in force."""
        return self.history.constraints

    @property
    def plain(self) -> bool:
        """True where no state block can arise: neither summaries nor constraints nor a notice."""
        return not (self.summaries or self.history.constraints or self.notice)

    def older_staying(self, index: int) -> Sequence[int]:
        """Return the indexes below `index` of turns that do not leave alone, in order."""
        pinned = [place for place in self.pinned if place < index]
        if not self.held:
            return pinned
        return sorted({*pinned, *(place for place in self.held if place < index)})


class Cover(NamedTuple):
    """A summary and the run of turns it stands for, from index `low` up to, not including, `high`.

    stays   it may not leave, because a turn of its run may leave only through it.
    exempt  it tells of a withdrawal, so that the maximum of summaries does not count or move it (X44).
    """

    summary: SummaryRecord
    low: int
    high: int
    stays: bool = False
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far back a plan looks; the answer is that of a plan which looks at everything (design.md §5).

    start         index of the oldest turn looked at one by one; older movable ones leave as one range.
    gone_through  every movable turn before this index left already, too large or behind one that is.
    raw_from      sizes of all turns from here on are known; a run that begins before cannot stay raw.
    covers        summaries in play, by coverage.
    runs          indexes of turns, low and high, that each summary stands for, by its id.
    unused        why a summary that was looked at is not in play, by `summary/id`.
    summary_most  tokens of summaries that stay before turns leave (`sections.summary.max`), None for any number.
    has_slot      false where the bundle has no certified place for a summary.
    forms         steps to shorter forms of results and passages looked at.
    borders       summaries of purged turns, by coverage: before the oldest turn from the fullest rung on (X41).
    """

    start: int = 0
    gone_through: int = 0
    raw_from: int = 0
    covers: tuple[Cover, ...] = ()
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    summary_most: int | None = None
    has_slot: bool = True
    forms: FormSteps = NO_FORMS
    borders: tuple[Cover, ...] = ()


class Move(NamedTuple):
    """One step that makes the selection leaner: what leaves, what comes instead, and why.

    `through` is an index into the turns: every movable turn before it leaves as one range.
    `run` are the indexes of turns that a summary stands for from now on, low and high.
    `shows` is the shorter form that stands for one text from now on; nothing leaves then.
    """

    reason: str
    leaves: tuple[str, ...]
    comes: tuple[str, ...] = ()
    through: int = 0
    run: tuple[int, int] = (0, 0)
    shows: FormStep | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """Moves from everything to nothing but what cannot move; rung k has the first k moves made.

    `gone` left before the ladder, never encoded, and is in no rung.
    """

    moves: Sequence[Move]
    gone: tuple[Removal, ...] = ()
    reach: Horizon = Horizon()


@dataclass(frozen=True, slots=True)
class Selection:
    """A complete rung: what is kept of everything that can move, and what stands for what left.

    `history` holds turns and summaries by sequence, `passages` stand as in the citation area. `constraints` are those
    whose turn is not raw here: their text stands in the state block. `conflicts` are explained after the passages.
    `forms` names what is kept in a shorter form, by `kind/id`; `history` holds those turns whole, `passages` hold the
    text that is shown.
    """

    history: tuple[Turn | SummaryRecord, ...] = field(repr=False)
    passages: tuple[Passage, ...] = field(default=(), repr=False)
    constraints: tuple[Constraint, ...] = ()
    notice: bool = False
    conflicts: tuple[Conflict, ...] = ()
    forms: Mapping[str, Shown] = field(default_factory=dict)

    @property
    def has_head(self) -> bool:
        """True where a state block stands at the head of the history."""
        return bool(self.constraints) or self.notice

    def shown(self, turn: Turn) -> Turn:
        """Return a turn as this rung shows it."""
        return with_forms(turn, self.forms.get(f"turn/{turn.id}", ())) if self.forms else turn

    @property
    def whole_turns(self) -> bool:
        """True where no turn is in a shorter form."""
        return not any(key.startswith("turn/") for key in self.forms)
