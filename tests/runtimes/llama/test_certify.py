"""Text and messages on a real llama.cpp: its ids are compared with ours, and what it reads otherwise is not covered."""

from __future__ import annotations

import urllib.error
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.digest import bundle_digest
from planner.bundles.records import Records
from planner.bundles.restated import Restated
from planner.certify import certify, remeasure
from planner.planner import Planner
from planner.runtimes.parity import ParitySource
from planner.values.bundle import Bundle
from planner.values.certificate import CertifiedMode
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.request import Options
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.runtimes.llama.conftest import WINDOW
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
CHATS = (
    [{"role": "user", "content": "How many moons has Mars? \u4e24\u4e2a"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"},
     {"role": "assistant", "content": "hello"}, {"role": "user", "content": "what now?"}],
)  # fmt: skip


def deployed(planning: Planner, overhead: int = 0) -> Bundle:
    """Return the served file's bundle with its engine stated."""
    row = RUNTIMES["llama.cpp"]
    runtime = Runtime(row, row.versions[0], overhead_tokens=overhead)
    bundle = planning.encoder().bundle
    return Restated(bundle, runtime=runtime, digest=bundle_digest(replace(bundle.manifest, runtime=runtime)))


def certified(bundle: Bundle, url: str, mode: CertifiedMode, folder: Path) -> Planner:
    """Certify against the server."""
    planner = Planner(bundle, user_folder=folder)
    certify(planner.plan, planner.encoder(), ParitySource(url), mode, Records(folder, bundle.manifest.digest))
    return planner


@pytest.mark.parametrize("mode", ["text", "messages"])
def test_llama_reads_text_and_messages_as_planned(
    server: LlamaServer, planning: Planner, tmp_path: Path, mode: CertifiedMode
) -> None:
    """The certificate rests on equal ids; a certified plan is read by the server as exactly that many tokens."""
    planner = certified(deployed(planning), server.url, mode, tmp_path)
    found = planner.encoder().certificates[mode]
    assert found.exact
    assert {"plain", "system", "turns"} <= set(found.covers)
    assert len(found.vectors) >= 10
    for chat in CHATS:
        plan = planner.plan(messages=chat, max_completion_tokens=8, options=Options(mode=mode))
        assert isinstance(plan, Plan)
        assert "exact" == plan.receipt.count_source
        if mode == "text":
            read = server.post("/completion", {"prompt": plan.prompt, "n_predict": 1})["tokens_evaluated"]
        else:
            body = {"messages": list(plan.messages or ()), "max_tokens": 1}
            read = server.post("/v1/chat/completions", body)["usage"]["prompt_tokens"]
        assert len(plan.ids) == read
        assert "exact" == planner.observe(plan, read).verdict


@pytest.mark.parametrize("mode", ["text", "messages"])
def test_declared_overhead_that_llama_does_not_add_is_refused(
    server: LlamaServer, planning: Planner, tmp_path: Path, mode: CertifiedMode
) -> None:
    """A token declared and not added is as wrong as one added and not declared."""
    with pytest.raises(PlannerFault, match="certificate_refused: a question: "):
        certified(deployed(planning, overhead=1), server.url, mode, tmp_path)


def test_llama_is_asked_again_by_exact_ids(server: LlamaServer, planning: Planner, tmp_path: Path) -> None:
    """After a drift every small conversation is read as planned; declared overhead it does not add is a mismatch."""
    bundle = deployed(planning)
    planner, records = Planner(bundle), Records(tmp_path, bundle.manifest.digest)
    assert remeasure(planner.plan, planner.encoder(), ParitySource(server.url), records) >= 10
    other = Planner(deployed(planning, overhead=1))
    with pytest.raises(PlannerFault, match="runtime_mismatch: a question: "):
        remeasure(other.plan, other.encoder(), ParitySource(server.url), records)


def test_the_window_llama_states_is_the_window_that_is_planned(server: LlamaServer, planning: Planner) -> None:
    """A prompt and reserve that fill the planned window are accepted by the server; its own edge is one beyond."""
    planner = Planner(deployed(planning))
    words = "word " * 9_000
    refused = planner.plan(messages=[{"role": "user", "content": words}], max_completion_tokens=8)
    assert not refused.accepted
    plan = planner.plan(messages=CHATS[0], max_completion_tokens=8)
    assert isinstance(plan, Plan)
    assert WINDOW - 1 == plan.account.input_limit
    full = [plan.ids[0]] * (plan.account.input_limit - 1)
    assert WINDOW - 2 == server.post("/completion", {"prompt": full, "n_predict": 1})["tokens_evaluated"]
    with pytest.raises(urllib.error.HTTPError):
        server.post("/completion", {"prompt": [*full, full[0], full[0]], "n_predict": 1})
