"""Compare the fast engine with the exact one: the same texts encoded by both, and whole cold processes.

    python benchmarks/bench_engine.py [BUNDLE ...] [--runs 7]

BUNDLE is an id or a folder, by default reference and qwen3-0.6b. Texts are those of the admission, in pairs: each
text by both engines, one after the other, in turn first. Figures are ratios of CPU time, exact over fast, the
median over classes of text with the least and the largest; cold are whole processes that count a short text or
plan a short chat, user and system time, medians. `different_ids` must be 0.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from planner.bundles.fast_texts import classes
from planner.bundles.open import open_bundle
from planner.values.bundle import Engine

SHARE = 4
"""Every so many texts of a class are encoded."""
CHAT = '[{"role": "user", "content": "Which valve is open?"}]'


def encode_ratios(exact: Engine, fast: Engine, controls: list[str]) -> tuple[dict[str, float], int]:
    """Return exact over fast by class of text, and how many texts had other ids."""
    ratios, different = {}, 0
    for name, texts in classes(controls):
        spent = {id(exact): 0.0, id(fast): 0.0}
        for number, text in enumerate(texts[::SHARE]):
            pair = (exact, fast) if number % 2 else (fast, exact)
            ids = []
            for engine in pair:
                before = time.thread_time()
                ids.append(list(engine.encode(text).ids))
                spent[id(engine)] += time.thread_time() - before
            different += ids[0] != ids[1]
        ratios[name] = spent[id(exact)] / spent[id(fast)]
    return ratios, different


def cpu_ms(command: list[str], cache: str) -> float:
    """Run a command with a user cache of its own; return its CPU milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    subprocess.run(command, input=CHAT.encode(), capture_output=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


def cold(bundle: str, runs: int) -> dict[str, Any]:
    """Time cold counts and plans, both engines in turn; the first fast one, which compares, is reported apart."""
    planner = str(Path(sys.executable).with_name("planner"))
    lines = {
        "count": [planner, "count", "--text", "Which valve is open?", "--bundle", bundle],
        "plan": [planner, "plan", "--chat", "-", "--window", "400", "--reserve", "40", "--json", "--bundle", bundle],
    }
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        out["admission_ms"] = cpu_ms([*lines["count"], "--engine", "fast"], cache)
        for name, line in lines.items():
            cpu_ms(line, cache)
            pairs = [(cpu_ms(line, cache), cpu_ms([*line, "--engine", "fast"], cache)) for _ in range(runs)]
            exact, fast = (statistics.median(one[side] for one in pairs) for side in (0, 1))
            out[f"cold_{name}"] = {"exact_ms": exact, "fast_ms": fast, "ratio": exact / fast}
    return out


def main() -> None:
    """Print one JSON object; exit 1 where ids differ."""
    parser = argparse.ArgumentParser(description="The fast engine against the exact one.")
    parser.add_argument("bundles", nargs="*", default=["reference", "qwen3-0.6b"])
    parser.add_argument("--runs", type=int, default=7)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    different = 0
    for name in chosen.bundles:
        bundle = open_bundle(name, engine="fast")
        controls = [token.text for token in bundle.manifest.control_tokens]
        ratios, differing = encode_ratios(bundle.exact_engine, bundle.engine, controls)
        different += differing
        found[name] = {
            "encode_ratio": statistics.median(ratios.values()),
            "least": min(ratios.items(), key=lambda row: row[1]),
            "largest": max(ratios.items(), key=lambda row: row[1]),
            "different_ids": differing,
            **cold(name, chosen.runs),
        }
    print(json.dumps(found, indent=1))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
