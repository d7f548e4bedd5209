"""Make docs/engines.md from the tables of other engines that the tests measure.

    python tools/template_table/engines.py            write the page
    python tools/template_table/engines.py --check    compare the page with the tables

The tables are measured by `python -m tests.support.portability_table`, and compared by the tests of the engines.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "engines.md"
TABLES = {
    "npm `@huggingface/jinja`": ROOT / "tests" / "runtimes" / "portability" / "npm_table.json",
    "llama.cpp": ROOT / "tests" / "opinions" / "llama_table.json",
}
SHAPES = 11
VERBS = {
    "different": "writes otherwise",
    "raises_there": "raises there",
    "raises_here": "raises in the reference only",
}
HEAD = """# Published templates in other engines

For whoever runs a template elsewhere than in Jinja2. Made by `python tools/template_table/engines.py`; do not edit.

Eleven conversations are rendered with each template in the engine and in the reference, which is Jinja2 set up as
transformers does; [bundles.md](bundles.md#other-engines) names them. Compared is the text.
A shape that both refuse is alike.
A cause is given only where the reference, with that one thing changed, writes what the engine wrote.
"""


def page() -> str:
    """Return the whole page."""
    tables = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in TABLES.items()}
    parts = [HEAD]
    for name, table in tables.items():
        parts.append(_summary(name, table))
    parts.append("\n## By template\n\nShapes that are not alike; `-` where all eleven are.\n\n")
    parts.append("| template | " + " | ".join(tables) + " |\n| --- |" + " --- |" * len(tables) + "\n")
    for template in next(iter(tables.values()))["templates"]:
        cells = [_shapes(table["templates"][template]) for table in tables.values()]
        parts.append(f"| {template} | " + " | ".join(cells) + " |\n")
    return "".join(parts)


def _summary(name: str, table: Mapping[str, Any]) -> str:
    rows = table["templates"].values()
    counted: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for cell, shapes in row.items():
            verdict, _, causes = cell.partition(": ")
            counted.update({(VERBS[verdict], cause): len(shapes) for cause in causes.split("; ")})
    alike = sum(not row for row in rows)
    lines = [f"| {verb} | {cause} | {count} |" for (verb, cause), count in counted.most_common()]
    return (
        f"\n## {name} {table['version']}\n\n"
        f"Alike on all {SHAPES} shapes: {alike} of {len(rows)} templates."
        " A difference with two causes is counted under both.\n\n"
        "| the engine | cause | shapes |\n| --- | --- | --- |\n" + "\n".join(lines) + "\n"
    )


def _shapes(row: Mapping[str, list[str]]) -> str:
    named = [shape for shapes in row.values() for shape in shapes]
    return "all" if len(named) == SHAPES else ", ".join(named) or "-"


def main() -> int:
    """Write or compare the page; 2 where it differs."""
    made = page()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == made:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what the tables say\n")
        return 2
    TARGET.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
