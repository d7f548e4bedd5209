"""A server asked for its template: what is sent to it, and what is no answer."""

from __future__ import annotations

import json

import pytest

from planner.runtimes.llama_renderer import LlamaRenderer
from planner.runtimes.portability import compare
from planner.runtimes.portability_shapes import SHAPES, case
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault
from tests.support.upstream import Upstream

NOW = "2026-11-30T08:00:00Z"
PLAIN = TemplateProfile("")


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({}, "upstream_failed"),
        ({"/props": (200, b"{}")}, "upstream_failed"),
        ({"/props": (200, b'{"chat_template": "x"}')}, "upstream_failed"),
        ({"/props": (200, b'{"chat_template": "x"}'), "/apply-template": (200, b'{"prompt": 1}')}, "upstream_failed"),
        ({"/props": (200, b'{"chat_template": "x"}'), "/apply-template": (404, b"")}, "upstream_failed"),
        ({"/props": (200, b'{"chat_template": "y"}')}, "runtime_mismatch"),
    ],
)
def test_a_server_that_answers_otherwise_is_a_fault(
    upstream: Upstream, answers: dict[str, tuple[int, bytes]], code: str
) -> None:
    """No llama.cpp server, an older one, another template."""
    upstream.answers.update(answers)
    with pytest.raises(PlannerFault) as caught:
        LlamaRenderer(upstream.url, now=NOW).render("x", {}, [case("question", PLAIN)])
    assert code == caught.value.code


def test_only_conversations_of_ours_are_sent(upstream: Upstream) -> None:
    """Eleven of them, and nothing of the bundle but what the server has itself."""
    upstream.answers.update({
        "/props": (200, json.dumps({"chat_template": "x", "build_info": "b1"}).encode()),
        "/apply-template": (500, b"words of the template"),
    })  # fmt: skip
    engine = LlamaRenderer(upstream.url, now=NOW)
    found = compare("x", {"bos_token": "secret"}, [case(name, PLAIN) for name in SHAPES], engine)
    assert {("raises_there", "it raises")} == {(one.verdict, one.cause) for one in found}
    sent = [body for path, body in upstream.asked if path == "/apply-template"]
    assert [set(body) - {"messages", "tools"} for body in sent] == [set()] * 11
    assert "secret" not in json.dumps(sent)
    assert engine.version == "b1"
