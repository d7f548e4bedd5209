"""`planner gate export-vectors`: what a port in another language must answer, as plain JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import planner_for
from planner.cli.failure import usage
from planner.cli.files import not_readable, write_output
from planner.cli.whatif import split

if TYPE_CHECKING:
    from planner.gate.vectors import Ported


@click.command("export-vectors")
@click.argument("folder", metavar="DIR")
@click.option("--samples", required=True, metavar="DIR", help="Folder of samples, a folder per family in it.")
@click.option("--bundles", default="reference", metavar="A,B,...", help="Bundle ids or paths; default: reference.")
def command(folder: str, samples: str, bundles: str) -> int:
    """Write requests, expected answers, ids and digests, with which a port proves itself.

    The folder must be empty or not there. The kit holds the samples' texts; nothing else is in it.
    """
    from planner.gate.reading import read_samples
    from planner.gate.vectors import KIT_FILE, kit_head, vectors_of
    from planner.gate.vectors_check import kit_bytes
    from planner.gate.vectors_readme import README
    from planner.values.digest import digest

    target = _empty(Path(folder))
    if not Path(samples).is_dir():
        raise usage("--samples names a folder")
    chosen = list(read_samples(Path(samples)))
    if not chosen:
        raise usage("--samples names a folder without samples")
    subjects = _subjects(split("--bundles", bundles))
    files: list[dict[str, Any]] = []
    for name, subject in subjects.items():
        for vector in vectors_of(chosen, subject):
            place = f"vectors/{name}/{vector['family']}/{vector['id']}.json"
            data = kit_bytes(vector)
            _write(target / place, data)
            files.append({"path": place, "sha256": digest(data)})
    head = kit_head([one.bundle.manifest for one in subjects.values()], chosen)
    _write(target / KIT_FILE, kit_bytes({**head, "files": files}))
    _write(target / "README.md", README.encode())
    click.echo(f"{len(files)} vectors of {len(chosen)} samples for {', '.join(subjects)}")
    return 0


def _subjects(refs: list[str]) -> dict[str, Ported]:
    from planner.gate.vectors import Ported

    planners = [planner_for(ref) for ref in refs]
    bundles = {one.bundle_id: one.encoder().bundle for one in planners}
    plans = {one.bundle_id: one.plan for one in planners}
    return {name: Ported(bundle, plans[name], bundles, plans) for name, bundle in bundles.items()}


def _empty(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise usage("DIR holds files already; name an empty or a new folder")
    except OSError as error:
        raise not_readable(folder, error) from None
    return folder


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_readable(path.parent, error) from None
    write_output(str(path), data)
