"""Which one code a refusal should carry, for a rung that fits but that the template does not carry.

The order is design.md §2: policy, tools, then the oldest turn; within a turn call, result, text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tests.support.framing import (
    CONCESSIONS,
    Conceded,
    concede,
    has_parallel,
    has_text_beside_call,
    joins_previous,
    normalise,
)
from tests.support.twin import KIND_ORDER, Piece

if TYPE_CHECKING:
    from tests.support.dialogues import Dialogue
    from tests.support.judge import Judge, Rung

Message = dict[str, Any]
Blame = tuple[str, int | None, str | None]
SHAPES: tuple[tuple[str, str, str], ...] = (
    ("serialise_parallel_calls", "tool_call_shape_not_supported", "call"),
    ("omit_text_beside_call", "template_drops:assistant_text", "assistant_text"),
    ("join_same_role", "template_refuses_shape", "assistant_text"),
)
TRIES = 8


def blame(judge: Judge, dialogue: Dialogue, rung: Rung) -> Blame:
    """Return (code, turn, concession); the turn is None for policy and tools, or where none is to blame."""
    framed = judge.framed(dialogue, rung.first)
    if not rung.verdict.raised:
        return _loss(judge, dialogue, rung, framed)
    fixed = judge.verdict([*dialogue.policy, {"role": "user", "content": "request"}], dialogue.tools)
    for piece in fixed.missing:
        return f"template_drops:{piece.kind}", None, None
    return _raise(judge, dialogue, rung, framed)


def _turn(turn: int, first: int) -> int | None:
    return None if turn < 0 else turn + first


def _loss(judge: Judge, dialogue: Dialogue, rung: Rung, framed: Conceded) -> Blame:
    """The first lost piece decides; a call lost of several where one alone is kept is a shape."""
    piece = rung.verdict.missing[0]
    turn = _turn(piece.turn, rung.first)
    message = framed.messages[piece.message] if piece.turn >= 0 else {}
    if piece.kind == "call" and has_parallel(message) and _kept_alone(judge, dialogue, framed, piece):
        return "tool_call_shape_not_supported", turn, "serialise_parallel_calls"
    beside = piece.kind == "assistant_text" and has_text_beside_call(message)
    return f"template_drops:{piece.kind}", turn, "omit_text_beside_call" if beside else None


def _kept_alone(judge: Judge, dialogue: Dialogue, framed: Conceded, piece: Piece) -> bool:
    alone = concede(framed.messages, ["serialise_parallel_calls"])
    again = judge.verdict(alone.messages, dialogue.tools)
    lost = {alone.source[item.message] for item in again.missing if item.kind == "call"}
    return not again.raised and piece.message not in lost


def _raise(judge: Judge, dialogue: Dialogue, rung: Rung, framed: Conceded) -> Blame:
    """Find every shape that fails while all others are conceded, and every loss that stays; the first wins.

    A shape counts if the template raises on it or loses its text, so an older turn that is only lost
    comes before a newer one that raises.
    """
    messages = framed.messages
    everything = judge.verdict(concede(messages, CONCESSIONS).messages, dialogue.tools)
    if everything.raised:
        return "template_refuses_shape", _removable(judge, dialogue, rung), None
    problems: list[tuple[tuple[int, ...], Blame]] = [
        (piece.order, (f"template_drops:{piece.kind}", _turn(piece.turn, rung.first), None))
        for piece in everything.missing
    ]
    for name, code, kind in SHAPES:
        for at in filter(_applies(name, messages), range(len(messages))):
            kept = concede(messages, CONCESSIONS, except_for=(name, at))
            verdict = judge.verdict(kept.messages, dialogue.tools)
            if verdict.raised or any(kept.source[piece.message] == at for piece in _in_turns(verdict.missing)):
                turn = turn_at(messages, at)
                problems.append(((2, turn, KIND_ORDER[kind], at, 0), (code, turn + rung.first, name)))
    if not problems:
        return "template_refuses_shape", _removable(judge, dialogue, rung), None
    return min(problems, key=lambda problem: problem[0])[1]


def _in_turns(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.turn >= 0]


def _applies(name: str, messages: Sequence[Message]) -> Callable[[int], bool]:
    if name == "serialise_parallel_calls":
        return lambda at: has_parallel(messages[at])
    if name == "omit_text_beside_call":
        return lambda at: has_text_beside_call(messages[at])
    return lambda at: joins_previous(messages, at)


def turn_at(messages: Sequence[Message], at: int) -> int:
    """Return the turn the message at `at` belongs to; 0 for what stands before the first user message."""
    return max([message["role"] for message in messages[: at + 1]].count("user") - 1, 0)


def _removable(judge: Judge, dialogue: Dialogue, rung: Rung) -> int | None:
    """Return the oldest turn whose removal lets the rung render, at most eight tries."""
    turns = dialogue.turns[rung.first :]
    for left_out in range(min(TRIES, len(turns) - 1)):
        rest = [message for at, turn in enumerate(turns) if at != left_out for message in turn]
        framed = concede(normalise(dialogue.policy + rest, judge.traits, judge.alias), judge.allowed)
        if not judge.verdict(framed.messages, dialogue.tools).raised:
            return rung.first + left_out
    return None
