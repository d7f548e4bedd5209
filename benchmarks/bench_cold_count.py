"""Compare a cold `planner count` with a script that loads the same folder by AutoTokenizer and counts.

    python benchmarks/bench_cold_count.py FOLDER [--runs 7]

FOLDER is a Hugging Face folder such as qwen3-0.6b. Figures are CPU milliseconds of whole processes (user and
system), medians; the first opening of the folder, which tests it once, is reported apart.
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
from pathlib import Path

TEXT = "Which valve is open? 哪个阀门是开着的？ " * 40
PEER = """
import sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(len(tokenizer.encode(sys.stdin.read(), add_special_tokens=False)))
"""


def cpu_ms(command: list[str], cache: str) -> tuple[float, int]:
    """Run a command on the text with a user cache of its own; return its CPU milliseconds and what it counted."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "HF_HUB_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, input=TEXT.encode(), capture_output=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent * 1e3, int(done.stdout.split()[-1])


def main() -> None:
    """Run both in turn and print one JSON object."""
    parser = argparse.ArgumentParser(description="Cold count against AutoTokenizer.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    chosen = parser.parse_args()
    planner = Path(sys.executable).with_name("planner")
    ours = [str(planner), "count", "-", "--bundle", str(chosen.folder)]
    peer = [sys.executable, "-c", PEER, str(chosen.folder)]
    with tempfile.TemporaryDirectory() as cache:
        first, count = cpu_ms(ours, cache)
        cpu_ms(peer, cache)
        rows = [(cpu_ms(ours, cache), cpu_ms(peer, cache)) for _ in range(chosen.runs)]
    mine = statistics.median(one[0] for one, _ in rows)
    theirs = statistics.median(two[0] for _, two in rows)
    equal = all(one[1] == two[1] == count for one, two in rows)
    print(json.dumps({
        "first_ms": first, "planner_ms": mine, "autotokenizer_ms": theirs, "ratio": mine / theirs,
        "tokens": count, "counts_equal": equal,
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
