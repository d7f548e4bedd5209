"""Make the three corpora from their hand-written sources; nothing is drawn at random.

`python -m tests.compaction.corpus.make` writes the files anew; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.compaction.corpus import text
from tests.compaction.corpus.kinds import KINDS
from tests.compaction.corpus.shapes import Case, all_shapes

RUNS = ("runs_en.txt", "runs_zh.txt", "runs_mixed.txt")
EDITS = ("edits_structure.txt", "edits_literals.txt", "edits_semantic.txt")
HONEST = ("honest_en.txt", "honest_zh.txt")


def runs() -> dict[str, text.Run]:
    """Read every run, by name."""
    return {run["run"]: run for name in RUNS for run in text.runs(name)}


def base() -> dict[str, text.Answer]:
    """Read the one good answer to each run that the mutations start from."""
    return {words[0]: text.answer(lines) for words, lines in text.blocks("base.txt", "==")}


def _marks(run: text.Run) -> tuple[str, ...]:
    return tuple(mark["constraintId"] for turn in run["turns"] for mark in turn["mustPreserve"])


def _edits(good: dict[str, text.Answer]) -> Iterator[Case]:
    for name in EDITS:
        for (kind,), lines in text.blocks(name, "#"):
            for line in lines:
                run, edits = line.split(" | ", 1)
                yield kind, run, text.spelled(text.edited(good[run], edits), [])


def adversarial() -> list[dict[str, Any]]:
    """Label every mutated answer by its kind."""
    good = base()
    made: list[dict[str, Any]] = []
    for kind, run, output in (*all_shapes(good, runs()), *_edits(good)):
        label, verdict, reason = KINDS[kind]
        made.append({
            "case": f"a{len(made) + 1:03}", "run": run, "kind": kind, "label": label, "verdict": verdict,
            "reason": reason, "output": output,
        })  # fmt: skip
    return made


def honest() -> list[dict[str, Any]]:
    """Spell every faithful answer; the base answers are honest too, but counted only once, as bases."""
    every, good = runs(), base()
    made: list[dict[str, Any]] = []
    for name in HONEST:
        for (run, language, *flags), lines in text.blocks(name, "=="):
            answer = text.answer(lines, good[run], _marks(every[run]))
            made.append({
                "case": f"h{len(made) + 1:03}", "run": run, "language": language, "verdict": "accept",
                "output": text.spelled(answer, flags),
            })  # fmt: skip
    return made


def files() -> dict[str, str]:
    """Return the text of each corpus file."""
    rows = {"runs": list(runs().values()), "adversarial": adversarial(), "honest": honest()}
    return {
        f"{name}.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
        for name, made in rows.items()
    }


if __name__ == "__main__":
    for name, content in files().items():
        (text.HERE / name).write_text(content, encoding="utf-8")
