"""`planner run` against a real llama.cpp, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from tests.cli.ledger_support import here
from tests.cli.support import CHAT, REQUEST, ROOT, TOOLS, planner, small_request
from tests.runtimes.llama.conftest import WINDOW
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
Capture = pytest.CaptureFixture[bytes]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference blocks a bundle for its user: here for nobody else."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def test_a_request_is_answered_and_counted(server: LlamaServer, reference_gguf: Path) -> None:
    """In a process of its own: the answer on stdout, one line of figures on stderr."""
    options = ("--bundle", reference_gguf, "--window", "2048", "--reserve", "30")
    done = planner("run", REQUEST, "--url", server.url, *options)
    assert 0 == done.code, done.err
    total = len(planner("plan", REQUEST, *options, "--json").json["ids"])
    assert f"prompt tokens: {total} planned, {total} reported; cached: " in done.err
    assert 1 < len(done.out)


def test_a_conversation_goes_on_from_what_the_server_keeps(
    server: LlamaServer, reference_gguf: Path, tmp_path: Path, capsysbinary: Capture
) -> None:
    """The first call's ids and answer as `previous`: what is cached is predicted, and a lost cache is found."""
    path, options = tmp_path / "request.json", ("--bundle", reference_gguf, "--url", server.url, "--json")
    path.write_bytes(small_request(modelBundleId="reference.gguf"))
    plan = here(capsysbinary, "plan", path, "--bundle", reference_gguf, "--json").json
    first = here(capsysbinary, "run", path, *options).json
    assert [] == first["differences"]
    turns = [*json.loads(small_request())["turns"], {
        "id": "t2", "sequence": 2, "state": "completed",
        "messages": [{"id": "q", "role": "user", "text": "And Venus?"},
                     {"id": "a", "role": "assistant", "text": "None."}],
    }]  # fmt: skip
    previous = {"planId": plan["receipt"]["planId"], "ids": plan["ids"], "generatedIds": first["generatedIds"]}
    path.write_bytes(small_request(turns=turns, previous=previous, request={"id": "q2", "text": "And Earth?"}))
    second = here(capsysbinary, "run", path, *options)
    assert 0 == second.code, second.err
    cached = second.json["cachedTokens"]
    assert cached["planned"] == cached["reported"] > 10
    server.post("/completion", {"prompt": [1, 2, 3], "n_predict": 1})
    lost = here(capsysbinary, "run", path, *options)
    assert 2 == lost.code
    assert f"cached tokens: {cached['planned']} planned, 0 reported" in lost.err


def test_a_named_slot_keeps_its_conversation(
    reference_gguf: Path, planning: Planner, tmp_path: Path, capsysbinary: Capture
) -> None:
    """Of two slots one is named: what runs in the other one takes nothing from its cache."""
    path, before = tmp_path / "request.json", planning.plan(messages=[{"role": "user", "content": "moon " * 90}],
                                                            max_input_tokens=700)  # fmt: skip
    assert isinstance(before, Plan)
    previous = {"planId": before.receipt.plan_id, "ids": list(before.ids), "generatedIds": []}
    path.write_bytes(small_request(previous=previous, request={"id": "q", "text": "moon " * 90}, policy=[], turns=[]))
    with LlamaServer(reference_gguf, context=1_024, n_parallel=2, kv_unified=False, cache_ram_mib=0) as server:
        options = ("run", path, "--bundle", reference_gguf, "--url", server.url, "--json", "--window", "500")
        found = {}
        for slot in ("1", "0"):
            server.post("/completion", {"prompt": list(before.ids), "n_predict": 1, "id_slot": 1})
            server.post("/completion", {"prompt": [1, 2, 3], "n_predict": 1, "id_slot": 0})
            found[slot] = here(capsysbinary, *options, "--slot", slot)
        unnamed = here(capsysbinary, *options)
    kept = found["1"].json["cachedTokens"]
    assert (0, kept["planned"]) == (found["1"].code, kept["reported"])
    assert 50 < kept["planned"]
    assert (2, 1) == (found["0"].code, len(found["0"].json["differences"]))
    assert (0, None) == (unnamed.code, unnamed.json["cachedTokens"]["planned"])


def test_another_model_behind_the_address_is_found(server: LlamaServer, tmp_path: Path, capsysbinary: Capture) -> None:
    """A plan for a larger window than the server's is refused before the call; a chat within it is run."""
    chat = ("run", "--chat", CHAT, "--tools", TOOLS, "--url", server.url, "--bundle", "reference")
    done = here(capsysbinary, *chat)
    assert (2, "") == (done.code, done.text)
    assert f"the plan is made for 32768 tokens, the server's window has {WINDOW}" in done.err
    assert 0 == here(capsysbinary, *chat, "--window", "4096", "--json").code


def test_the_example_of_the_page_runs(server: LlamaServer, reference_gguf: Path) -> None:
    """The code of docs/runtimes.md, with this server and this file in it."""
    page = (ROOT / "docs" / "runtimes.md").read_text(encoding="utf-8")
    code = page.split("```python\n", 1)[1].split("```", 1)[0]
    code = code.replace("./model.gguf", str(reference_gguf)).replace("http://127.0.0.1:8080", server.url)
    names: dict[str, Any] = {"chat": [{"role": "user", "content": "How many moons has Mars?"}]}
    exec(code.replace("max_input_tokens=4096", "max_input_tokens=700"), names)
    assert ("exact", len(names["plan"].ids)) == (names["seen"].verdict, names["served"].prompt_tokens)
