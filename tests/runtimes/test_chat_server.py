"""The one call by ids or messages: what it sends, what it takes for an answer, and what it says when there is none."""

from __future__ import annotations

import json

import pytest

from planner.runtimes.chat_server import ChatServer
from planner.values.reasons import PlannerFault
from tests.support.upstream import CANARY, Upstream


def test_ids_go_to_llama_as_they_are(upstream: Upstream) -> None:
    """The exact ids are the prompt, and the server's own count must be theirs."""
    upstream.answers["/completion"] = (200, b'{"content":"{}","tokens_evaluated":3,"stop_type":"eos"}')
    done = ChatServer(upstream.url).complete_ids([5, 6, 7], 40)
    assert ("{}", "stop", 3) == (done.text, done.finish, done.prompt_tokens)
    assert [5, 6, 7] == upstream.asked[0][1]["prompt"]
    assert (40, 0) == (upstream.asked[0][1]["n_predict"], upstream.asked[0][1]["temperature"])


def test_another_token_count_is_a_mismatch(upstream: Upstream) -> None:
    """A server that read another number of tokens runs another bundle (R41)."""
    upstream.answers["/completion"] = (200, b'{"content":"x","tokens_evaluated":4,"stop_type":"eos"}')
    with pytest.raises(PlannerFault) as caught:
        ChatServer(upstream.url).complete_ids([5, 6, 7], 40)
    assert "runtime_mismatch" == caught.value.code


@pytest.mark.parametrize(("stop", "finish"), [("limit", "length"), ("eos", "stop"), ("word", "stop")])
def test_a_cut_answer_is_told_from_a_finished_one(upstream: Upstream, stop: str, finish: str) -> None:
    """An answer that ran into its limit must never be read as a whole one (R59)."""
    upstream.answers["/completion"] = (
        200, json.dumps({"content": "x", "tokens_evaluated": 1, "stop_type": stop}).encode()
    )  # fmt: skip
    assert finish == ChatServer(upstream.url).complete_ids([1], 1).finish


def test_messages_go_to_any_other_server(upstream: Upstream) -> None:
    """The OpenAI shape: messages in, one message out; the base URL may end in /v1."""
    answer = {"choices": [{"message": {"content": "yes"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 9}}
    upstream.answers["/v1/chat/completions"] = (200, json.dumps(answer).encode())
    server = ChatServer(upstream.url + "/v1/", model="m")
    done = server.complete_messages([{"role": "user", "content": "x"}], 5)
    assert ("yes", "length", 9) == (done.text, done.finish, done.prompt_tokens)
    assert ("m", 5) == (upstream.asked[0][1]["model"], upstream.asked[0][1]["max_tokens"])


def test_a_server_that_keeps_reasoning_apart_cut_the_answer_off(upstream: Upstream) -> None:
    """Without words because the limit was met in the reasoning: a cut answer, not a broken one."""
    for reason, wanted in (("length", "length"), ("stop", None)):
        answer = {"choices": [{"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": reason}]}
        upstream.answers["/v1/chat/completions"] = (200, json.dumps(answer).encode())
        if wanted is not None:
            done = ChatServer(upstream.url).complete_messages([{"role": "user", "content": "x"}], 5)
            assert ("", wanted) == (done.text, done.finish)
            continue
        with pytest.raises(PlannerFault, match="no message content"):
            ChatServer(upstream.url).complete_messages([{"role": "user", "content": "x"}], 5)


def test_llama_is_told_by_its_settings(upstream: Upstream) -> None:
    """Only llama.cpp answers /props with its generation settings."""
    assert ChatServer(upstream.url).is_llama() is False
    upstream.answers["/props"] = (200, b'{"default_generation_settings":{"n_ctx":512}}')
    assert ChatServer(upstream.url).is_llama() is True


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, CANARY.encode()), (302, b""), (200, b"no json " + CANARY.encode()), (200, b"[]"), (200, b"{}"),
        (200, b'{"content":7,"tokens_evaluated":1}'), (200, b'{"content":"x","tokens_evaluated":-1}'),
        (200, b'{"content":"x","content":"y","tokens_evaluated":1}'),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_fault_without_its_text(upstream: Upstream, status: int, body: bytes) -> None:
    """An error page, a redirect or a broken answer is upstream_failed; nothing of it is in the fault."""
    upstream.answers["/completion"] = (status, body)
    with pytest.raises(PlannerFault) as caught:
        ChatServer(upstream.url).complete_ids([1], 1)
    assert "upstream_failed" == caught.value.code
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert CANARY not in str(caught.value)
    assert "/elsewhere" not in [path for path, _ in upstream.asked]


def test_no_server_is_upstream_down() -> None:
    """A port nobody listens on, and an address that is none."""
    for url in ("http://127.0.0.1:9", "ftp://127.0.0.1", "http://", "http://h/?q=1"):
        with pytest.raises(PlannerFault) as caught:
            ChatServer(url, timeout_s=2).complete_ids([1], 1)
        assert "upstream_down" == caught.value.code
        assert caught.value.__context__ is None
