"""Blocks, moves and selections: the vocabulary of `layer`, `ladder` and `fit` (design.md §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from planner.values.passage import Passage
from planner.values.receipt import Removal
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

    `pinned` are the indexes of turns that may not leave (protected, or open beside the request's own);
    `open_turn` is the request's turn, its first user message the request.
    """

    turns: Sequence[Turn] = field(repr=False)
    pinned: Sequence[int]
    open_turn: Turn
    left_out: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class Layered:
    """Every part of a request in its fixed place, each item a block with its layer (R19..R21)."""

    policy: tuple[TextItem, ...] = field(repr=False)
    data_scope: tuple[TextItem, ...] = field(repr=False)
    output_schema: OutputSchema | None = field(repr=False)
    tools: tuple[Tool, ...] = field(repr=False)
    request: CurrentRequest = field(repr=False)
    preferences: tuple[TextItem, ...] = field(repr=False)
    history: History = field(repr=False)
    summaries: tuple[SummaryRecord, ...] = field(repr=False)
    passages: tuple[Passage, ...] = field(repr=False)

    @property
    def open_turn(self) -> Turn:
        """The request's own turn."""
        return self.history.open_turn


class Move(NamedTuple):
    """One step that makes the selection leaner: what leaves, what comes instead, and why.

    `through` is an index into the turns: every unpinned turn before it leaves as one range.
    """

    reason: str
    leaves: tuple[str, ...]
    comes: tuple[str, ...] = ()
    through: int = 0


@dataclass(frozen=True, slots=True)
class Ladder:
    """Moves from everything to nothing but what cannot move; rung k has the first k moves made.

    `gone` left before the ladder, never encoded, and is in no rung; `unused` says why a summary has no move.
    """

    moves: Sequence[Move]
    gone: tuple[Removal, ...] = ()
    gone_through: int = 0
    unused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """A complete rung: what is kept of everything that can move.

    `history` holds turns and summaries by sequence, `passages` by relevance then id.
    """

    history: tuple[Turn | SummaryRecord, ...] = field(repr=False)
    passages: tuple[Passage, ...] = field(default=(), repr=False)
