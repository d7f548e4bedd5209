"""R182, R184, R185: the sources' codes to the letter, refusals without ids, receipts with every field."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.digest import final_input_digest
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.reasons import CODES, OVERFLOW_CODES, PlannerFault, outcome_of
from planner.values.request import CurrentRequest, Options, TextItem
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_receipt, dump_refusal
from tests.laws.common import plan_with, sizes, toy, with_room
from tests.steps.test_layers import full_request
from tests.strategies import summary_of
from tests.support.toy import ToyBundle

WHOLE = {"source_versions": (1, 1), "protected_fingerprint": "0" * 64}
"""What makes a summary valid as a record; its fingerprint is still another one."""
STRICT = Planner(ToyBundle("strict", "char", longest_token_bytes=None))


def every_refusal() -> Iterator[Refusal]:
    """Give a refusal of each kind the core can give."""
    request = full_request()
    spelled = replace(request, options=Options(mode="text"), policy=(TextItem("p", "<|end|>"),))
    twice = (
        Turn("t1", 1, "completed", (Message("user", text="a"),)),
        Turn("t2", 2, "completed", (Message("user", text="b"),)),
    )
    answered = Turn("t9", 9, "open", (Message("user", text="a"), Message("assistant", text="b")))
    asked = [
        (toy(), replace(request, max_input_tokens=20)),
        (toy(), replace(request, max_input_tokens=0)),
        (toy(), spelled),
        (toy(), replace(request, device_window=100)),
        (
            toy(),
            replace(
                request,
                summaries=(summary_of("s", request.turns[:1], "sea"),),
                request=replace(request.request, on_invalid_summary="refuse"),
            ),
        ),
        (toy(), replace(request, turns=(answered,), request=CurrentRequest())),
        (toy(), replace(request, template_options={"other": 1})),
        (STRICT, replace(request, model_bundle_id=STRICT.bundle_id, turns=twice)),
        (Planner(ToyBundle()), replace(request, policy=(TextItem("p", "x" * 90_000),))),
    ]
    for planner, one in asked:
        answer = planner.plan(one)
        assert isinstance(answer, Refusal), answer
        yield answer
    from_list = toy().plan(messages=[{"role": "tool", "content": "x", "tool_call_id": "c"}])
    assert isinstance(from_list, Refusal)
    yield from_list


def test_R182_source_named_codes_spelled_exactly() -> None:
    """The codes the sources name are in the one table, letter for letter, and are what answers carry."""
    named = ("context_policy_overflow", "insufficient_evidence", "invalid-input", "invalid-summary", "stale-source")
    for code in named:
        assert code == CODES[code].name == outcome_of(code)
        assert "refusal" == CODES[code].kind
    assert OVERFLOW_CODES == {name for name in CODES if outcome_of(name) == "context_policy_overflow"}
    request = full_request()
    overflow, invalid = (toy().plan(replace(request, max_input_tokens=limit)) for limit in (20, 0))
    assert ("context_policy_overflow", "invalid-input") == (overflow.receipt.outcome, invalid.receipt.outcome)
    assert overflow.line().startswith("context plan rejected: context_policy_overflow: ")  # type: ignore[union-attr]
    assert invalid.line().startswith("context plan rejected: invalid-input: ")  # type: ignore[union-attr]
    bad, stale = (summary_of("s", request.turns[:1], "sea", **change) for change in ({}, WHOLE))
    judging = replace(request, conversation_id="chat", request=replace(request.request, on_invalid_summary="refuse"))
    citing = replace(request, passages=(), request=replace(request.request, requires_citation=True))
    for code, asked in (
        ("invalid-summary", replace(judging, summaries=(bad,))),
        ("stale-source", replace(judging, summaries=(stale,))),
        ("insufficient_evidence", citing),
    ):
        answer = toy().plan(asked)
        assert isinstance(answer, Refusal), code
        assert (code,) * 4 == (answer.outcome, answer.reason, answer.receipt.outcome, answer.receipt.reason)
    with pytest.raises(KeyError):
        PlannerFault("context-policy-overflow", "another spelling is no code")


def _numbers(value: Any) -> Iterator[Any]:
    if is_dataclass(value):
        for one in fields(value):
            yield from _numbers(getattr(value, one.name))
    elif isinstance(value, (array, list, tuple)):
        yield value
        for item in value:
            yield from _numbers(item)


def test_R184_refusal_has_no_ids() -> None:
    """No refusal of any kind holds ids, a prompt, messages or a run of numbers that could be ids."""
    reasons = set()
    for answer in every_refusal():
        reasons.add(answer.reason.partition(":")[0])
        assert not answer.accepted
        for name in ("ids", "prompt", "messages", "spans", "plan_file", "numpy"):
            assert not hasattr(answer, name)
        assert not [found for found in _numbers(answer) if isinstance(found, array)]
        assert not [found for found in _numbers(answer) if len(found) and all(type(item) is int for item in found)]
        receipt = answer.receipt
        assert (None, None, None, None) == (
            receipt.final_input_digest, receipt.cache_key, receipt.prefix, receipt.front_tokens)  # fmt: skip
        assert () == receipt.kept
        assert b'"ids":' not in dump_refusal(answer)
    assert {
        "context_policy_overflow", "invalid-input", "control_text_in_field", "not_supported_yet", "nothing_to_answer",
        "template_refuses_shape", "input_too_large",
    } <= reasons  # fmt: skip


def test_R185_receipt_fields() -> None:
    """Bundle, template and policy version, generation, token split, summary versions, kept, removed, digest."""
    request = replace(
        full_request(), policy_version="pv7", generation=4, revision=9, conversation_id="chat-1", candidate_id="k",
        app_version="1.2+3", now="2026-11-30T12:00:00Z", passages=(Passage("c1", "sea", 0.5),),
    )  # fmt: skip
    summary = summary_of("s", request.turns[2:3], "x", summary_version=6)
    loose = replace(
        request.turns[2], messages=tuple(replace(one, text="rain " * 60) for one in request.turns[2].messages)
    )
    request = replace(request, turns=(*request.turns[:2], loose, request.turns[3]))
    answer = plan_with(toy().encoder(), with_room(request, sizes(toy(), request)[0] - 1), (summary,))
    assert isinstance(answer, Plan)
    receipt, manifest = answer.receipt, toy().encoder().bundle.manifest
    assert ("toy-plain-char", manifest.digest) == (receipt.model_bundle_id, receipt.bundle_digest)
    assert (manifest.template_version, manifest.template_digest, manifest.template_entry) == (
        receipt.template_version, receipt.template_digest, receipt.template_entry)  # fmt: skip
    assert ("pv7", 4, 9, "chat-1", "k", "1.2+3", "2026-11-30T12:00:00Z") == (
        receipt.policy_version, receipt.generation, receipt.revision, receipt.conversation_id, receipt.candidate_id,
        receipt.app_version, receipt.now)  # fmt: skip
    assert answer.account == receipt.account
    assert ("s@6",) == receipt.summary_versions
    assert (answer.kept, answer.removed) == (receipt.kept, receipt.removed)
    assert {"turn/t3"} == {entry.id for entry in receipt.removed if entry.reason == "replaced_by_summary"}
    assert final_input_digest(manifest.digest, answer.ids) == receipt.final_input_digest
    assert ("accepted", None, "ids", "exact", "none") == (
        receipt.outcome, receipt.reason, receipt.mode, receipt.count_source, receipt.runtime)  # fmt: skip
    written = dump_receipt(receipt).decode()
    for name in ("modelBundleId", "templateVersion", "policyVersion", "generation", "account", "summaryVersions",
                 "kept", "removed", "finalInputDigest"):  # fmt: skip
        assert f'"{name}":' in written


def test_R185_every_call_leaves_a_receipt() -> None:
    """A refusal's receipt has the same identity fields as a plan's, once the bundle is known."""
    unknown = set()
    for answer in every_refusal():
        receipt = answer.receipt
        if receipt.bundle_digest is None or receipt.request_digest is None or receipt.template_digest is None:
            unknown.add(f"{answer.reason} {answer.detail.partition(':')[0]}")
        assert receipt.plan_id.startswith("p-")
        assert receipt.model_bundle_id.startswith("toy-")
        assert answer.outcome == receipt.outcome
        assert answer.reason == receipt.reason
        assert dump_receipt(receipt)
    # Refused by the request alone, before a bundle is opened; a later refusal names bundle, template and request.
    assert {
        "invalid-input $.maxInputTokens", "not_supported_yet $.deviceWindow", "nothing_to_answer $.request",
        "nothing_to_answer $.messages",
    } == unknown  # fmt: skip
    refused = toy().plan(replace(full_request(), max_input_tokens=20, policy_version="pv7", generation=3))
    assert ("pv7", 3, toy().encoder().bundle.manifest.digest) == (
        refused.receipt.policy_version, refused.receipt.generation, refused.receipt.bundle_digest)  # fmt: skip
    assert refused.receipt.request_digest is not None


def test_R185_item_digests_need_a_key() -> None:
    """Digests of single items are keyed by the caller, other per key, and absent without one (X50)."""
    keyed = [Planner(ToyBundle(), digest_key=key).plan(full_request()) for key in (b"a", b"a", b"b")]
    first, again, other = (dict(answer.receipt.item_digests) for answer in keyed)
    assert first == again
    assert set(first) == set(other)
    assert all(first[item] != other[item] for item in first)
    assert {} == dict(toy().plan(full_request()).receipt.item_digests)


def test_every_plan_id_names_its_call() -> None:
    """Two requests that are not equal never share a plan id, an overflowing one included."""
    request = full_request()
    calls = [
        request, replace(request, max_input_tokens=20), replace(request, generation=2),
        replace(request, options=Options(mode="text")), replace(request, turns=request.turns[1:]),
    ]  # fmt: skip
    ids = [toy().plan(one).receipt.plan_id for one in calls]
    assert len(set(ids)) == len(ids)
