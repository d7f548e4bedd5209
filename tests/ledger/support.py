"""Small conversations for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message
from planner.values.view import View


def chat(number: int, *, answer: str | None = None) -> list[Message]:
    """Return a question and its answer; ids carry the number."""
    return [
        Message("user", f"u{number}", f"question {number}"),
        Message("assistant", f"a{number}", answer or f"answer {number}"),
    ]


def fill(ledger: Ledger, count: int, conversation: str = "c", start: int = 0) -> None:
    """Append completed turns t<start>, ... to a conversation."""
    for number in range(start, start + count):
        ledger.append(conversation, f"t{number}", chat(number), state="completed")


def seen(view: View) -> dict[str, Any]:
    """Return what a view says, with its lazy parts read."""
    return {
        "turns": list(view.turns),
        "pinned": list(view.pinned),
        "hidden": list(view.hidden),
        "chain": view.chain,
        "constraints": view.constraints,
        "held": list(view.held),
        "withdrawing": list(view.withdrawing),
    }


def fault(call: Callable[[], object]) -> str:
    """Return the code of the fault or refusal a call ends in."""
    with pytest.raises((PlannerFault, RefusalSignal)) as caught:
        call()
    error = caught.value
    assert error.__cause__ is None
    return error.code if isinstance(error, PlannerFault) else error.reason


def events(ledger: Ledger) -> Sequence[tuple[Any, ...]]:
    """Return every event row of the file."""
    with ledger._store.read("test") as connection:
        return connection.execute("SELECT * FROM event ORDER BY event").fetchall()
