"""Tables of what other engines make of published templates: measured, grouped, written and compared.

python -m tests.support.portability_table npm      write tests/runtimes/portability/npm_table.json anew
python -m tests.support.portability_table llama    write tests/opinions/llama_table.json anew
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.bundles.measure import measure
from planner.runtimes.portability import compare
from planner.runtimes.portability_causes import CAUSES
from planner.runtimes.portability_shapes import SHAPES, case
from planner.runtimes.renderers import Renderer
from planner.values.portability import ALIKE, ShapeVerdict
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT.parent / "shared" / "templates"
STRINGS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
PLAIN = TemplateProfile("")
TABLES = {"npm": ROOT / "tests/runtimes/portability/npm_table.json", "llama": ROOT / "tests/opinions/llama_table.json"}
Row = dict[str, list[str]]


@cache
def profile_of(source: str) -> TemplateProfile:
    """Measure a template; one that the probe refuses is tried in the plainest form."""
    try:
        return measure(source, STRINGS)
    except PlannerFault:
        return PLAIN


def verdicts(source: str, engine: Renderer, profile: TemplateProfile = PLAIN) -> dict[str, ShapeVerdict]:
    """Compare every shape of a template, texts alone."""
    found = compare(source, STRINGS, [case(name, profile) for name in SHAPES], engine)
    return {one.shape: one for one in found}


def row(source: str, engine: Renderer) -> Row:
    """Return the shapes that are not alike, grouped by verdict and cause."""
    grouped: Row = {}
    for one in verdicts(source, engine, profile_of(source)).values():
        if one.verdict not in ALIKE:
            grouped.setdefault(f"{one.verdict}: {one.cause}", []).append(one.shape)
    return grouped


def read(engine: str) -> dict[str, Any]:
    """Return the stored table: `version` of the engine and `templates`, each a row."""
    table: dict[str, Any] = json.loads(TABLES[engine].read_text(encoding="utf-8"))
    return table


def unexplained(rows: Iterable[Mapping[str, list[str]]], reasons: frozenset[str]) -> list[str]:
    """Return the cells without a class: neither a known cause, nor a known reason of a raise."""
    wrong = []
    for cell in (cell for one in rows for cell in one):
        verdict, _, cause = cell.partition(": ")
        known = set(cause.split("; ")) <= CAUSES
        if verdict == "raises_there":
            known = cause in reasons
        elif verdict == "raises_here":
            known = known or cause.startswith("Jinja2 raises ")
        if not known:
            wrong.append(cell)
    return wrong


def write(engine: Renderer) -> None:
    """Measure every template and write the table of this engine."""
    rows: dict[str, str] = {}
    known: dict[str, Row] = {}
    for path in sorted(TEMPLATES.glob("*.jinja"), key=lambda path: path.stem.lower()):
        source = path.read_text(encoding="utf-8")
        found = known.setdefault(source, row(source, engine))
        lines = ",\n".join(f"   {json.dumps(cell)}: {json.dumps(shapes)}" for cell, shapes in found.items())
        rows[path.stem] = f"{{\n{lines}\n  }}" if lines else "{}"
    body = ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in rows.items())
    text = f'{{\n "version": {json.dumps(engine.version)},\n "templates": {{\n{body}\n }}\n}}\n'
    TABLES[engine.name].write_text(text, encoding="utf-8")


def main() -> None:
    """Write one table."""
    if sys.argv[1] == "npm":
        from planner.runtimes.npm_renderer import NpmRenderer
        from tests.support.npm_package import FOLDER

        write(NpmRenderer(FOLDER))
    else:
        from tests.opinions.llama_engine import LlamaEngine

        write(LlamaEngine())


if __name__ == "__main__":
    main()
