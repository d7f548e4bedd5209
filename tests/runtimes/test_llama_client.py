"""The client of llama.cpp against a server that says anything: figures are taken strictly, or there is no answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.runtimes.http_json import sayable
from planner.runtimes.llama_cpp import Limits, LlamaServer, check_room, differences, expected_cached
from planner.values.reasons import PlannerFault
from tests.support.upstream import CANARY, Upstream

END: dict[str, Any] = {
    "content": "", "tokens": [], "stop": True, "stop_type": "eos", "truncated": False, "id_slot": 0,
    "tokens_evaluated": 5, "tokens_predicted": 2, "timings": {"cache_n": 3, "prompt_n": 2},
}  # fmt: skip
PROPS = {"default_generation_settings": {"n_ctx": 512}, "total_slots": 2}
SLOTS = [{"id": 0, "n_ctx": 512}, {"id": 1, "n_ctx": 256}]


def stream(*events: object, tail: bytes = b"data: [DONE]\n\n") -> bytes:
    """Return server-sent events."""
    return b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\n\n" for one in events) + tail


def piece(text: str) -> dict[str, Any]:
    """Return an event in the middle of an answer."""
    return {"content": text, "tokens": [1], "stop": False, "tokens_evaluated": 5}


def test_an_answer_is_heard_piece_by_piece(upstream: Upstream) -> None:
    """Exact ids go out, pieces come in, and the end brings the figures."""
    upstream.answers["/completion"] = (200, stream(piece("one "), piece("two\x00\uffff"), END))
    heard: list[str] = []
    served = LlamaServer(upstream.url).run([1, 2, 3, 4, 5], 7, heard=heard.append, slot=1)
    assert ["one ", "two\x00\uffff"] == heard
    assert ("one two\x00\uffff", None, "stop", False) == (served.text, served.ids, served.finish, served.truncated)
    assert (5, 3, 2, 0) == (served.prompt_tokens, served.cached_tokens, served.answer_tokens, served.slot)
    path, body = upstream.asked[0]
    assert ("/completion", [1, 2, 3, 4, 5], 7, 1, True) == (
        path, body["prompt"], body["n_predict"], body["id_slot"], body["stream"]
    )  # fmt: skip
    assert "prompt" not in body["response_fields"]


def test_a_whole_answer_has_all_its_ids(upstream: Upstream) -> None:
    """Without a listener nothing is streamed, and as many ids come back as the server made."""
    upstream.answers["/completion"] = (200, json.dumps(END | {"content": "x", "tokens": [8, 9]}).encode())
    served = LlamaServer(upstream.url).run([1, 2, 3, 4, 5], 7)
    assert ((8, 9), "x") == (served.ids, served.text)
    assert upstream.asked[0][1]["stream"] is False
    upstream.answers["/completion"] = (200, json.dumps(END | {"content": "x", "tokens": [8]}).encode())
    with pytest.raises(PlannerFault, match="upstream_failed"):
        LlamaServer(upstream.url).run([1, 2, 3, 4, 5], 7)


NO_END = {
    "no end": stream(piece(CANARY)),
    "an error in between": stream(piece(CANARY), tail=b"error: " + CANARY.encode() + b"\n\n"),
    "no JSON": stream(piece("x"), tail=b"data: {" + CANARY.encode() + b"\n\n"),
    "a list": stream([CANARY]),
    "no text": stream(END | {"content": None}),
    "counts do not add up": stream(END | {"tokens_evaluated": 6}),
    "no count": stream(END | {"tokens_evaluated": None}),
    "a count below 0": stream(END | {"timings": {"cache_n": -1, "prompt_n": 6}}),
    "no timings": stream(END | {"timings": None}),
    "another end": stream(END | {"stop_type": CANARY}),
    "a flag as a number": stream(END | {"truncated": 0}),
    "a key twice": b'data: {"stop": true, "stop": true}\n\n',
    "nothing": b"",
}


@pytest.mark.parametrize("name", NO_END)
def test_a_broken_stream_is_no_answer(upstream: Upstream, name: str) -> None:
    """What is no complete answer is upstream_failed, without a word of it."""
    upstream.answers["/completion"] = (200, NO_END[name])
    with pytest.raises(PlannerFault) as caught:
        LlamaServer(upstream.url).run([1, 2, 3, 4, 5], 7, heard=lambda _: None)
    assert "upstream_failed" == caught.value.code
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_that_stops_coming_is_none(upstream: Upstream, whole: bool, silent: bool) -> None:
    """A connection that closes early or goes silent: whatever had arrived is no answer, and is not repeated."""
    upstream.answers["/completion"] = (200, stream(piece(CANARY), tail=b""))
    upstream.missing_bytes = 10
    if silent:
        upstream.going_on.clear()
    with pytest.raises(PlannerFault) as caught:
        LlamaServer(upstream.url, timeout_s=0.2).run([1], 7, heard=None if whole else (lambda _: None))
    upstream.going_on.set()
    assert ("upstream_down" if silent else "upstream_failed") == caught.value.code
    assert caught.value.__context__ is None
    assert CANARY not in str(caught.value)


def _refusal(**error: object) -> bytes:
    return json.dumps({"error": {"code": 400, "message": CANARY, **error}}).encode()


def test_a_prompt_that_is_too_long_is_a_mismatch_with_the_servers_numbers(upstream: Upstream) -> None:
    """Count and window of the server are in the fault; any other refusal is its status alone."""
    too_long = {"type": "exceed_context_size_error", "n_prompt_tokens": 600, "n_ctx": 512}
    for body, code, words in (
        (_refusal(**too_long), "runtime_mismatch", "600 tokens for its window of 512"),
        (_refusal(**too_long | {"n_ctx": CANARY}), "upstream_failed", "status 400"),
        (_refusal(type="invalid_request_error"), "upstream_failed", "status 400"),
        (CANARY.encode(), "upstream_failed", "status 400"),
    ):
        upstream.answers["/completion"] = (400, body)
        with pytest.raises(PlannerFault) as caught:
            LlamaServer(upstream.url).run([1], 7)
        assert code == caught.value.code
        assert words in caught.value.detail
        assert CANARY not in str(caught.value)


def test_the_window_is_that_of_the_smallest_slot_or_of_the_named_one(upstream: Upstream) -> None:
    """Never what was configured; a server that lists no slots is believed by its settings."""
    upstream.answers["/props"] = (200, json.dumps(PROPS).encode())
    upstream.answers["/slots"] = (200, json.dumps(SLOTS).encode())
    server = LlamaServer(upstream.url)
    assert [Limits(256, 2), Limits(512, 2), Limits(256, 2)] == [server.limits(slot) for slot in (None, 0, 1)]
    with pytest.raises(PlannerFault, match="upstream_failed: the server has 2 slots"):
        server.limits(2)
    upstream.answers["/slots"] = (501, b"")
    upstream.answers["/props"] = (200, json.dumps(PROPS | {"endpoint_slots": False}).encode())
    assert Limits(512, 2) == server.limits()


@pytest.mark.parametrize(
    ("props", "slots"),
    [
        ({}, SLOTS), (PROPS | {"total_slots": "2"}, SLOTS), (PROPS | {"default_generation_settings": {}}, SLOTS),
        (PROPS | {"default_generation_settings": []}, SLOTS), (PROPS, SLOTS[:1]), (PROPS, {"slots": SLOTS}),
        (PROPS, SLOTS[::-1]), (PROPS, [SLOTS[0], {"id": 1}]), (PROPS, [SLOTS[0], 7]),
    ],
)  # fmt: skip
def test_limits_that_are_none_are_refused(upstream: Upstream, props: object, slots: object) -> None:
    """Another server, or another version that says it otherwise."""
    upstream.answers["/props"] = (200, json.dumps(props).encode())
    upstream.answers["/slots"] = (200, json.dumps(slots).encode())
    with pytest.raises(PlannerFault, match="upstream_failed"):
        LlamaServer(upstream.url).limits()


def test_a_plan_needs_its_window_and_one_token_beyond_its_prompt() -> None:
    """The server's window may be larger than the plan's, never smaller; a prompt that fills it is refused."""
    check_room(Limits(512, 1), 512, 511)
    check_room(Limits(513, 1), 512, 512)
    for window, prompt, words in ((513, 10, "513 tokens, the server's window has 512"), (512, 512, "at most 511")):
        with pytest.raises(PlannerFault, match=f"runtime_mismatch: .*{words}"):
            check_room(Limits(512, 1), window, prompt)


def test_every_figure_that_is_not_the_plans_is_named(upstream: Upstream) -> None:
    """Prompt tokens always, cached ones only below what is certain, the answer where the window cut it."""
    upstream.answers["/completion"] = (
        200, json.dumps(END | {"tokens": [1, 2], "truncated": True, "stop_type": "limit"}).encode()
    )  # fmt: skip
    served = LlamaServer(upstream.url).run([1, 2, 3, 4, 5], 9)

    def named(*plan: int | None) -> list[tuple[str, int, int]]:
        rows = differences(served, *plan)  # type: ignore[arg-type]
        return [(one.what, one.planned, one.reported) for one in rows]

    cut = ("answer tokens before the window ended", 9, 2)
    assert [] == named(5, 2) == named(5, 2, 3) == named(5, 2, 2)
    assert [("prompt tokens", 6, 5), ("cached tokens", 4, 3), cut] == named(6, 9, 4)
    served = replace(served, truncated=False)
    assert [] == named(5, 9)
    assert [("answer tokens", 1, 2)] == named(5, 1)


def test_a_slot_keeps_all_but_the_last_generated_token() -> None:
    """By the rule written out: what the slot holds, as far as it is equal, and at least one token is left to do."""
    for prompt, made, new in (
        ([1, 2], [3, 4], [1, 2, 3, 4, 5]), ([1, 2], [3, 4], [1, 2, 9]), ([1, 2], [], [1, 2]), ([], [], [1]),
        ([1, 2], [3], [1, 2, 3]), ([7], [], [1, 2]), ([1, 2, 3], [4], [1]),
    ):  # fmt: skip
        held = prompt + made[:-1]
        equal = max(n for n in range(min(len(held), len(new)) + 1) if held[:n] == new[:n])
        assert min(equal, len(new) - 1) == expected_cached(prompt, made, new)


def test_half_a_character_can_be_written() -> None:
    """A lone surrogate in an answer would end the output with an error of ours."""
    assert ("a?b", "夜\x00") == (sayable("a\udc00b"), sayable("夜\x00"))
