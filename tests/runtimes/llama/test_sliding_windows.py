"""Behind a sliding window a shared beginning may be gone: what llama.cpp keeps there, and what we then do not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.runtimes.llama_cpp import LlamaServer as Client
from planner.runtimes.llama_cpp import expected_cached
from tests.cli.ledger_support import here
from tests.cli.support import small_request
from tests.runtimes.llama.conftest import REFERENCE
from tests.support.gguf_sliding import sliding_model
from tests.support.gguf_writer import tokenizer_keys
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
CONTEXT, WINDOW, HELD = 2_048, 512, 1_520


@pytest.fixture(scope="module")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose local layers see 512 tokens."""
    template = (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("sliding") / "sliding.gguf"
    path.write_bytes(
        sliding_model(tokenizer_keys(REFERENCE, "gpt-2", template=template), context=CONTEXT, window=WINDOW)
    )
    return path


@pytest.mark.parametrize("whole", [False, True])
def test_a_beginning_is_kept_as_far_as_the_window_reaches_back(sliding: Path, whole: bool) -> None:
    """All of it where no more than half a window is left off, less far beyond; with a full cache, always all."""
    held = [20 + index * 7 % 3_000 for index in range(HELD)]
    kept = {}
    with LlamaServer(sliding, context=CONTEXT, cache_ram_mib=0, swa_full=whole) as server:
        client = Client(server.url)
        for shared in (500, 900, HELD - WINDOW // 2, HELD):
            client.run(held, 1, slot=0)
            new = [*held[:shared], *[5] * 40]
            kept[shared] = client.run(new, 1, slot=0).cached_tokens
            assert kept[shared] <= expected_cached(held, [0], new) == shared
    near = {shared: shared for shared in (HELD - WINDOW // 2, HELD)}
    assert near == {shared: kept[shared] for shared in near}
    # How much less depends on the points the server saved on its way.
    assert [whole, whole] == [kept[500] == 500, kept[900] == 900]


def test_nothing_is_predicted_for_such_a_model(
    sliding: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`planner run` shows what was cached and expects no figure; for the same request on full attention it does."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    path = tmp_path / "request.json"
    path.write_bytes(small_request(previous={"planId": "p-1", "ids": [0, 1], "generatedIds": [2]}))
    with LlamaServer(sliding, context=CONTEXT) as server:
        done = here(capsysbinary, "run", path, "--bundle", sliding, "--url", server.url, "--json")
        full = here(capsysbinary, "run", path, "--bundle", "reference", "--url", server.url, "--json")
    assert (0, None) == (done.code, done.json["cachedTokens"]["planned"])
    assert isinstance(json.loads(full.out)["cachedTokens"]["planned"], int)
