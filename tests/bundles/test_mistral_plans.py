"""Plans for the shipped mistral-nemo bundle have the ids of mistral-common's own chat encoder."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from tests.support.mistral_chats import Chat, Writer

pytest.importorskip("mistral_common", reason="the extra `mistral` is not installed")

from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

CHATS = 100


@pytest.fixture(scope="module")
def judge() -> Any:
    files = importlib.metadata.distribution("mistral-common").files or []
    path = Path(str(next(file for file in files if file.name == "tekken_240718.json").locate()))
    return MistralTokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner("mistral-nemo")


def without_empty_rules(chat: Chat) -> Chat:
    """Take out empty system texts: a policy item without words still gets its blank line in our framing."""
    messages, tools = chat
    return [m for m in messages if m["role"] != "system" or m["content"]], tools


def test_one_hundred_plans_have_the_ids_of_mistral_common(judge: Any, planner: Planner) -> None:
    """100 of 100 accepted, and every id equal; the account sums to their number."""
    wrong = []
    for seed in range(CHATS):
        messages, tools = without_empty_rules(Writer(seed).chat())
        request: ChatCompletionRequest[Any] = ChatCompletionRequest.model_validate(
            {"messages": messages, "tools": tools}
        )
        expected = list(judge.encode_chat_completion(request).tokens)
        plan = planner.plan(messages=messages, tools=tools)
        same = isinstance(plan, Plan) and list(plan.ids) == expected
        if not same or plan.account is None or plan.account.input_tokens != len(expected):
            wrong.append(seed)
    assert wrong == []
