"""Put our compaction before an outside judge, the compaction-conformance-kit, beside its built-in compactors.

    python benchmarks/bench_conformance.py [--seeds 8] [--json OUT.json]

Five rounds, each over the text of the round before, at 10, 20 and 30 % of the transcript's characters. The random
set has a bar; the other sets are printed without one. Exit 1 where a bar is missed, 2 where the kit is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

OUT = ROOT / "benchmarks" / "out" / "conformance.json"
SHORT = {
    "safety_rule": "safety", "hard_constraint": "constraint", "fact": "fact", "goal_state": "goal",
    "user_preference": "preference",
}  # fmt: skip


def measured(seeds: range) -> dict[str, Any]:
    """Return every figure: set, budget, compactor; our own refusals and the missed bars beside them."""
    from compaction_kit.cli import COMPACTORS

    from benchmarks.conformance.compactor import PlannerCompactor
    from benchmarks.conformance.figures import BUDGETS, ROUNDS, SETS, missed, tally

    made: list[PlannerCompactor] = []

    def ours() -> PlannerCompactor:
        made.append(PlannerCompactor())
        return made[-1]

    sets: dict[str, dict[str, dict[str, Any]]] = {}
    bars: dict[str, list[str]] = {}
    for name in SETS:
        sets[name] = {}
        for budget in BUDGETS:
            made.clear()
            found = tally(name, ours, budget, seeds)
            figures = found.as_json()
            figures["unmarked_rules"] = sum(one.unmarked for one in made)
            figures["refused_answers"] = dict(sum((one.refused for one in made), Counter()))
            if name == "random":
                bars[f"{budget:.0%}"] = missed(found, budget)
            sets[name][f"{budget:.0%}"] = {
                PlannerCompactor.name: figures,
                **{peer: tally(name, make, budget, seeds).as_json() for peer, make in COMPACTORS.items()},
            }
    return {
        "kit": version("compaction-conformance-kit"), "seeds": len(seeds), "rounds": ROUNDS, "sets": sets,
        "missed": bars,
    }  # fmt: skip


def printed(out: dict[str, Any]) -> None:
    """Print the barred set in full, of every other set our figures beside the best built-in."""
    head = f"{'':24}{'overall':>9}" + "".join(f"{name:>12}" for name in SHORT.values()) + f"{'stale':>9}"
    for budget, rows in out["sets"]["random"].items():
        print(f"random set, budget {budget}\n{head}")
        for name, row in sorted(rows.items(), key=lambda entry: -entry[1]["overall"]):
            print(f"{name:24}{_line(row)}")
        print()
    print(f"sets without a bar: ours, and the built-in that keeps most\n{head}")
    for name, budgets in out["sets"].items():
        for budget, rows in budgets.items() if name != "random" else ():
            ours, *peers = rows.items()
            best = max(peers, key=lambda entry: entry[1]["overall"])
            print(f"{name + ' ' + budget:24}{_line(ours[1])}\n{'  ' + best[0]:24}{_line(best[1])}")


def _line(row: dict[str, Any]) -> str:
    shares = "".join(f"{row['types'][kind]:>12.0%}" for kind in SHORT)
    over = f"  {row['rounds_over_budget']} rounds over the budget" if row["rounds_over_budget"] else ""
    return f"{row['overall']:>9.0%}{shares}{str(row['stale']) + '/' + str(row['updated']):>9}{over}"


def main() -> int:
    """Measure, print, write, and tell whether every bar is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", type=Path, default=OUT)
    chosen = parser.parse_args()
    if find_spec("compaction_kit") is None:
        print("compaction-conformance-kit is not installed: install the extra `conformance`", file=sys.stderr)
        return 2
    out = measured(range(1, chosen.seeds + 1))
    printed(out)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    wrong = [f"{budget}: {text}" for budget, texts in out["missed"].items() for text in texts]
    print("\n" + ("bars met" if not wrong else "bars missed: " + "; ".join(wrong)))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
