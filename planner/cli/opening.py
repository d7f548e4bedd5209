"""A ledger on the command line: which file, opened how, and a bar for what takes long."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from planner.values.account import wire_field
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.ledger.ledger import Ledger
    from planner.values.switches import Switches

F = TypeVar("F", bound=Callable[..., Any])
Move = Callable[[int], None]

ledger_option = click.option("--ledger", required=True, metavar="DB", help="The file of the ledger.")
conversation_option = click.option("--conversation", required=True, metavar="ID", help="Id of the conversation.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
off_option = click.option("--off", type=click.Choice(("store", "model", "status")), multiple=True, metavar="PART",
                          help="Switch one part of compaction off, may be repeated: store, model, status.")  # fmt: skip


def open_ledger(name: str, *, create: bool = False, read_only: bool = False, unchecked: bool = False) -> Ledger:
    """Open a ledger; only `create` makes a file. Raises PlannerFault."""
    from planner.ledger.ledger import Ledger

    if not create and not Path(name).is_file():
        raise PlannerFault("ledger_io", "no such file")
    return Ledger.open(name, read_only=read_only, unchecked=unchecked)


def open_as_possible(name: str) -> Ledger:
    """Open a ledger for writing, or for reading where its file may not be written. Raises PlannerFault."""
    if not Path(name).exists() or os.access(name, os.W_OK):
        try:
            return open_ledger(name)
        except PlannerFault as fault:
            if fault.code != "ledger_read_only":
                raise
    return open_ledger(name, read_only=True)


def switches(off: tuple[str, ...]) -> Switches:
    """Return the switches of `--off` (R212)."""
    from planner.values.switches import Switches

    return Switches(store="store" not in off, model="model" not in off, status="status" not in off)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Move]:
    """Show a bar on stderr while something long runs, if a person is looking; the callable takes what is done."""
    if not sys.stderr.isatty():
        yield _unseen
        return
    from planner.cli.draw_ledger import moving_bar

    with moving_bar(label, total) as move:
        yield move


def _unseen(_: int) -> None:
    """Show nothing: no terminal."""


def as_tree(value: Any) -> Any:
    """Return a value as plain JSON, its fields in camelCase.

    >>> from planner.values.compaction import Staleness
    >>> as_tree((Staleness("s1", "source_changed"),))[0]["summaryId"]
    's1'
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {wire_field(one.name): as_tree(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_tree(item) for item in value]
    return value
