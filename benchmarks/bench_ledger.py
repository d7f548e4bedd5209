"""What a plan from a ledger costs as the ledger grows to a million messages; JSON output, exit 1 on a missed target.

Ledgers are built once below .cache/ledgers (minutes for the largest) and kept. Each figure comes from a process of
its own, so memory is that of reading alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WINDOW = 8_192
READ_TURNS = 200
TARGETS = {"read_p99_ms": 20.0, "plan_ratio": 1.25, "first_plan_ratio": 1.3, "memory_mb": 10.0}
WORDS = (
    "the kiosk at the north gate reports a paper jam and the second printer is still out of toner so please order two "
    "cartridges before friday and tell the morning shift that the spare key hangs behind the counter again "
).split()


def text(seed: int, words: int) -> str:
    """Return plain words that differ from message to message."""
    return " ".join(WORDS[(seed * 7 + at * (1 + seed % 5)) % len(WORDS)] for at in range(words)) + f" {seed}."


def build(path: Path, messages: int) -> None:
    """Write a ledger: half of the messages in one conversation, the rest in conversations of 500 turns."""
    from planner import Ledger, Message, ToolCall, ToolResult

    with Ledger.open(path) as ledger:
        # What is measured is reading; a power loss while building costs a second build.
        ledger._store.connection().execute("PRAGMA synchronous = OFF")
        turns = messages // 4
        for at in range(turns):
            name = "long" if at < turns // 2 else f"side{(at - turns // 2) // 500}"
            call = ToolCall(f"call{at}", "lookup", {"shelf": at % 97})
            ledger.append(
                name,
                f"t{at}",
                [
                    Message("user", f"m{at}-1", text(at, 40)),
                    Message("assistant", f"m{at}-2", tool_calls=(call,)),
                    Message("tool", f"m{at}-3", tool_result=ToolResult(call.id, text(at + 1, 40))),
                    Message("assistant", f"m{at}-4", text(at + 2, 30)),
                ],
                state="completed",
            )
        ledger.append("long", "now", [Message("user", "m-now", "What is still to be ordered?")])


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def megabytes() -> float:
    """Return the peak of this process's memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read(path: Path) -> dict[str, Any]:
    """Read what a plan needs, again and again: the view and its newest turns."""
    from planner import Ledger

    begun = time.perf_counter()
    ledger = Ledger.open(path, read_only=True)
    opened = time.perf_counter()
    list(ledger.view("long").turns[-READ_TURNS:])
    cold = time.perf_counter()
    taken = []
    for _ in range(400):
        start = time.perf_counter()
        list(ledger.view("long").turns[-READ_TURNS:])
        taken.append(1e3 * (time.perf_counter() - start))
    return {
        "open_ms": 1e3 * (opened - begun), "cold_ms": 1e3 * (cold - opened), "p50_ms": percentile(taken, 0.5),
        "p99_ms": percentile(taken, 0.99), "peak_mb": megabytes(),
    }  # fmt: skip


def plan(path: Path, bundle: str) -> dict[str, Any]:
    """Plan the newest question: the first plan of the process, then plans of a conversation that goes on."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    from planner import Ledger, Message, Planner, PlanRequest, TextItem
    from planner.bundles.open import open_bundle

    loaded = open_bundle(bundle)
    planner = Planner(loaded)
    planner.encoder()
    template = _compile_jinja_template(loaded.template_source)
    policy = text(3, 60)
    loaded.engine.encode_parsed(template.render(messages=[{"role": "user", "content": "warm"}], tools=None))
    request = PlanRequest(
        loaded.manifest.id, max_input_tokens=WINDOW, reserved_output_tokens=512, policy=(TextItem("p1", policy),),
        policy_version="v1",
    )  # fmt: skip
    # The peer's template and tokenizer are warm; so are ours. What restarts is the conversation, not the bundle.
    with Ledger.open(path.with_name("warm.db")) as other:
        other.append("warm", "t0", [Message("user", "m0", "warm"), Message("assistant", "m1", "up")], state="completed")
        other.append("warm", "t1", [Message("user", "m2", "now")]) if other.head("warm").turns == 1 else None
        planner.ledger_conversation(other, "warm").plan(request, record=False)
    begun = time.process_time()
    ledger = Ledger.open(path, read_only=True)
    opened = time.process_time()
    chat = planner.ledger_conversation(ledger, "long")
    answer = chat.plan(request, record=False)
    first = time.process_time()
    if not answer.accepted:
        raise SystemExit(answer.line())
    kept = {key.partition("/")[2] for key in answer.kept if key.startswith("turn/")}
    view = ledger.view("long")
    turns = [turn for turn in view.turns[-2 * READ_TURNS :] if turn.id in kept]
    messages = [{"role": "system", "content": policy}, *(entry for turn in turns for entry in in_openai_shape(turn))]
    start = time.process_time()
    shown = template.render(
        messages=messages, tools=None, add_generation_prompt=True, **loaded.manifest.variables
    )  # fmt: skip
    ids = loaded.engine.encode_parsed(shown)
    once = time.process_time() - start
    taken = []
    for _ in range(60):
        start = time.process_time()
        chat.plan(request, record=False)
        taken.append(1e3 * (time.process_time() - start))
    return {
        "open_ms": 1e3 * (opened - begun), "first_ms": 1e3 * (first - opened), "once_ms": 1e3 * once,
        "plan_ms": percentile(taken, 0.5), "peak_mb": megabytes(), "tokens": len(answer.ids),
        "different_ids": int(list(answer.ids) != list(ids)),
    }  # fmt: skip


def in_openai_shape(turn: Any) -> list[dict[str, Any]]:
    """Return a turn's messages as a chat API takes them."""
    out: list[dict[str, Any]] = []
    for message in turn.messages:
        entry: dict[str, Any] = {"role": message.role, "content": message.words()}
        if message.tool_calls:
            entry["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.tool_result is not None:
            entry["tool_call_id"] = message.tool_result.call_id
        out.append(entry)
    return out


def child(*words: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Build what is missing, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", nargs="?", default="all")
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--bundle", default="qwen3-0.6b")
    given = parser.parse_args()
    if given.mode in ("read", "plan"):
        found = read(given.path) if given.mode == "read" else plan(given.path, given.bundle)
        print(json.dumps(found))
        return
    folder = ROOT / ".cache" / "ledgers"
    folder.mkdir(parents=True, exist_ok=True)
    out: dict[str, Any] = {"sizes": {}}
    for size in [one for one in SIZES if one <= given.largest]:
        path = folder / f"bench_{size}.db"
        if not path.exists():
            began = time.perf_counter()
            build(path.with_suffix(".making"), size)
            Path(f"{path.with_suffix('.making')}-anchor").rename(f"{path}-anchor")
            path.with_suffix(".making").rename(path)
            print(f"built {size} messages in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        from planner import Ledger

        with Ledger.open(path):  # brings one that an older version built to today's schema
            pass
        out["sizes"][size] = {
            "file_mb": path.stat().st_size / 2**20,
            "read": child("read", str(path)),
            "plan": child("plan", str(path), "--bundle", given.bundle),
        }
    sizes = out["sizes"]
    largest, base = sizes[max(sizes)], sizes[min(10_000, max(sizes))]
    peaks = [one["read"]["peak_mb"] for one in sizes.values()]
    whole = largest["plan"]
    out["figures"] = {
        "read_p99_ms": largest["read"]["p99_ms"],
        "plan_ratio": whole["plan_ms"] / base["plan"]["plan_ms"],
        "first_plan_ratio": (whole["open_ms"] + whole["first_ms"]) / (whole["open_ms"] + whole["once_ms"]),
        "memory_mb": max(peaks) - min(peaks),
    }
    out["missed"] = [name for name, most in TARGETS.items() if out["figures"][name] > most]
    out["different_ids"] = sum(one["plan"]["different_ids"] for one in sizes.values())
    target = ROOT / "benchmarks" / "out" / "ledger.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(out, indent=1))
    print(json.dumps(out, indent=1))
    sys.exit(1 if out["missed"] or out["different_ids"] else 0)


if __name__ == "__main__":
    main()
