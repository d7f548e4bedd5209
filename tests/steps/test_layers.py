"""R19..R21, R28, R29, R46, R216: what a block is, what never leaves, and what happens where it does not fit."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import get_args

import pytest

import planner.steps as steps_package
from planner.planner import Planner
from planner.steps.ladder import ladder
from planner.steps.layer import blocks, layer
from planner.steps.recall import recall
from planner.values.bundle import Tier
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem
from planner.values.rung import LAYER_OF_KIND, Block, BlockKind, Layer
from planner.values.turn import Message, ToolCall, Turn
from planner.values.window import Window
from tests.laws.common import kept, said, sizes, toy, with_current, with_room
from tests.plan_summaries.common import asking, summed, talk
from tests.plan_summaries.common import plan as short
from tests.strategies import summary_of, tool_of
from tests.support.toy import ToyBundle

IMMUTABLE = (
    "policy/p", "scope/d", "schema/answer", "tool/tool-send", "preference/f", "parameter/r", "turn/q", "request/q",
)  # fmt: skip


def _turn(number: int, state: str = "completed", **fields_: object) -> Turn:
    messages = (Message("user", id=f"u{number}", text=f"note {number}", **fields_),  # type: ignore[arg-type]
                Message("assistant", id=f"a{number}", text="rain " * 10))  # fmt: skip
    return Turn(f"t{number}", number, state, messages)  # type: ignore[arg-type]


def full_request(bundle_id: str = "toy-plain-char") -> PlanRequest:
    """Return a request with one of everything that can be planned."""
    return PlanRequest(
        bundle_id, CurrentRequest(id="q", text="and now?", required_parameters=(TextItem("r", "metric"),)),
        policy=(TextItem("p", "be brief"),), data_scope=(TextItem("d", "own data only"),),
        preferences=(TextItem("f", "short"),), tools=(tool_of("send", "send it"),),
        output_schema=OutputSchema("answer", {"type": "object"}),
        turns=(_turn(1), _turn(2, protection_reason="audit-evidence"), _turn(3), _turn(4)),
        passages=(Passage("c1", "sea", 0.5), Passage("c2", "land", 0.1)),
        max_input_tokens=10_000, reserved_output_tokens=10, safety_margin_tokens=2,
    )  # fmt: skip


def _blocks(request: PlanRequest) -> dict[str, Block]:
    summary = summary_of("s", request.turns[2:3], "sea")
    return {block.key: block for block in blocks(layer(request, with_current(request, (summary,))))}


def test_R19_three_layers_closed_set() -> None:
    """Every block of a request with everything is in one of three layers, by a table over closed kinds."""
    assert {"immutable", "summarizable", "evictable"} == set(get_args(Layer)) == set(LAYER_OF_KIND.values())
    assert set(get_args(BlockKind)) == set(LAYER_OF_KIND)
    found = _blocks(full_request())
    assert set(IMMUTABLE) == {key for key, block in found.items() if block.layer == "immutable"}
    assert {"turn/t1", "turn/t2", "turn/t3", "turn/t4", "summary/s"} == {
        key for key, block in found.items() if block.layer == "summarizable"
    }
    assert {"passage/c1", "passage/c2"} == {key for key, block in found.items() if block.layer == "evictable"}
    assert "pinned_turn" == found["turn/t2"].kind


def test_R20_immutable_contents() -> None:
    """System policy, allowlist, data scope, output schema and required parameters stay in the leanest plan."""
    request = full_request()
    found = _blocks(request)
    for key in IMMUTABLE:
        assert "immutable" == found[key].layer, key
    least = sizes(toy(), request)[-1]
    answer = toy().plan(with_room(request, least))
    assert isinstance(answer, Plan)
    assert {*IMMUTABLE, "turn/t2"} == set(answer.kept)
    for text in ("be brief", "own data only", "send it", '{"type": "object"}', "parameter: metric"):
        assert text in said(answer)


def test_R21_layer_set_at_block_creation() -> None:
    """No block without a kind, none changed later, and no step knows a size when it gives a layer."""
    with pytest.raises(TypeError):
        Block("turn/t1")  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        Block("turn/t1", "important").layer  # type: ignore[arg-type]  # noqa: B018
    block = Block("turn/t1", "summarizable")
    with pytest.raises((FrozenInstanceError, AttributeError)):
        block.kind = "immutable_policy"  # type: ignore[misc]
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        block.layer = "immutable"  # type: ignore[misc]
    request = full_request()
    tight = with_room(request, 1)
    assert _blocks(request) == _blocks(tight), "an overflow changes no layer"
    source = Path(steps_package.__path__[0]) / "layer.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert all(name and name.startswith(("planner.values", "__future__")) for name in imported)
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert named.isdisjoint({"text", "words", "parts", "arguments", "summary_text", "declaration"})


def test_R28_immutable_never_removed() -> None:
    """At every window from nothing to everything: the immutable items are all there, or there is no plan."""
    request = full_request()
    measured = sizes(toy(), request)
    layered = layer(request, recall(request))
    moves = ladder(layered, request.options, lambda _: 1).moves
    assert set(IMMUTABLE).isdisjoint(key for move in moves for key in move.leaves)
    plans = 0
    for room in range(1, measured[0] + 2, 7):
        answer = toy().plan(with_room(request, room))
        if isinstance(answer, Plan):
            plans += 1
            assert set(IMMUTABLE) <= set(answer.kept)
            assert {entry.id for entry in answer.removed}.isdisjoint(IMMUTABLE)
        else:
            assert room < measured[-1]
    assert plans > 10


def test_R29_immutable_plus_request_too_big_refused() -> None:
    """One token short of policy, tools and request: context_policy_overflow with figures, nothing trimmed."""
    request = replace(full_request(), turns=(), passages=())
    least = sizes(toy(), request)[-1]
    assert toy().plan(with_room(request, least)).accepted
    refused = toy().plan(with_room(request, least - 1))
    assert isinstance(refused, Refusal)
    assert ("context_policy_overflow",) * 2 == (refused.outcome, refused.reason)
    assert 1 == refused.tokens_missing
    assert refused.account is not None
    assert least == refused.account.input_tokens, "the whole of it was measured, nothing was cut to make it fit"
    assert ("preference/f",) == refused.advice.droppable


@pytest.mark.parametrize(
    ("reason", "turns", "question"),
    [
        ("open_turn_overflow", (_turn(1),), None),
        ("protected_history_overflow", (_turn(1, protection_reason="pending-confirmation"),), "be"),
    ],
)
def test_R29_finer_codes_share_the_outcome(reason: str, turns: tuple[Turn, ...], question: str | None) -> None:
    """The open turn and protected turns have codes of their own under the same terminal state."""
    if question is None:
        call = Message("assistant", tool_calls=(ToolCall("c", "send", {"a": "x" * 200}),))
        turns = (*turns, Turn("q", 9, "open", (Message("user", text="go"), call)))
    request = PlanRequest("toy-plain-char", CurrentRequest(id="q", text=question), turns=turns, max_input_tokens=60,
                          reserved_output_tokens=0, safety_margin_tokens=0)  # fmt: skip
    refused = toy().plan(request)
    assert isinstance(refused, Refusal)
    assert ("context_policy_overflow", reason) == (refused.outcome, refused.reason)
    assert refused.line().startswith(f"context plan rejected: context_policy_overflow: {reason}: ")
    assert toy().plan(replace(request, max_input_tokens=60 + refused.tokens_missing)).accepted


def test_R46_limit_never_raised_to_pass() -> None:
    """The limit is the smallest of request, tier and context; reserve and margin stay whole in every plan."""
    tiers = (Tier("small", 150), Tier("large", 400))
    planner = Planner(ToyBundle(context_tokens=300, tiers=tiers, longest_token_bytes=None))
    request = replace(full_request(), turns=(), passages=(), tools=(), max_input_tokens=None)
    for asked, tier, right in ((None, "small", 150), (200, "small", 150), (250, None, 250), (9_999, None, 300),
                               (9_999, "large", 300), (None, "large", 300)):  # fmt: skip
        answer = planner.plan(replace(request, max_input_tokens=asked, tier_id=tier))
        account = answer.account
        assert account is not None
        assert (right, 10, 2) == (account.input_limit, account.reserved_output_tokens, account.safety_margin_tokens)
        assert answer.accepted == (account.input_tokens + 12 <= right)
    full = sizes(toy(), replace(request, max_input_tokens=1))[0]
    for room in (full - 1, full):
        answer = planner.plan(with_room(request, room))
        assert answer.accepted == (room == full)
    window = Window(total=20, reserved=15, margin=9)
    assert -4 == window.budget, "a budget below nothing is not rounded up"


def test_R46_a_refusal_names_the_tiers_that_would_fit() -> None:
    """A larger tier is advice for the caller; the planner does not take it."""
    tiers = (Tier("small", 150), Tier("large", 4_000))
    planner = Planner(ToyBundle(tiers=tiers, longest_token_bytes=None))
    refused = planner.plan(replace(full_request(), max_input_tokens=None, tier_id="small"))
    assert isinstance(refused, Refusal)
    assert ("large",) == refused.advice.tiers
    assert planner.plan(replace(full_request(), max_input_tokens=None, tier_id="large")).accepted


def test_R216_structured_request_parts_are_all_planned() -> None:
    """Policy, tools, schema, whole turns, passages, request and reserve: each has its place in the plan."""
    request = full_request()
    answer = toy().plan(request)
    assert isinstance(answer, Plan)
    names = {entry.name for entry in fields(PlanRequest)}
    parts = ("policy", "tools", "output_schema", "turns", "summaries", "passages", "request", "reserved_output_tokens")
    assert set(parts) <= names
    assert {*IMMUTABLE, "turn/t1", "turn/t2", "turn/t3", "turn/t4", "passage/c1", "passage/c2"} == set(answer.kept)
    account = answer.account
    lines = (account.policy_tokens, account.tool_tokens, account.request_tokens, account.history_tokens,
             account.retrieval_tokens, account.reserved_output_tokens, account.schema_tokens)  # fmt: skip
    assert min(lines) > 0
    assert ("t1", "t2", "t3", "t4", "q") == kept(answer, "turn")
    told = short(summed(asking(talk(1), talk(2), talk(3)), (1, 2)), 500)
    assert (("s1",), ("t3", "q")) == (kept(told, "summary"), kept(told, "turn"))
    assert told.account.summary_tokens > 0
