"""One cold process: import, open a bundle, plan one conversation once; prints CPU milliseconds of each stage."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

START = time.process_time()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.growth import Growth
from planner.bundles.open import open_bundle

TURNS = 24


def main() -> None:
    """Measure each stage once."""
    imported = time.process_time()
    bundle = open_bundle(sys.argv[1])
    bundle.engine.encode("open")
    opened = time.process_time()
    growth = Growth(bundle, 8_192, "spliced")
    for _ in range(TURNS):
        growth.append()
    made = time.process_time()
    growth.plan()
    done = time.process_time()
    stages = {"import_ms": imported - START, "open_ms": opened - imported, "first_plan_ms": done - made}
    print(json.dumps({name: 1e3 * seconds for name, seconds in stages.items()}))


if __name__ == "__main__":
    main()
