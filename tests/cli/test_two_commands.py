"""From a GGUF file and an OpenAI list to a plan in two commands, as a new user would type them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.bundles.gguf.conftest import WITH_TEMPLATE, gguf_dir, vocabulary_path
from tests.cli.support import planner

__all__ = ["gguf_dir"]

CHAT = [
    {"role": "user", "content": "Which lock is on the north gate?"},
    {"role": "assistant", "content": "A padlock with four digits."},
    {"role": "user", "content": "And on the south gate?"},
]
LINES = ("policyTokens", "toolTokens", "requestTokens", "historyTokens", "retrievalTokens", "framingTokens")


@pytest.mark.parametrize("name", WITH_TEMPLATE)
def test_two_commands_lead_from_a_gguf_file_and_a_list_to_a_plan(gguf_dir: Path, tmp_path: Path, name: str) -> None:
    """Every shared vocabulary that carries a template; both exit 0, nothing is asked, nothing is on stderr."""
    home = {**os.environ, **{key: str(tmp_path) for key in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")}}
    (tmp_path / "chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    added = planner("bundle", "add", vocabulary_path(gguf_dir, name), "--id", "m", env=home)
    assert (0, "") == (added.code, added.err)
    planned = planner("plan", "--chat", tmp_path / "chat.json", "--bundle", "m", "--json", env=home)
    assert (0, "") == (planned.code, planned.err)
    account = planned.json["account"]
    assert len(planned.json["ids"]) == sum(account[line] for line in LINES) > 20
    assert "m" == planned.json["receipt"]["modelBundleId"]
