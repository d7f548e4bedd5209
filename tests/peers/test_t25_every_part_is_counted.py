"""pydantic-ai-harness #580 and others: schemas counted 0, tool results 0, Chinese a quarter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.planner import Planner
from planner.values.account import INPUT_FIELDS
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.oracles.chat import chat
from tests.strategies import tool_of
from tests.support.reference import ReferenceBundle

TEXTS = {
    "english": "The pump in bay three is loud today.",
    "chinese": "三号车间的水泵今天很吵。",
    "mixed": "Bay 三 is 很吵 today.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_T25_planned_tokens_are_the_ids_and_the_parts_add_up(
    reference: Callable[[str], ReferenceBundle], language: str
) -> None:
    """With tools, schema, calls and results: the count is that of the model's own tokenizer, and no part counts 0."""
    text = TEXTS[language]
    planner = Planner("qwen3-0.6b")
    loop = (Message("user", text=text), Message("assistant", tool_calls=(ToolCall("c1", "send", {"q": text}),)),
            Message("tool", tool_result=ToolResult("c1", text * 3)), Message("assistant", text=text))  # fmt: skip
    request = PlanRequest(
        "qwen3-0.6b", CurrentRequest(id="q", text=text), policy=(TextItem("p", text),), tools=(tool_of("send", text),),
        output_schema=OutputSchema("s", {"type": "object", "title": text}), turns=(Turn("t", 1, "completed", loop),),
    )  # fmt: skip
    answer = planner.plan(request)
    assert isinstance(answer, Plan)
    messages = [
        {key: value for key, value in one.items() if value or key == "content"} for one in chat(request, ["t"], ())
    ]
    right = reference("qwen3-0.6b").ids(messages, [dict(tool.declaration) for tool in request.tools])
    assert right == answer.ids.tolist()
    account = answer.account
    assert len(right) == account.input_tokens == sum(getattr(account, name) for name in INPUT_FIELDS)
    alone = len(planner.encoder().bundle.engine.encode(text).ids)
    assert {account.items["policy/p"], account.items["request/q"]} <= {alone - 1, alone}, (
        "a last dot may join a line end"
    )
    assert account.schema_tokens > alone
    assert account.tool_tokens > 2 * alone
    assert account.history_tokens >= 6 * alone, "question, argument, three times in the result, answer"
