"""Make docs/templates.md: what the probe measures about every published template beside the checkout.

    python tools/template_table/make.py            write the page
    python tools/template_table/make.py --check    compare the page with one that is made now

The templates are other people's files and are not part of this repository; without them nothing can be made.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from planner.bundles import profile_words as words
from planner.bundles.measure import measure
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault

TEMPLATES = ROOT.parent / "shared" / "templates"
TARGET = ROOT / "docs" / "templates.md"
STRINGS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
COLUMNS = (
    "template", "digest", "drops", "raises on", "rewrites", "calls", "earlier reasoning", "reads in texts", "depth",
)  # fmt: skip
HEAD = """# What published templates do

For whoever chooses a model or reads a refusal. Made by `python tools/template_table/make.py`; do not edit.

Each row is a measurement of one file by the probe that also measures a bundle of yours (`planner bundle profile`):
it renders conversations of unique words and looks for each word. Nothing is taken from a model card.

| column | says |
| --- | --- |
| digest | first twelve digits of the file's sha256; another file of the same name may behave otherwise |
| drops | what vanishes from the prompt while the render succeeds |
| raises on | what the template refuses; a plan with it is refused too, with the concession that would help |
| rewrites | what comes out otherwise than it went in |
| calls | how calls must be given; `-` where none is carried |
| earlier reasoning | what becomes of the reasoning of an answered turn |
| reads in texts | strings that the template acts on where a message holds them |
| depth | how many following turns a turn's text depends on; `not proven` costs speed and nothing else |

A template that is refused as a whole has the code instead, see [reasons.md](reasons.md).
"""


def measured(path: Path) -> TemplateProfile | PlannerFault:
    """Measure one file in this process, or return the fault that refuses it."""
    try:
        return measure(path.read_text(encoding="utf-8"), STRINGS)
    except PlannerFault as fault:
        return fault


def row(path: Path, found: TemplateProfile | PlannerFault) -> str:
    """Return one line of the table from what was measured."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    if isinstance(found, PlannerFault):
        return _line((path.stem, digest, f"`{found.code}`: {found.detail}", *["-"] * (len(COLUMNS) - 3)))
    cells = (
        _list(words.dropped(found)),
        _list(words.raised(found)),
        _list(words.rewritten(found)),
        _list(words.call_rules(found)),
        words.reasoning(found),
        _list(f"`{name}` in {roles}" for name, _, roles in (text.rpartition(" in ") for text in words.parsed(found))),
        words.splice(found),
    )
    return _line((path.stem, digest, *cells))


def _list(parts: Sequence[str] | Iterator[str]) -> str:
    return "; ".join(parts) or "-"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(folder: Path) -> str:
    """Return the whole page, rows by name."""
    lines = [row(path, measured(path)) for path in sorted(folder.glob("*.jinja"), key=lambda path: path.stem.lower())]
    rule = "| " + " | ".join(["---"] * len(COLUMNS)) + " |"
    title = f"\n{len(lines)} templates.\n\n"
    return HEAD + title + "\n".join((_line(COLUMNS), rule, *lines)) + "\n"


def rows_of(text: str) -> Mapping[str, str]:
    """Return the lines of a page by template."""
    table = text.split(_line(COLUMNS) + "\n", 1)[1].splitlines()[1:]
    return {line.split(" | ", 1)[0].removeprefix("| "): line for line in table if line}


def main() -> int:
    """Write or compare the page; 2 where it differs or the templates are absent."""
    if not TEMPLATES.is_dir():
        sys.stderr.write("no templates beside the checkout: nothing to measure\n")
        return 2
    made = page(TEMPLATES)
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == made:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what is measured now\n")
        return 2
    TARGET.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
