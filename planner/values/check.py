"""Rules a request must keep whoever built it: wire, adapter or a Python caller (R13, R39, R47, X2, X63).

Every function raises RefusalSignal("invalid-input", "<JSON path>: <rule>") and returns nothing. A cold plan
calls `check_request`; a Conversation calls `check_turn` for new turns, `check_frame` and `check_question`.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.values.check_frame import check_frame
from planner.values.check_turn import check_turn
from planner.values.field_rules import invalid
from planner.values.reasons import RefusalSignal
from planner.values.relations import check_relations
from planner.values.request import PlanRequest
from planner.values.turn import Turn

__all__ = ["check_frame", "check_question", "check_request", "check_turn", "check_turns"]


def check_request(request: PlanRequest) -> None:
    """Check a whole request.

    Raises RefusalSignal `invalid-input`, or `nothing_to_answer` where neither a text nor an open turn asks.
    """
    if type(request) is not PlanRequest:
        invalid("$", "expected a PlanRequest")
    check_frame(request)
    check_turns(request.turns)
    named, newest = _open_turns(request)
    check_question(request, named, newest)


def check_turns(turns: Sequence[Turn]) -> None:
    """Check every turn, that ids and sequences occur once (R13), and withdrawals (X56); any order will do."""
    if type(turns) is not tuple:
        invalid("$.turns", "expected a tuple")
    message_ids: set[str] = set()
    turn_ids: set[str] = set()
    sequences: set[int] = set()
    for index, turn in enumerate(turns):
        path = f"$.turns[{index}]"
        check_turn(turn, path, message_ids)
        if turn.id in turn_ids:
            invalid(f"{path}.id", "is used by another turn")
        if turn.sequence in sequences:
            invalid(f"{path}.sequence", "is used by another turn")
        turn_ids.add(turn.id)
        sequences.add(turn.sequence)
    if any(turn.supersedes for turn in turns):
        placed = ((f"$.turns[{index}]", turn) for index, turn in enumerate(turns))
        check_relations(sorted(placed, key=lambda entry: entry[1].sequence))


def check_question(request: PlanRequest, named: Turn | None, newest: Turn | None) -> None:
    """Check that the request says exactly one thing to answer (design.md §2).

    named   the turn `request.turnId` names, None where it names none or it is not among the turns.
    newest  the open turn with the highest sequence that has messages, None where there is none.
    """
    path, current = "$.request", request.request
    if current.text is not None:
        if current.text == "":
            invalid(f"{path}.text", "is empty")
        if named is not None and (named.messages or named.state != "open"):
            invalid(f"{path}.turnId", "names a turn that has messages or is not open, beside a text")
        if named is not None and newest is not None and newest.sequence > named.sequence:
            invalid(f"{path}.turnId", "does not name the newest open turn")
        return
    if current.turn_id is None and newest is None:
        raise RefusalSignal("nothing_to_answer", f"{path}: no text and no open turn")
    turn = newest if current.turn_id is None else named
    if turn is None or turn.state != "open":
        invalid(f"{path}.turnId", "names no open turn, and there is no text")
    if turn is not newest:
        invalid(f"{path}.turnId", "does not name the newest open turn")
    _check_continues(turn, path)


def _check_continues(turn: Turn, path: str) -> None:
    users = [message for message in turn.messages if message.role == "user"]
    if not users:
        raise RefusalSignal("nothing_to_answer", f"{path}: the open turn has no user message")
    opening = next(message.role for message in turn.messages if message.role not in ("system", "developer"))
    if opening != "user":
        invalid(path, "the open turn does not begin with its user message")
    if users[0].words() == "" and not users[0].has_media:
        invalid(path, "the open turn's user message is empty")
    last = next((message for message in reversed(turn.messages) if message.accepted), None)
    if last is not None and last.role == "assistant" and not last.tool_calls:
        raise RefusalSignal("nothing_to_answer", f"{path}: the open turn ends with an answer")


def _open_turns(request: PlanRequest) -> tuple[Turn | None, Turn | None]:
    """Find the named turn and the newest open one, and refuse any other turn without messages."""
    named: Turn | None = None
    newest: Turn | None = None
    question = request.request
    for index, turn in enumerate(request.turns):
        if turn.id == question.turn_id:
            named = turn
        # A cancelled or superseded turn may be a bare record (X37); an open one waits for `request.text`.
        bare = turn.state in ("cancelled", "superseded") or (turn is named and question.text is not None)
        if not turn.messages and not bare:
            invalid(f"$.turns[{index}].messages", "is empty")
        if turn.state == "open" and turn.messages and (newest is None or turn.sequence > newest.sequence):
            newest = turn
    return named, newest
