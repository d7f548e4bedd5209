"""Time plans of a growing conversation against doing it plainly and against LangChain, in one process and run.

    python benchmarks/bench_plan.py [--bundle qwen3-0.6b] [--turns 200] [--windows 8192 32768]
                                    [--json OUT.json] [--plot OUT.svg]

Figures are CPU milliseconds of the thread. Our plans of a conversation are made one after another, then the peers
do the same windows again, so that neither side finds the processor's caches full of the other's data; every
plan's ids are compared with the plain ones. See README.md for how to read the output.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.growth import Growth, Planned, timed
from benchmarks.peers import LangChain, Plain
from benchmarks.plot import Bar, svg
from planner.bundles.open import open_bundle
from planner.values.bundle import Bundle
from planner.values.reasons import PlannerFault

LONG, LONGER = 128_000, 1_000_000
LANGCHAIN_SAMPLES = 10
COLD_PROCESSES = 5
EVICTED_BYTES, EVICTED_TURNS = 600, 60
TARGETS: dict[str, tuple[float, bool]] = {
    "certified_8192": (4.0, False),
    "certified_32768": (5.5, False),
    "spliced_8192": (10.0, False),
    "spliced_32768": (40.0, False),
    "fast_spliced_8192": (10.0, False),
    "fast_spliced_32768": (40.0, False),
    "langchain_certified_8192": (80.0, False),
    "langchain_spliced_8192": (200.0, False),
    "langchain_fast_spliced_8192": (200.0, False),
    "long_history": (1.25, True),
}
"""Ratio and whether it is an upper bound (issue A, Speed)."""


def median(values: Sequence[float]) -> float:
    """Return the median, 0 of nothing."""
    return statistics.median(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which so large a share lies, 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def tails(rows: Sequence[Planned]) -> dict[str, Any]:
    """Return p50 and p99, for all plans and apart for those whose cut stayed or moved."""
    groups = {
        "all": rows,
        "append": [row for row in rows if not row.cut_moved],
        "cut_moving": [row for row in rows if row.cut_moved],
    }
    return {
        name: {
            "plans": len(found),
            "p50_ms": median([row.cpu_ms for row in found]),
            "p99_ms": percentile([row.cpu_ms for row in found], 0.99),
        }
        for name, found in groups.items()
    }


def quiet() -> None:
    """Take what imports left behind out of the garbage collector's rounds: a planning process has none of it."""
    gc.collect()
    gc.freeze()


def growing(
    bundle: Bundle, window: int, speed: str, turns: int, label: str = ""
) -> tuple[dict[str, Any], dict[str, float]]:
    """Measure one window and speed; return the figures and the ratios to the peers, named by `label` or the speed."""
    label = label or speed
    growth = Growth(bundle, window, speed)
    plain = Plain(bundle, growth)
    bundle.engine.encode("warm"), plain.ids([{"role": "user", "content": "warm"}])
    quiet()
    every = list(growth.go(turns))
    measured = every[turns // 2 :]
    again = [timed(lambda row=row: plain.window(row)) for row in every]
    peers = [cpu_ms for _, cpu_ms in again[turns // 2 :]]
    counters = [row.diagnostics for row in measured]
    ours_ms = median([row.cpu_ms for row in measured])
    ratios = {f"{label}_{window}": median(peers) / ours_ms}
    groups = tails(measured)
    out = {
        **groups,
        "ratio_of_append": median(peers) / groups["append"]["p50_ms"] if groups["append"]["plans"] else None,
        "ids": len(every[-1].ids),
        "different_ids": sum(list(row.ids) != ids for row, (ids, _) in zip(every, again, strict=True)),
        "plain_p50_ms": median(peers),
        "speeds": sorted({row["speed"] for row in counters}),
        "renders_mean": statistics.mean(row["renders"] for row in counters),
        "renders_max": max(row["renders"] for row in counters),
        "characters_rendered": median([row["characters_rendered"] for row in counters]),
        "characters_encoded": median([row["characters_encoded"] for row in counters]),
        "audit_characters_encoded": sum(row["audit_characters_encoded"] for row in counters),
    }
    if window == 8_192:
        trimmed = langchain(plain, window, measured)
        if trimmed:
            out["langchain_p50_ms"] = median(trimmed)
            ratios[f"langchain_{label}_{window}"] = median(trimmed) / ours_ms
    return out, ratios


def langchain(plain: Plain, window: int, rows: Sequence[Planned]) -> list[float]:
    """Trim a sample of the same plans with LangChain, nothing where it is not installed."""
    try:
        peer = LangChain(plain, window)
    except ImportError:
        return []
    names = list(plain.growth.messages)
    out: list[float] = []
    for row in rows[:: max(1, len(rows) // LANGCHAIN_SAMPLES)]:
        before = names[: next(place for place, name in enumerate(names) if _asks(plain, name, row))]
        peer.history(before)
        kept, cpu_ms = timed(lambda row=row, before=before: peer.trim(row, before))
        if len(kept) < 2:
            raise SystemExit("langchain kept nothing")
        out.append(cpu_ms)
    return out


def _asks(plain: Plain, turn_id: str, row: Planned) -> bool:
    return bool(plain.growth.messages[turn_id][0]["content"] == row.question)


def fast(bundle_id: str) -> Bundle | None:
    """Open the bundle with the fast engine, None where that is not installed or not admitted for it."""
    try:
        return open_bundle(bundle_id, engine="fast")
    except PlannerFault:
        return None


def long_history(bundle: Bundle, plans: int = 60) -> dict[str, Any]:
    """Compare conversations of 128k and of a million tokens in a window of 32k, plan by plan in turn."""
    found: dict[int, Growth] = {}
    for tokens in (LONG, LONGER):
        growth = found[tokens] = Growth(bundle, 32_768, "spliced")
        while growth.characters < 3 * tokens:  # more than 2.7 characters a token, with its framing
            growth.append()
    quiet()
    spent: dict[int, list[float]] = {tokens: [] for tokens in found}
    for _ in range(plans):
        for tokens, growth in found.items():
            spent[tokens].append(growth.plan().cpu_ms)
            growth.append()
    return {
        **{f"p50_ms_{tokens}": median(times[plans // 3 :]) for tokens, times in spent.items()},
        **{f"turns_{tokens}": len(growth.messages) for tokens, growth in found.items()},
        "ratio": median(spent[LONGER][plans // 3 :]) / median(spent[LONG][plans // 3 :]),
    }


def cold(bundle_id: str) -> dict[str, Any]:
    """Start processes that import, open, and plan one conversation of 24 turns at 8k; CPU of each stage."""
    script = str(Path(__file__).with_name("cold_plan.py"))
    stages: list[dict[str, float]] = []
    whole: list[float] = []
    for _ in range(COLD_PROCESSES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, script, bundle_id], capture_output=True, check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        stages.append(json.loads(done.stdout))
    return {"process_p50_ms": median(whole), **{name: median([row[name] for row in stages]) for name in stages[0]}}


def main() -> None:
    """Run everything; print one JSON object, and draw the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="qwen3-0.6b")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--windows", type=int, nargs="+", default=[8_192, 32_768])
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "out" / "plan.json")
    parser.add_argument("--plot", type=Path, default=ROOT / "benchmarks" / "out" / "plan.svg")
    chosen = parser.parse_args()
    out: dict[str, Any] = {"bundle": chosen.bundle, "turns": chosen.turns, "cold_process": cold(chosen.bundle)}
    ratios: dict[str, float] = {}
    bundle = open_bundle(chosen.bundle)
    for window in chosen.windows:
        for speed in ("certified", "spliced"):
            out[f"{speed}_{window}"], found = growing(bundle, window, speed, chosen.turns)
            ratios |= found
    quick = fast(chosen.bundle)
    if quick is not None:
        for window in chosen.windows:
            out[f"fast_spliced_{window}"], found = growing(quick, window, "spliced", chosen.turns, "fast_spliced")
            ratios |= found
    evicted = list(Growth(bundle, 8_192, "certified", EVICTED_BYTES).go(EVICTED_TURNS))[EVICTED_TURNS // 2 :]
    out["evicted_cache_8192"] = tails(evicted)["all"]
    out["long_history"] = long_history(bundle)
    ratios["long_history"] = out["long_history"]["ratio"]
    bars = [Bar(name, value, *TARGETS.get(name, (None, False))) for name, value in ratios.items()]
    out["ratios"] = ratios
    out["missed"] = [bar.label for bar in bars if not bar.met]
    text = json.dumps(out, indent=1)
    for path, content in ((chosen.json, text + "\n"), (chosen.plot, svg(f"{chosen.bundle}: ratios to peers", bars))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
