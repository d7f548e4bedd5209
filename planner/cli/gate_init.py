"""`planner gate init`: a folder with a candidate and a first sample of each family."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.draw import say
from planner.cli.failure import usage
from planner.cli.files import write_output
from planner.cli.gate_candidate import release_options, released


@click.command("init")
@click.argument("folder", metavar="DIR")
@release_options
def command(folder: str, **given: str | None) -> int:
    """Write a candidate and one small sample of each family, to be replaced by those of an app.

    DIR is made; a folder that holds anything is refused.
    """
    from planner.gate.scaffold import scaffold

    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise usage("DIR holds something already")
    files = list(scaffold(released(given), given["bundles"] or ""))
    for name, data in files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        write_output(str(place / name), data)
    say(f"{len(files)} files; see README.md in it")
    return 0
