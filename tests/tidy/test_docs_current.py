"""Generated pages are current, every command and every code is documented."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from planner.cli import bundle as bundle_commands
from planner.cli import gate as gate_commands
from planner.cli.main import COMMANDS, group
from planner.gate.codes import ROWS as GATE_ROWS
from planner.values.reasons import ROWS as REASON_ROWS
from tests.tidy.sources import ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        ["reasons", "--check", str(ROOT / "docs" / "reasons.md")],
        ["schema", "--check", str(ROOT / "docs" / "schema" / "plan-request.schema.json")],
    ],
)
def test_generated_pages_are_current(arguments: list[str]) -> None:
    """What is generated equals what its source says today."""
    done = CliRunner().invoke(group, arguments, standalone_mode=False)
    assert (done.return_value, done.output) == (0, "")


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += _commands(inner, f"{path} {name}")
    return found


def test_every_command_and_option_is_documented() -> None:
    """docs/cli.md has a heading for each command and names each of its options."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    missing = []
    for path, command in _commands(group, "planner"):
        if isinstance(command, click.Group):
            continue
        if f"## {path}\n" not in page:
            missing.append(path)
            continue
        section = page.split(f"## {path}\n", 1)[1].split("\n## ", 1)[0]
        missing += [
            f"{path} {option}"
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in parameter.opts
            if f"`{option}" not in section
        ]
    assert missing == []


def test_every_command_teaches() -> None:
    """Each command has a help text, and each command or its group shows an example."""
    for path, command in _commands(group, "planner"):
        assert command.help, path
        group_of = group.get_command(click.Context(group), path.split()[1]) if " " in path else group
        assert "planner" in (command.epilog or getattr(group_of, "epilog", "") or ""), path


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    """The table that --help prints without importing a command repeats the first line of its help."""
    rows = [(group, *row) for row in COMMANDS.items()]
    for owned in (bundle_commands, gate_commands):
        rows += [(owned.command, *row) for row in owned.COMMANDS.items()]
    for owner, name, sentence in rows:
        command = owner.get_command(click.Context(owner), name)
        assert command is not None
        first = (command.help or "").split("\n\n")[0].replace("\n", " ").strip()
        assert sentence == first


def test_every_reader_page_is_linked() -> None:
    """A page that README and architecture do not lead to, by way of other pages too, is not found."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/architecture.md"))
    reached: set[str] = set()
    while found := {name for name in pages.keys() - reached if name in text}:
        reached |= found
        text = "".join(pages[name] for name in found)
    assert pages.keys() - reached == set()


def test_no_code_has_two_rows() -> None:
    """Of two rows one is never read, and which one depends on their order."""
    for rows in (REASON_ROWS, GATE_ROWS):
        names = [row.name for row in rows]
        assert [] == sorted({name for name in names if names.count(name) > 1})
