"""Which turns count: order by sequence, states obeyed, the request's own turn set apart (design.md §2)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from planner.values.reasons import RefusalSignal
from planner.values.receipt import Removal
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.rung import History
from planner.values.turn import Message, Turn

REQUEST_TURN = "request"


def recall(request: PlanRequest) -> History:
    """Return the history of a request whose turns came with it.

    Refuses nothing_to_answer where no open turn waits for an answer.
    """
    return assemble_history(sorted(request.turns, key=lambda turn: turn.sequence), request.request)


def assemble_history(ordered: Sequence[Turn], request: CurrentRequest) -> History:
    """Sort turns already ordered by sequence into history, pins and the request's own turn."""
    turns: list[Turn] = []
    pinned: list[int] = []
    opened: list[Turn] = []
    left_out: list[Removal] = []
    for turn in ordered:
        if turn.state in ("cancelled", "superseded"):
            left_out.append(Removal(f"turn/{turn.id}", turn.state))
        elif turn.state == "open":
            opened.append(turn)
        if turn.state in ("completed", "open"):
            if turn.pinned or turn.state == "open":
                pinned.append(len(turns))
            turns.append(turn)
    own = own_turn(opened, request, turns[-1].sequence if turns else 0, {turn.id for turn in ordered})
    if any(turn.id == own.id for turn in opened):
        place = next(index for index, turn in enumerate(turns) if turn.id == own.id)
        del turns[place]
        pinned = [index - (index > place) for index in pinned if index != place]
    return History(turns, tuple(pinned), own, tuple(left_out))


def own_turn(opened: Iterable[Turn], request: CurrentRequest, last_sequence: int, taken: Container[str]) -> Turn:
    """Return the request's turn: made from `text`, or the open turn that is to be continued.

    taken  ids of all turns; a made turn without an id of its own takes none of them.
    Refuses nothing_to_answer.
    """
    waiting = list(opened)
    if request.text is not None:
        turn_id = request.turn_id or _free_id(request.id or REQUEST_TURN, taken)
        known = next((turn for turn in waiting if turn.id == turn_id), None)
        sequence = known.sequence if known is not None else last_sequence + 1
        message = Message(role="user", id=request.id, text=request.text)
        return Turn(id=turn_id, sequence=sequence, state="open", messages=(message,))
    named = [turn for turn in waiting if request.turn_id in (None, turn.id)]
    if not named:
        raise RefusalSignal("nothing_to_answer", "no open turn and no request.text")
    own = max(named, key=lambda turn: turn.sequence)
    spoken = [message for message in own.messages if message.accepted]
    if not any(message.role == "user" for message in spoken):
        raise RefusalSignal("nothing_to_answer", f"turn {own.id} has no user message")
    if spoken[-1].role == "assistant" and not spoken[-1].tool_calls:
        raise RefusalSignal("nothing_to_answer", f"turn {own.id} ends with an answer")
    return own


def _free_id(wanted: str, taken: Container[str]) -> str:
    # Ids of different kinds may be equal, so the request may be called like an old turn.
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}.{number}"
    return found
