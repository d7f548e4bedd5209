"""Starting the command: fast help, few imports, a help text that teaches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.support import closing, imported_by, planner, small_request, unread

HEAVY = "pydantic rich numpy jinja2 tokenizers transformers sentencepiece platformdirs mistral_common"


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        (["plan", "--help"], HEAVY),
        (["count", "--help"], HEAVY),
        (["nonsense"], HEAVY),
        (["count", "--text", "hello", "--bundle", "reference"], "pydantic numpy transformers rich jinja2"),
        (
            ["count", "--chat", "fixtures/demo/building_desk.chat.json", "--bundle", "reference"],
            "pydantic numpy transformers rich",
        ),
        (["reasons", "--markdown"], HEAVY),
        (
            ["plan", "fixtures/demo/building_desk.request.json", "--bundle", "reference", "--json"],
            "rich numpy transformers",
        ),
    ],
)  # fmt: skip
def test_a_command_imports_only_what_it_needs(arguments: list[str], absent: str) -> None:
    """Libraries are loaded by the command that uses them, so that --help stays near 0.1 s."""
    expected = "2 []" if arguments == ["nonsense"] else "0 []"
    assert imported_by(arguments, absent).splitlines()[-1] == expected


def test_help_shows_commands_and_examples() -> None:
    """A newcomer sees what to type next."""
    done = planner("--help")
    assert (done.code, done.err) == (0, "")
    assert "planner plan REQUEST.json" in done.text
    assert "planner demo" in done.text


def test_no_arguments_show_the_help() -> None:
    """A bare `planner` is no error message without a way on."""
    done = planner()
    assert "Commands" in done.text + done.err


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["plan", "--help"], ["bundle", "list"]])
def test_help_that_nobody_reads_is_no_bug(arguments: list[str]) -> None:
    """`planner --help | head -1` is one line and exit 2, like every output whose reader went away."""
    code, error = unread(*arguments)
    assert "context plan rejected: environment: the reader of the output went away\n" == error
    assert 2 == code


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of this system cannot close a stream")
def test_closed_streams_are_no_bug(tmp_path: Path) -> None:
    """A job started without stdin, stdout or stderr says so where it has to, and works where it need not."""
    request = tmp_path / "request.json"
    request.write_bytes(small_request())
    for arguments in (["plan", request], ["plan", request, "--ids", "-"], ["--help"]):
        done = closing("1", *arguments)
        assert (2, "context plan rejected: environment: the output is closed\n") == (done.code, done.err)
    done = closing("0", "count", "-", "--bundle", "reference")
    assert (2, "context plan rejected: file_not_readable: - is closed\n") == (done.code, done.err)
    done = closing("02", "plan", request, "--json")
    assert (0, "accepted") == (done.code, done.json["receipt"]["outcome"])
    assert 2 == closing("2", "plan", tmp_path / "absent.json").code


def test_the_shell_is_told_the_commands() -> None:
    """Completion scripts come from click, under the variable that docs/cli.md names."""
    import os

    done = planner(env={**os.environ, "_PLANNER_COMPLETE": "bash_source"})
    assert "_planner_completion" in done.text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "invalid-input: no such command; see planner --help"),
        (["plan", "--nope"], "invalid-input: no option --nope; see planner plan --help"),
        (["plan"], "invalid-input: name either a request or --chat; see planner plan --help"),
        (["plan", "a", "b c"], "invalid-input: the arguments do not fit; see planner plan --help"),
        (
            ["plan", "a", "--window", "secret words"],
            "invalid-input: --window has a value of the wrong form; see planner plan --help",
        ),
        (
            ["plan", "a", "--window", "-1"],
            "invalid-input: --window has a value of the wrong form; see planner plan --help",
        ),
        (["count"], "invalid-input: name one of FILE, --text and --chat; see planner count --help"),
        (["explain"], "invalid-input: PLAN|RECEIPT is missing; see planner explain --help"),
        (["plan", ""], "invalid-input: an argument is empty"),
        (["plan", "a", "--bundle", ""], "invalid-input: --bundle is empty"),
        (["count", "--bundle="], "invalid-input: --bundle is empty"),
        (["count", ""], "invalid-input: an argument is empty"),
        (["count", "--nope=a="], "invalid-input: no option --nope; see planner count --help"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_line_and_exit_2(arguments: list[str], line: str) -> None:
    """Nothing the user typed as a value comes back on stderr: it may be a text."""
    done = planner(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert done.err == f"context plan rejected: {line}\n"
