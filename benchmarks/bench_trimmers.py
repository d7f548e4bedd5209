"""Put the planner and its peers side by side on the 66 dialogues, judged by render and tokenizer, per bundle.

    python benchmarks/bench_trimmers.py [--bundle qwen3-0.6b] [--without-tools gemma-3] [--concessions]
                                        [--folder DIR] [--shared ../shared] [--every N] [--json OUT.json] [--markdown]

Window 8192, reserve 512. What comes back is put through transformers' render and the raw tokenizer; nothing a
trimmer says about itself is used. `clean` counts dialogues with no fault, or rightly refused; `use` is tokens over
those of the longest whole-turn suffix that fits, where something had to leave. CPU is a median with cold counters.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.growth import RESERVE_TOKENS, timed
from benchmarks.trim_faults import FAULTS, faults
from benchmarks.trimmers import PEERS, Task, Trim, ours
from planner.planner import Planner
from tests.support.dialogues import Dialogue, load, without_tools
from tests.support.framing import CONCESSIONS
from tests.support.judge import Finding, Judge
from tests.support.reference import ReferenceBundle, shipped_reference

WINDOW_TOKENS = 8_192
DISTRIBUTIONS = (
    "langchain-core", "litellm", "llama-index-core", "ctx-compact", "convopack", "agentfit-py", "contextpaw",
)  # fmt: skip


def row(judge: Judge, dialogues: Sequence[Dialogue], right: dict[str, Finding], trim: Trim) -> dict[str, Any]:
    """Run one trimmer on every dialogue. Raises ImportError where it is not installed."""
    wrong: Counter[str] = Counter()
    clean = refused = rightly = raised = 0
    uses: list[float] = []
    spent: list[float] = []
    for dialogue in dialogues:
        task = Task(judge, dialogue)
        try:
            out, cpu_ms = timed(partial(trim, task))
        except ImportError:
            raise
        except Exception:  # a peer may fail in any way; that is its answer here
            raised += 1
            continue
        spent.append(cpu_ms)
        found, tokens = faults(task, right[dialogue.id], out)
        clean += not found
        wrong.update(found)
        refused += out is None
        rightly += out is None and not found
        use = judge.utilisation(dialogue, tokens, right[dialogue.id]) if 0 < tokens <= judge.room else None
        uses += [] if use is None else [use]
    return {
        "dialogues": len(dialogues), "clean": clean, "refused": refused, "rightly": rightly, "raised": raised,
        "faults": {name: wrong[name] for name in FAULTS if wrong[name]},
        "use": statistics.median(uses) if uses else None, "least_use": min(uses, default=None),
        "cpu_ms": statistics.median(spent) if spent else None,
    }  # fmt: skip


def trimmers(planner: Planner, *, conceded: bool) -> dict[str, Trim]:
    """Return ours and each peer in its default and its best configuration."""
    found: dict[str, Trim] = {"planner": ours(planner, conceded=conceded)}
    peer: Callable[..., Any]
    for name, peer in PEERS.items():
        found |= {f"{name} default": partial(peer, best=False), f"{name} best": partial(peer, best=True)}
    return found


def measure(name: str, chosen: argparse.Namespace, *, tools: bool) -> dict[str, Any]:
    """Measure every trimmer on one bundle; peers that are not installed are listed."""
    folder = None if chosen.folder is None else chosen.folder / name
    bundle = shipped_reference(ROOT / "model_bundles", name) if folder is None else ReferenceBundle(folder)
    concessions = CONCESSIONS if chosen.concessions else ()
    judge = Judge(bundle, window=WINDOW_TOKENS, reserve=RESERVE_TOKENS, concessions=concessions)
    dialogues = load(chosen.shared)[:: chosen.every]
    if not tools:
        dialogues = [without_tools(dialogue) for dialogue in dialogues]
    right = {dialogue.id: judge.find(dialogue) for dialogue in dialogues}
    out: dict[str, Any] = {"right": dict(Counter(one.outcome for one in right.values()))}
    for label, trim in trimmers(Planner(name if folder is None else folder), conceded=chosen.concessions).items():
        try:
            out[label] = row(judge, dialogues, right, trim)
        except ImportError:
            out[label] = "not installed"
    return out


def main() -> None:
    """Run every trimmer on every dialogue of every bundle and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", nargs="*", default=["qwen3-0.6b"])
    parser.add_argument("--without-tools", nargs="*", default=[], help="bundles whose templates carry no tools")
    parser.add_argument("--concessions", action="store_true", help="allow all of them, for every trimmer alike")
    parser.add_argument("--folder", type=Path, help="a folder of model folders; default: the shipped bundles")
    parser.add_argument("--every", type=int, default=1, help="take every n-th dialogue")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", action="store_true", help="print a table instead of JSON")
    chosen = parser.parse_args()
    out: dict[str, Any] = {"versions": {name: _version(name) for name in DISTRIBUTIONS}, "bundles": {}}
    for names, tools in ((chosen.bundle, True), (chosen.without_tools, False)):
        for name in names:
            out["bundles"][name if tools else f"{name} without tools"] = measure(name, chosen, tools=tools)
    text = json.dumps(out, indent=1)
    print(table(out["bundles"]) if chosen.markdown else text)
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")


def table(bundles: dict[str, Any]) -> str:
    """Return a Markdown table: trimmers by bundles, each cell clean of all, over the limit, median and least use."""
    labels = [name for name in next(iter(bundles.values())) if name != "right"]
    lines = [f"| trimmer | {' | '.join(bundles)} |", "| --- " * (len(bundles) + 1) + "|"]
    for label in labels:
        cells = [_cell(found[label]) for found in bundles.values()]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return found
    use = "-" if found["use"] is None else f"{found['use']:.3f} / {found['least_use']:.3f}"
    over = found["faults"].get("over limit", 0)
    return f"{found['clean']} of {found['dialogues']}, {over} over, {use}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
