"""LlamaIndex #9371: "initial token count exceeds token limit" was a bare ValueError."""

from __future__ import annotations

from planner.values.plan import Refusal
from planner.values.request import OutputSchema
from tests.laws.common import toy, with_room
from tests.peers.support import chat, loop_turn, plan


def test_T10_an_overflow_names_every_figure_and_the_smallest_shortfall() -> None:
    """Limit, policy, tools, request, framing and reserve are there, and so many tokens more are just enough."""
    request = chat(loop_turn(1), output_schema=OutputSchema("s", {"type": "object"}), reserved_output_tokens=30)
    bare = plan(chat(output_schema=request.output_schema))
    for room in (1, 40, len(bare.ids) - 1):
        refused = toy().plan(with_room(request, room))
        assert isinstance(refused, Refusal)
        assert "context_policy_overflow" == refused.outcome
        account = refused.account
        assert account is not None
        lines = (account.policy_tokens, account.tool_tokens, account.request_tokens, account.framing_tokens)
        assert min(lines) > 0
        assert (room + 30, 30) == (account.input_limit, account.reserved_output_tokens)
        assert len(bare.ids) == sum(lines)
        assert len(bare.ids) - room == refused.tokens_missing
        assert toy().plan(with_room(request, room + refused.tokens_missing)).accepted
        assert not toy().plan(with_room(request, room + refused.tokens_missing - 1)).accepted
