"""Add up where every token of the prompt went (R35, R36, X40)."""

from __future__ import annotations

from collections.abc import Sequence

from planner.encoding.assemble import Assembled
from planner.values.account import Account
from planner.values.receipt import PartUse
from planner.values.request import PlanRequest
from planner.values.window import Window

_FIELD_OF_SECTION = {
    "policy": "policy_tokens",
    "tool": "tool_tokens",
    "request": "request_tokens",
    "history": "history_tokens",
    "retrieval": "retrieval_tokens",
}
_FIELD_OF_WHICH = {
    "schema": "schema_tokens",
    "constraint": "constraint_tokens",
    "summary": "summary_tokens",
    "open_turn": "open_turn_tokens",
    "notice": "notice_tokens",
    "conflict": "conflict_tokens",
}


def account(assembled: Assembled, request: PlanRequest, window: Window, parts: Sequence[PartUse] = ()) -> Account:
    """Return the account of a prompt; whatever no item owns alone is framing.

    parts  parts of the prompt that are no text, whose placeholders count as tokens of their messages

    The six input lines add up to the number of ids by construction.
    """
    lines = dict.fromkeys((*_FIELD_OF_SECTION.values(), *_FIELD_OF_WHICH.values()), 0)
    for (section, of_which), tokens in assembled.lines.items():
        # A carried constraint stands in the history, so that the front stays stable, and is policy all the same.
        lines["policy_tokens" if of_which == "constraint" else _FIELD_OF_SECTION[section]] += tokens
        if of_which:
            lines[_FIELD_OF_WHICH[of_which]] += tokens
    total = len(assembled.ids)
    split = request.reserved_output
    return Account(
        **lines,
        reserved_output_tokens=window.reserved,
        framing_tokens=total - sum(assembled.lines.values()),
        reasoning_reserve_tokens=split.reasoning if split is not None else 0,
        safety_margin_tokens=window.margin,
        runtime_overhead_tokens=window.overhead,
        runtime_kept_tokens=window.kept,
        input_limit=window.total,
        part_tokens=sum(part.tokens for part in parts),
        headroom_tokens=max(0, window.budget - total),
        items=dict(assembled.charges),
    )
