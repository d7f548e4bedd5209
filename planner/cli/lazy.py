"""A group of commands whose files are imported only when they run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group over a table of name to short help; `<prefix><name>.py` of this folder holds `command`, dashes as `_`."""

    def __init__(self, *arguments: Any, table: Mapping[str, str], prefix: str = "", **fields: Any) -> None:
        """Keep the table; nothing is imported."""
        super().__init__(*arguments, **fields)
        self._table = table
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; None for an unknown name."""
        if cmd_name not in self._table:
            return None
        found: click.Command = import_module(f"planner.cli.{self._prefix}{cmd_name.replace('-', '_')}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
