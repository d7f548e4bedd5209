"""D10, D12, D17, D20: counts belong to the final list, its template and its tokenizer, and to no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.values.digest import final_input_digest
from planner.values.plan import Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest
from planner.wire.dump import event_fields
from tests.cases.common import (
    QWEN,
    WIDE,
    accepted,
    case,
    check,
    expect_kept,
    limits,
    on,
    planner_of,
    removed_turns,
    request_of,
    said,
    turn_of,
)
from tests.support.cases import as_chat
from tests.support.reference import ReferenceBundle

Reference = Callable[[str], ReferenceBundle]
PLANNER = planner_of(QWEN)


def test_D10_only_what_the_template_keeps_is_counted(shared_dir: Path, reference: Reference) -> None:
    """A stored answer with a thinking block costs what the same answer without it costs."""
    one = case(shared_dir, "D10")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    measured = one.expected["measured_qwen3"]
    turn = request.turns[0]
    clean = replace(turn, messages=(turn.messages[0], replace(turn.messages[1], text="Take line 4.")))
    same = accepted(PLANNER.plan(replace(request, turns=(clean,))))
    check("D10", "historyTokens reflects the stripped answer",
          same.account.history_tokens == answer.account.history_tokens < measured["stored_answer_alone"])  # fmt: skip
    messages, tools = as_chat(one.input)
    right = reference(QWEN).ids(messages, tools)
    check("D10", "one encoding of the whole framed list",
          right == answer.ids.tolist() and measured["actual"] == len(answer.ids))  # fmt: skip
    check("D10", "same result as if the stored answer", same.ids == answer.ids)


def test_D10a_thinking_of_the_open_turn_is_counted(shared_dir: Path) -> None:
    """After the last user message the template keeps the thinking, so it is in ids and account."""
    one = case(shared_dir, "D10")
    request = request_of(one.input, WIDE)
    thought = "Let me weigh the two bus lines again. " * 5
    call = {"id": "c1", "type": "function", "function": {"name": "buses", "arguments": {"to": "harbour"}}}
    own = {
        "id": "R2", "sequence": 9, "state": "open",
        "messages": [
            {"role": "user", "content": "Check the times."},
            {"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "18:05"},
        ],
    }  # fmt: skip
    opened = replace(request, turns=(*request.turns, turn_of(own)), request=CurrentRequest(id="R2", turn_id="R2"))
    answer = accepted(PLANNER.plan(opened))
    spoken = turn_of(own)
    bare = replace(
        spoken, messages=(spoken.messages[0], replace(spoken.messages[1], reasoning=None), spoken.messages[2])
    )
    without = accepted(PLANNER.plan(replace(opened, turns=(*request.turns, bare))))
    check("D10", "thinking after the last user message", thought.strip() in said(answer)
          and answer.account.open_turn_tokens - without.account.open_turn_tokens > 30)  # fmt: skip


def test_D10b_a_template_switch_is_part_of_the_plan(shared_dir: Path) -> None:
    """enable_thinking false adds four tokens of framing, and the request is another one."""
    request = request_of(case(shared_dir, "D10").input, WIDE)
    plain = accepted(PLANNER.plan(request))
    silent = accepted(PLANNER.plan(replace(request, template_options={"enable_thinking": False})))
    check("D10", "the empty thinking scaffold",
          4 == silent.account.framing_tokens - plain.account.framing_tokens == len(silent.ids) - len(plain.ids)
          and silent.receipt.request_digest != plain.receipt.request_digest
          and silent.receipt.cache_key != plain.receipt.cache_key)  # fmt: skip


def test_D12_a_late_system_message_is_data_in_its_place(shared_dir: Path, bundle_dir: Path) -> None:
    """Where the template carries it, it stands in its turn; elsewhere the plan is refused with the turn id."""
    one = case(shared_dir, "D12")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep_if_accepted"], request)
    assert one.expected["measured"]["qwen3"] == len(answer.ids)
    gone = accepted(
        PLANNER.plan(replace(request, **limits({"inputLimit": 40, "reservedOutput": 0, "safetyMargin": 0})))
    )
    check("D12", "role system inside history", ("policy/P1", "turn/R1", "request/R1") == gone.kept
          and {"turn/T1..turn/T2": "over_budget"} == removed_turns(gone))  # fmt: skip
    reminder = request.turns[1].messages[0].text or "-"
    places = [said(answer).index(text) for text in ("There were none.", reminder, "Is the build folder empty?")]
    check("D12", "if accepted the reminder's text is in the ids", sorted(places) == places
          and reminder in PLANNER.encoder().bundle.engine.decode(answer.ids))  # fmt: skip
    gemma = on(bundle_dir, "gemma-3")
    refused = gemma.plan(replace(request, model_bundle_id=gemma.bundle_id))
    check("D12", "no bare template exception", isinstance(refused, Refusal)
          and ("role_not_supported", True) == (refused.reason, "turn T2" in refused.detail))  # fmt: skip


def test_D12a_a_developer_message_is_never_lost(shared_dir: Path, bundle_dir: Path) -> None:
    """qwen3's template renders the developer role to nothing: refused; where it is carried, it is there."""
    request = request_of(case(shared_dir, "D12").input, WIDE)
    turn = request.turns[1]
    turn = replace(turn, messages=(replace(turn.messages[0], role="developer"), *turn.messages[1:]))
    request = replace(request, turns=(request.turns[0], turn))
    reminder = turn.messages[0].text or "-"
    refused = PLANNER.plan(request)
    assert isinstance(refused, Refusal)
    assert ("role_not_supported", True) == (refused.reason, "turn T2" in refused.detail)
    for name in ("llama-3.1", "gemma-3", "gpt-oss"):
        planner = on(bundle_dir, name)
        answer = planner.plan(replace(request, model_bundle_id=planner.bundle_id))
        check("D12", "never accepted with the text missing", isinstance(answer, Refusal)
              or reminder in planner.encoder().bundle.engine.decode(answer.ids))  # fmt: skip


def test_D12b_the_older_turn_leaves_whatever_roles_it_holds(shared_dir: Path) -> None:
    """T1 goes first; a newer turn is not outranked by the one with a system message."""
    one = next(variant for variant in case(shared_dir, "D12").variants if variant["id"] == "D12b")
    request = request_of(case(shared_dir, "D12").input, one["budget"])
    answer = expect_kept(PLANNER.plan(request), one["expected"]["keep_if_accepted"], request)
    turns = (replace(request.turns[1], sequence=1), replace(request.turns[0], sequence=2))
    swapped = accepted(PLANNER.plan(replace(request, turns=turns, max_input_tokens=188)))
    check("D12", "T1, the older turn, is removed", {"turn/T1": "over_budget"} == removed_turns(answer)
          and {"turn/T2": "over_budget"} == removed_turns(swapped))  # fmt: skip


def test_D17_every_script_is_counted_by_the_bundles_own_tokenizer(shared_dir: Path, bundle_dir: Path) -> None:
    """Six scripts, three tokenizers, the measured counts; the plan keeps T2 and T3."""
    one = case(shared_dir, "D17")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    measured = one.expected["measured"]
    assert measured["qwen3_plan"]["T2_T3"] == len(answer.ids)
    assert {"turn/T1": "over_budget"} == removed_turns(answer)
    planners = {"qwen3": PLANNER, "llama3_1": on(bundle_dir, "llama-3.1"), "gemma3": on(bundle_dir, "gemma-3")}
    wrong = [
        (name, family)
        for name, text in one.input["texts_to_count"].items()
        for family, planner in planners.items()
        if len(planner.encoder().bundle.engine.encode(text).ids) != measured["texts"][name][family]
    ]
    check("D17", "every count is the bundle's own tokenizer's", [] == wrong)
    wide = replace(request, **limits(WIDE))
    sizes = {
        family: len(accepted(planner.plan(replace(wide, model_bundle_id=planner.bundle_id))).ids)
        for family, planner in planners.items()
    }
    digests = {planner.encoder().bundle.manifest.digest for planner in planners.values()}
    check("D17", "no count may be reused", 3 == len(set(sizes.values())) == len(digests) and 559 == sizes["qwen3"])
    texts = [message.text or "" for turn in request.turns[1:] for message in turn.messages]
    check("D17", "no message is cut inside a character",
          all(text in PLANNER.encoder().bundle.engine.decode(answer.ids) for text in texts))  # fmt: skip


def test_D18_and_D17_share_no_estimate(shared_dir: Path) -> None:
    """The sum of all lines is the number of ids for each script alone as a question."""
    one = case(shared_dir, "D17")
    base = request_of(one.input, WIDE)
    for text in one.input["texts_to_count"].values():
        answer = accepted(PLANNER.plan(replace(base, turns=(), request=CurrentRequest(id="R1", text=text))))
        assert len(answer.ids) == sum(event_fields(answer.account).values())


def test_D20_a_count_belongs_to_its_bundle(shared_dir: Path, bundle_dir: Path, reference: Reference) -> None:
    """Switched to llama and back: encoded anew, and the first plan comes again byte for byte."""
    one = case(shared_dir, "D20")
    request = request_of(one.input, one.budget)
    first = accepted(PLANNER.plan(request))
    sizes = one.expected["measured"]
    assert sizes["all_turns"]["qwen3"] == len(first.ids)
    llama = on(bundle_dir, "llama-3.1")
    second = accepted(llama.plan(replace(request, model_bundle_id=llama.bundle_id)))
    other = llama.encoder().bundle.manifest
    own_digest = first.receipt.bundle_digest or ""
    check("D20", "step 3: rejected as belonging to another",
          own_digest != other.digest
          and final_input_digest(other.digest, first.ids) != first.receipt.final_input_digest
          and final_input_digest(own_digest, first.ids) == first.receipt.final_input_digest)  # fmt: skip
    messages, tools = as_chat(one.input)
    seen = second.receipt
    check("D20", "step 4: everything is encoded anew",
          reference("llama-3.1").ids(messages, tools) == second.ids.tolist()
          and (llama.bundle_id, other.digest) == (seen.model_bundle_id, seen.bundle_digest))  # fmt: skip
    back = accepted(PLANNER.plan(request))
    check("D20", "step 5: same ids and same digest",
          back.ids == first.ids and back.receipt == first.receipt)  # fmt: skip
    with pytest.raises(PlannerFault) as fault:
        PLANNER.plan(replace(request, model_bundle_id="qwen3-0.7b"))
    check("D20", "an unknown modelBundleId", "bundle_not_found" == fault.value.code)


def test_D20a_the_smaller_count_keeps_more(shared_dir: Path, bundle_dir: Path) -> None:
    """One request, a limit between two bundles' sizes: one keeps five turns, the other drops T1."""
    one = next(variant for variant in case(shared_dir, "D20").variants if variant["id"] == "D20a")
    request = request_of(case(shared_dir, "D20").input, one["budget"])
    gemma = on(bundle_dir, "gemma-3")
    small = accepted(gemma.plan(replace(request, model_bundle_id=gemma.bundle_id)))
    large = accepted(PLANNER.plan(request))
    check("D20", "the bundle with the smaller count", {} == removed_turns(small)
          and {"turn/T1": "over_budget"} == removed_turns(large)
          and (640, 669) == (len(small.ids), len(large.ids)))  # fmt: skip
