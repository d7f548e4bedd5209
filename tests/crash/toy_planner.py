"""A planner for a bundle without model files, for tests that plan from a ledger."""

from __future__ import annotations

from functools import cache

from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.prepare import LedgerConversation
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest
from tests.support.toy import ToyBundle

POLICY = "policy-1"


@cache
def toy() -> Planner:
    """Return the planner of the toy bundle, one a process."""
    return Planner(ToyBundle(context_tokens=100_000))


def request_of(text: str = "What now?", window: int = 2_000, **fields: object) -> PlanRequest:
    """Return a request without turns; `window` tokens of input, so that long conversations do not fit."""
    return PlanRequest(
        model_bundle_id=toy().bundle_id, request=CurrentRequest(id="q", text=text), policy_version=POLICY,
        max_input_tokens=window, reserved_output_tokens=64, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def chat_of(ledger: Ledger, conversation: str) -> LedgerConversation:
    """Return a conversation of a ledger, planned for the toy bundle."""
    return toy().ledger_conversation(ledger, conversation)


def plan_of(ledger: Ledger, conversation: str, *, record: bool = True, window: int = 2_000) -> Plan | Refusal:
    """Plan one question from a ledger."""
    return chat_of(ledger, conversation).plan(request_of(window=window), record=record)
