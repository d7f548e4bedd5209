"""`planner count`: exact figures from text and chats, the smallest imports, folders without a template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.plan import Plan
from tests.cli.support import CHAT, TOOLS, planner

WORDS = "Größe 3 µm 夜班 <|user|> x"


def test_text_file_stdin_and_option_agree(tmp_path: Path) -> None:
    """Three ways to hand over a text, one number, and it is the engine's own."""
    expected = len(open_bundle("reference").engine.encode(WORDS).ids)
    path = tmp_path / "words.txt"
    path.write_text(WORDS, encoding="utf-8")
    counted = [
        planner("count", path, "--bundle", "reference"),
        planner("count", "-", "--bundle", "reference", stdin=WORDS.encode()),
        planner("count", "--text", WORDS, "--bundle", "reference"),
    ]
    assert {(0, f"{expected}\n")} == {(done.code, done.text) for done in counted}


def test_an_empty_text_has_no_tokens_and_a_newline_has() -> None:
    """The count is of the bytes given: 0 is an answer, a last newline is text."""
    assert planner("count", "-", "--bundle", "reference", stdin=b"").text == "0\n"
    assert int(planner("count", "-", "--bundle", "reference", stdin=b"\n").text) > 0


def test_a_chat_is_counted_as_the_prompt_it_becomes() -> None:
    """The count of a chat that fits equals its plan, part by part."""
    plan = Planner("reference").plan(
        messages=json.loads(CHAT.read_bytes()), tools=json.loads(TOOLS.read_bytes()), max_input_tokens=32768
    )
    assert isinstance(plan, Plan)
    assert plan.removed == ()
    figures = planner("count", "--chat", CHAT, "--tools", TOOLS, "--bundle", "reference", "--json").json
    assert (len(plan.ids), plan.account.history_tokens) == (figures["tokens"], figures["historyTokens"])
    parts = [value for name, value in figures.items() if name.endswith("Tokens")]
    assert sum(parts) == figures["tokens"]


def test_a_chat_beyond_every_window_is_still_counted(tmp_path: Path) -> None:
    """Counting has no window: nothing leaves, whatever the bundle's context is."""
    long = [{"role": "user", "content": "moon " * 200_000}]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(long), encoding="utf-8")
    done = planner("count", "--chat", path, "--bundle", "reference")
    assert (done.code, int(done.text) > 32_768) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "stdin", "line"),
    [
        (["-"], b"\xff canary", "invalid-input: $: is not UTF-8"),
        (["--chat", "-"], b"[]", "nothing_to_answer: $.messages: no user message"),
        (["--chat", "-"], b'{"canary": 1}', "invalid-input: $: has 1 fields a chat does not know"),
        (["x", "--bundle", "no-such"], b"", "bundle_not_found: "),
        (["no-such.txt"], b"", "file_not_readable: no-such.txt does not exist"),
        (["x", "--text", "y"], b"", "invalid-input: name one of FILE, --text and --chat"),
        (["x", "--tools", "t.json"], b"", "invalid-input: --tools goes with --chat"),
    ],
)
def test_what_cannot_be_counted_is_one_line(arguments: list[str], stdin: bytes, line: str) -> None:
    """Exit 2 and no figure at all: a number that is not exact is worse than none."""
    bundle = [] if "--bundle" in arguments else ["--bundle", "reference"]
    done = planner("count", *arguments, *bundle, stdin=stdin)
    assert (done.code, done.out, done.err.count("\n")) == (2, b"", 1)
    assert done.err.startswith(f"context plan rejected: {line}")


def test_a_folder_without_a_template_counts_text_and_refuses_chats(bundle_dir: Path) -> None:
    """litert-spm has no template: text is counted, a chat is `bundle_has_no_template`."""
    folder = bundle_dir / "litert-spm"
    assert int(planner("count", "--text", "hello there", "--bundle", folder).text) > 0
    done = planner("count", "--chat", CHAT, "--bundle", folder)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("context plan rejected: bundle_has_no_template: ")


def test_the_empty_text_has_no_tokens() -> None:
    """An empty text is a text; only an empty name is refused."""
    assert "0\n" == planner("count", "--text", "", "--bundle", "reference").text
    assert "0\n" == planner("count", "--text=", "--bundle", "reference").text
