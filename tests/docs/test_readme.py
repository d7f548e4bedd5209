"""The page a newcomer reads first tells the truth: every example is run."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.docs.readme_blocks import README, blocks, save_files, with_output

PAGE = README.read_text(encoding="utf-8")


def test_console_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    """Each command of README, run in order in one folder, prints the lines below it."""
    found = blocks(PAGE)
    save_files(found, tmp_path)
    shown = [block.text for block in found if block.kind == "console"]
    assert shown, "README shows no command"
    assert shown == [with_output(text, tmp_path) for text in shown]


def test_console_examples_hold_a_plan_and_a_refusal() -> None:
    """One plan and one refusal are the least a newcomer should see."""
    shown = "".join(block.text for block in blocks(PAGE) if block.kind == "console")
    assert "accepted" in shown
    assert "context plan rejected: " in shown
    assert "[exit 2]" in shown


def test_python_examples_hold() -> None:
    """The library examples are doctests."""
    texts = [block.text for block in blocks(PAGE) if block.kind == "python"]
    assert texts
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, text in enumerate(texts):
        test = doctest.DocTestParser().get_doctest(text, {}, f"README block {number}", None, None)
        assert test.examples, "a python block without a >>> line is not run"
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_the_two_make_commands_come_with_their_plain_lines() -> None:
    """People without make find the same steps spelled out."""
    for line in ("make demo", "make test", "pip install -e .", "--no-deps --require-hashes", "planner demo"):
        assert line in PAGE
