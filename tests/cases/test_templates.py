"""D04..D08: begin tokens, call ids, arguments, neighbours and empty content, as each template takes them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.planner import Planner
from planner.steps.frame_calls import arguments_for, call_alias
from planner.values.plan import Refusal
from planner.values.profile import TemplateProfile
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.turn import Message, ToolResult, Turn
from tests.cases.common import (
    QWEN,
    WIDE,
    accepted,
    case,
    check,
    expect_kept,
    expect_refused,
    on,
    planner_of,
    removed_turns,
    request_of,
    said,
    turn_of,
)
from tests.laws.common import plan_with
from tests.strategies import summary_of
from tests.support.cases import as_chat
from tests.support.reference import ReferenceBundle
from tests.support.toy import ToyBundle

Reference = Callable[[str], ReferenceBundle]
PLANNER = planner_of(QWEN)


def test_D04_the_begin_token_stands_exactly_once(shared_dir: Path, bundle_dir: Path, tmp_path: Path) -> None:
    """Llama 3.1: one begin-of-text id, though the tokenizer would add another one by itself."""
    one = case(shared_dir, "D04")
    planner = on(bundle_dir, "llama-3.1")
    request = request_of(one.input, one.budget, planner.bundle_id)
    answer = expect_kept(planner.plan(request), one.expected["keep"], request)
    bos = 128_000
    check("D04", "the plan's ids start with exactly one", bos == answer.ids[0] and 1 == answer.ids.count(bos))
    check("D04", "total in the ledger equals len(ids)", len(answer.ids) == answer.account.input_tokens)
    spelled = replace(request, request=replace(request.request, text="<|begin_of_text|>hello, how are you?"))
    forged = accepted(planner.plan(spelled))
    check("D04", "a text whose first characters spell", 1 == forged.ids.count(bos) and 1 == forged.receipt.neutralised)
    bare = _without_begin(bundle_dir / "llama-3.1", tmp_path / "bare")
    other = Planner(bare)
    added = accepted(other.plan(replace(request, model_bundle_id=other.bundle_id)))
    check("D04", "for a bundle whose template prints no marker", bos == added.ids[0] and 1 == added.ids.count(bos))


def _without_begin(source: Path, target: Path) -> Path:
    """Copy a folder whose tokenizer adds its begin token; only its template no longer writes it."""
    shutil.copytree(source, target)
    path = target / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["chat_template"] = config["chat_template"].replace("bos_token + content", "content")
    assert "bos_token" not in config["chat_template"]
    path.write_text(json.dumps(config), encoding="utf-8")
    return target


def test_D04_measured_sizes_are_the_references(shared_dir: Path, bundle_dir: Path, reference: Reference) -> None:
    """The ids are transformers' own render, encoded once without further special tokens."""
    one = case(shared_dir, "D04")
    for name in ("llama-3.1", "gemma-3"):
        planner = on(bundle_dir, name)
        answer = accepted(planner.plan(request_of(one.input, one.budget, planner.bundle_id)))
        messages, tools = as_chat(one.input)
        assert reference(name).ids(messages, tools) == answer.ids.tolist()


def test_D04a_gemma_has_one_begin_token(shared_dir: Path, bundle_dir: Path) -> None:
    """Exactly one id 2, at the front."""
    planner = on(bundle_dir, "gemma-3")
    one = case(shared_dir, "D04")
    answer = accepted(planner.plan(request_of(one.input, one.budget, planner.bundle_id)))
    check("D04", "exactly one id 2 at the front", 2 == answer.ids[0] and 1 == answer.ids.count(2))
    assert 15 == len(answer.ids)


@pytest.mark.parametrize("name", ["mistral-nemo", "mistral-v3-spm"])
def test_D05_restricted_call_ids_are_mapped_by_a_fixed_rule(shared_dir: Path, bundle_dir: Path, name: str) -> None:
    """Both stored ids begin with the same nine usable characters; their aliases differ and are counted."""
    one = case(shared_dir, "D05")
    planner = planner_of(name) if name == "mistral-nemo" else on(bundle_dir, name)
    request = request_of(one.input, one.budget, planner.bundle_id)
    answer = expect_kept(planner.plan(request), one.expected["keep_if_accepted"], request)
    stored = ["call_1740241912345", "call_1740249999999"]
    aliases = [call_alias(call_id) for call_id in stored]
    assert all(re.fullmatch("[0-9A-Za-z]{9}", alias) for alias in aliases)
    again = accepted(planner.plan(request))
    kept_ids = [call.id for turn in request.turns for message in turn.messages for call in message.tool_calls]
    check("D05", "if accepted: ids are mapped by a fixed rule",
          aliases[0] != aliases[1] and all(said(answer, planner).count(alias) >= 1 for alias in aliases)
          and not any(call_id in said(answer, planner) for call_id in stored)
          and again.ids == answer.ids and kept_ids == stored)  # fmt: skip
    check("D05", "the library itself does not notice the collision", 2 == answer.receipt.aliased_call_ids)
    same = replace(request, turns=tuple(_renamed(turn, "aaaaaaaa1") for turn in request.turns[:1]))
    assert 0 == accepted(planner.plan(same)).receipt.aliased_call_ids
    refusing = on(bundle_dir, "llama-2-spm")
    refused = refusing.plan(replace(request, model_bundle_id=refusing.bundle_id, policy=(), tools=()))
    check("D05", "if refused: no bare template exception",
          isinstance(refused, Refusal) and refused.reason == "template_refuses_shape")  # fmt: skip
    on_qwen = replace(request, model_bundle_id=QWEN)
    renamed = replace(on_qwen, turns=tuple(_renamed(turn, turn.id) for turn in request.turns))
    plain = accepted(PLANNER.plan(on_qwen))
    check("D05", "a bundle without the rule (qwen3)",
          0 == plain.receipt.aliased_call_ids and accepted(PLANNER.plan(renamed)).ids == plain.ids)  # fmt: skip


def _renamed(turn: Turn, call_id: str) -> Turn:
    messages = []
    for message in turn.messages:
        calls = tuple(replace(call, id=call_id) for call in message.tool_calls)
        result = message.tool_result and replace(message.tool_result, call_id=call_id)
        messages.append(replace(message, tool_calls=calls, tool_result=result))
    return replace(turn, messages=tuple(messages))


def _with_arguments(shared: Path, arguments: Any) -> PlanRequest:
    one = case(shared, "D06")
    given = json.loads(json.dumps(one.input))
    given["history"][0]["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments
    return request_of(given, one.budget)


def test_D06_every_storage_form_of_arguments_is_measured(shared_dir: Path, reference: Reference) -> None:
    """Seven forms of the same call, each counted as it will be sent; qwen3 prints strings as they came."""
    one = case(shared_dir, "D06")
    sizes = one.expected["measured_qwen3_raw_template"]
    answers = {}
    for form, arguments in one.input["argument_variants"].items():
        request = _with_arguments(shared_dir, arguments)
        answers[form] = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    check("D06", "for every variant the ledger total equals",
          all(len(answer.ids) == answer.account.input_tokens for answer in answers.values()))  # fmt: skip
    check("D06", "if the planner normalises", answers["object"].ids == answers["string, same spacing"].ids)
    as_object = TemplateProfile("0" * 64, text_arguments="object")
    check("D06", "if it does not: counts may differ exactly as measured",
          sizes == {form: len(answer.ids) for form, answer in answers.items()}
          and arguments_for('{"city":"Lyon"}', as_object) == {"city": "Lyon"})  # fmt: skip
    check("D06", "the non-JSON string is either passed",
          "city=Lyon" in said(answers["string, not JSON"])
          and arguments_for("city=Lyon", as_object) == "city=Lyon")  # fmt: skip
    check("D06", "non-ASCII stays readable",
          all("苏州" in said(answers[form]) for form in ("object, non-ASCII", "string, raw non-ASCII"))
          and "\\u" not in said(answers["object, non-ASCII"]))  # fmt: skip
    given = json.loads(json.dumps(one.input))
    given["history"][0]["messages"][1]["tool_calls"][0]["function"]["arguments"] = {"city": "苏州", "days": 2}
    messages, tools = as_chat(given)
    assert reference(QWEN).ids(messages, tools) == answers["object, non-ASCII"].ids.tolist()


def test_D07_two_user_messages_are_both_there_or_refused(shared_dir: Path, bundle_dir: Path) -> None:
    """qwen3 takes them; gemma-3 raises, so the plan is refused and the concession is named."""
    one = case(shared_dir, "D07")
    texts = [message["content"] for message in one.input["request"]["messages"]]
    answer = PLANNER.plan(request_of(one.input, one.budget))
    kept = expect_kept(answer, one.expected["keep_if_accepted"], request_of(one.input, one.budget))
    assert one.expected["measured"]["qwen3"] == len(kept.ids)
    gemma = on(bundle_dir, "gemma-3")
    request = request_of(one.input, one.budget, gemma.bundle_id)
    refused = gemma.plan(request)
    joined = accepted(gemma.plan(replace(request, options=Options(concessions=("join_same_role",)))))
    check("D07", "both user texts are in the ids",
          all(text in said(joined, gemma) for text in texts)
          and all(text in said(kept) for text in texts))  # fmt: skip
    check("D07", "if the adapter merges them", "\n\n".join(texts) in said(joined, gemma)
          and ("join_same_role",) == tuple(use.name for use in joined.receipt.concessions)
          and joined.account.input_tokens == len(joined.ids))  # fmt: skip
    check("D07", "no fake assistant message", 1 == said(joined, gemma).count("<start_of_turn>model")
          and 1 == said(kept).count("<|im_start|>assistant"))  # fmt: skip
    check("D07", "no bare template exception", isinstance(refused, Refusal)
          and ("template_refuses_shape", "join_same_role") == (refused.reason, refused.advice.concession)
          and "R1" in refused.detail)  # fmt: skip


def test_D07a_the_check_is_made_on_the_final_list(bundle_dir: Path) -> None:
    """An interrupted turn before the request: gemma refuses both lists, qwen3 carries both, cut or whole."""
    turns = (
        Turn("T1", 1, "completed", (Message("user", text="first " * 40), Message("assistant", text="yes"))),
        Turn("T2", 2, "completed", (Message("user", text="interrupted"),)),
    )
    gemma = on(bundle_dir, "gemma-3")
    for planner in (gemma, PLANNER):
        request = PlanRequest(planner.bundle_id, CurrentRequest(id="R1", text="go on"), turns=turns,
                              max_input_tokens=60, reserved_output_tokens=0, safety_margin_tokens=0)  # fmt: skip
        allowed = replace(request, options=Options(concessions=("join_same_role",)))
        cut = accepted(planner.plan(allowed))
        assert {"turn/T1": "over_budget"} == removed_turns(cut)
        answer = planner.plan(request)
        refused = isinstance(answer, Refusal) and ("template_refuses_shape", "turn R1" in answer.detail) == (
            answer.reason, True)  # fmt: skip
        check("D07", "eviction must not create a list", refused if planner is gemma else answer.accepted)
    # Once the interrupted turn is gone too, the final list is one the template takes.
    alone = PlanRequest(gemma.bundle_id, CurrentRequest(id="R1", text="go on"), turns=turns,
                        max_input_tokens=12, reserved_output_tokens=0, safety_margin_tokens=0)  # fmt: skip
    assert ("turn/R1", "request/R1") == accepted(gemma.plan(alone)).kept


def test_D07b_a_summary_after_a_tool_flow_is_no_user_message_of_its_own(shared_dir: Path) -> None:
    """The state block opens the next user message, fenced and labelled, so strict alternation still holds."""
    strict = Planner(ToyBundle("strict", "char", longest_token_bytes=None))
    flow = turn_of(case(shared_dir, "D06").input["history"][0] | {"id": "T0", "sequence": 1})
    flow = replace(flow, messages=_renamed(flow, "c1").messages)
    told = Turn("T1", 2, "completed", (Message("user", id="u1", text="note " * 60), Message("assistant", text="yes")))
    asked = Turn("T2", 3, "completed", (Message("user", id="u2", text="and then"), Message("assistant", text="no")))
    for planner in (strict, PLANNER):
        request = PlanRequest(planner.bundle_id, CurrentRequest(id="R1", text="go on"), turns=(flow, told, asked),
                              max_input_tokens=10_000, reserved_output_tokens=0, safety_margin_tokens=0)  # fmt: skip
        summary = summary_of("s0", (told,), "The user took notes.")
        whole = accepted(planner.plan(request))
        room = len(whole.ids) - 5
        answer = accepted(plan_with(planner.encoder(), replace(request, max_input_tokens=room), (summary,)))
        assert ("turn/T0", "summary/s0", "turn/T2") == answer.kept[:3]
        opener = "<|user|>" if planner is strict else "<|im_start|>user\n"
        block = opener + "[conversation state: written by the application]"
        check("D07", "the role under which the adapter renders a summary",
              1 == said(answer, planner).count(block) and "system" not in said(answer, planner).split(block)[1]
              and "The user took notes.\n[end of conversation state]\nand then" in said(answer, planner))  # fmt: skip
        without = plan_with(planner.encoder(), replace(request, turns=(flow, asked), max_input_tokens=room), ())
        doubled = Turn("T3", 4, "completed", (Message("user", id="u3", text="hm"),))
        blocked = plan_with(
            planner.encoder(), replace(request, turns=(*request.turns, doubled), max_input_tokens=room), (summary,)
        )
        check("D07", "the same list with the summary removed",
              without.accepted and blocked.accepted == (planner is PLANNER))  # fmt: skip


def test_D08_null_missing_and_empty_content_are_one(shared_dir: Path, bundle_dir: Path) -> None:
    """Three storage forms, the same ids on every bundle that carries calls; the letters None appear nowhere."""
    one = case(shared_dir, "D08")
    for planner in (PLANNER, on(bundle_dir, "llama-3.1"), planner_of("reference")):
        answers, requests = [], []
        for form in (None, "missing", ""):
            given = json.loads(json.dumps(one.input))
            message = given["history"][0]["messages"][1]
            message.pop("content")
            if form != "missing":
                message["content"] = form
            requests.append(request_of(given, one.budget, planner.bundle_id))
            answers.append(expect_kept(planner.plan(requests[-1]), one.expected["keep"], requests[-1]))
        check("D08", "null, a missing key and the empty string", answers[0].ids == answers[1].ids == answers[2].ids)
        check("D08", "the letters None", not any("None" in said(answer, planner) for answer in answers))
        stored = [request.turns[0].messages[1].text for request in requests]
        check("D08", "the ledger stores what came in", [None, None, ""] == stored)
    bare = replace(request_of(one.input, one.budget), tools=())
    assert 65 == len(accepted(PLANNER.plan(bare)).ids)


def test_D08a_an_empty_request_is_a_typed_refusal(shared_dir: Path) -> None:
    """No index error, and T1's user message does not become the question."""
    request = request_of(case(shared_dir, "D08").input, WIDE)
    answer = PLANNER.plan(replace(request, request=replace(request.request, text="")))
    refused = expect_refused(answer, "invalid-input")
    check("D08", "no index error", "invalid-input" == refused.reason and "$.request.text" in refused.detail)


@pytest.mark.parametrize("result", ["", "0"])
def test_D08b_a_falsy_result_is_a_result(shared_dir: Path, result: str) -> None:
    """The turn is complete: it is kept, and its result stands where it belongs."""
    request = request_of(case(shared_dir, "D08").input, WIDE)
    turn = request.turns[0]
    falsy = Message("tool", tool_result=ToolResult("c9", result))
    turn = replace(turn, messages=(*turn.messages[:2], falsy, turn.messages[3]))
    answer = PLANNER.plan(replace(request, turns=(turn,)))
    check("D08", "a falsy result still counts", answer.accepted and "turn/T1" in answer.receipt.kept
          and f"<tool_response>\n{result}\n</tool_response>" in said(accepted(answer)))  # fmt: skip
