"""An app of its own process: it opens a ledger, plans from it, says what it planned, and waits to be killed.

python -m tests.gate.killed_app LEDGER BUNDLE WINDOW write|read
"""

from __future__ import annotations

import json
import sys

from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, MustPreserve

CHAT = "c1"
TURNS = 8


def request(bundle: str, window: int) -> PlanRequest:
    """Return what every plan of this app asks."""
    return PlanRequest(
        bundle, CurrentRequest("q", text="Which lift is out of order?"), reserved_output_tokens=64,
        policy=(TextItem("p1", "Never promise a repair date."),), max_input_tokens=window,
    )  # fmt: skip


def write(ledger: Ledger) -> None:
    """Write the conversation; the second turn carries a constraint."""
    for number in range(1, TURNS + 1):
        ledger.append(
            CHAT, f"t{number}",
            (
                Message("user", f"u{number}", f"Where is lift {number}?"),
                Message("assistant", f"a{number}", f"Lift {number} is on floor {number}. " + "It hums a little. " * 6),
            ),
            state="completed", must_preserve=(MustPreserve("C1", "only the freight lift"),) if number == 2 else (),
        )  # fmt: skip


def said(answer: Plan | Refusal) -> dict[str, object]:
    """Return what must be equal where two processes plan the same: ids, items and generation."""
    assert isinstance(answer, Plan), answer
    receipt = answer.receipt
    return {
        "ids": list(answer.ids), "kept": list(answer.kept), "generation": receipt.generation,
        "bundle": receipt.bundle_digest, "plan": receipt.plan_id,
    }  # fmt: skip


def main(path: str, bundle: str, window: str, what: str) -> None:
    """Write or read, plan, say so, and wait with every handle open."""
    ledger = Ledger.open(path)
    if what == "write":
        write(ledger)
    chat = Planner(bundle).ledger_conversation(ledger, CHAT)
    sys.stdout.write(json.dumps(said(chat.plan(request(bundle, int(window))))) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
