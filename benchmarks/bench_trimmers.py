"""Put the planner and LangChain's trimmer side by side on the 66 dialogues, judged by render and tokenizer.

    python benchmarks/bench_trimmers.py [--bundle qwen3-0.6b] [--shared ../shared] [--json OUT.json]

Window 8192, reserve 512. What comes back is put through transformers' render and the raw tokenizer; nothing a
trimmer says about itself is used. `clean` counts dialogues with no fault, or rightly refused; `use` is the median of
tokens over those of the longest whole-turn suffix that fits, where something had to leave. CPU is a median too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.growth import RESERVE_TOKENS, timed
from planner.planner import Planner
from planner.values.plan import Plan
from tests.support.dialogues import Dialogue, load
from tests.support.judge import Finding, Judge
from tests.support.reference import CannotRender, shipped_reference

WINDOW_TOKENS = 8_192
Trimmer = Callable[[Dialogue], list[int] | None]
"""Returns the positions of the messages it keeps, None where it refuses."""


def faults(judge: Judge, dialogue: Dialogue, right: Finding, kept: Sequence[int] | None) -> tuple[list[str], int]:
    """Return what is wrong with an answer, and how many tokens it has."""
    if kept is None:
        return ([] if right.outcome != "clean" else ["refused without need"]), 0
    found = [] if right.outcome == "clean" else ["answered what cannot be answered"]
    messages = [dict(dialogue.messages[place]) for place in kept]
    try:
        tokens = len(judge.ids(messages, dialogue.tools))
    except CannotRender:
        return [*found, "the template refuses it"], 0
    if tokens > judge.room:
        found.append("over the room")
    if not kept or kept[0] != 0:
        found.append("without the policy")
    if not kept or kept[-1] != len(dialogue.messages) - 1:
        found.append("without the request")
    suffixes = {len(dialogue.suffix(first)): first for first in range(len(dialogue.turns))}
    first = suffixes.get(len(kept))
    whole = first is not None and messages == dialogue.suffix(first)
    if not whole:
        found.append("not whole turns")
    elif right.first is not None and first is not None and first > right.first:
        found.append("a turn that fits was cut")
    return found, tokens


def planner(bundle_id: str) -> Trimmer:
    """The planner with nothing set up but the bundle's name."""
    ours = Planner(bundle_id)

    def trim(dialogue: Dialogue) -> list[int] | None:
        answer = ours.plan(
            messages=dialogue.messages, tools=list(dialogue.tools) or None, max_input_tokens=WINDOW_TOKENS,
            reserved_output_tokens=RESERVE_TOKENS,
        )  # fmt: skip
        if not isinstance(answer, Plan):
            return None
        turns = sum(key.startswith("turn/") for key in answer.kept)
        count = len(dialogue.suffix(len(dialogue.turns) - turns)) - 1
        total = len(dialogue.messages)
        return [0, *range(total - count, total)]

    return trim


def langchain(judge: Judge, *, best: bool) -> Trimmer:
    """`trim_messages` as it comes, or as an expert sets it up: exact counts a message, tools off the budget."""
    from langchain_core.messages import convert_to_messages, trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    known: dict[tuple[str, str], int] = {}

    def trim(dialogue: Dialogue) -> list[int] | None:
        messages = convert_to_messages([dict(entry) for entry in dialogue.messages])
        for place, message in enumerate(messages):
            message.id = str(place)
        if not best:
            kept = trim_messages(messages, max_tokens=judge.room, token_counter=count_tokens_approximately)
        else:
            kept = trim_messages(
                messages, max_tokens=judge.room - fixed(dialogue), token_counter=lambda some: count(dialogue, some),
                strategy="last", include_system=True, start_on="human", end_on=("human", "tool"),
            )  # fmt: skip
        return [int(message.id) for message in kept]

    def count(dialogue: Dialogue, some: Sequence[Any]) -> int:
        for message in some:
            key = (dialogue.id, message.id)
            if key not in known:
                known[key] = size([dict(dialogue.messages[int(message.id)])], ())
        return sum(known[dialogue.id, message.id] for message in some)

    def size(messages: list[dict[str, Any]], tools: Sequence[Any]) -> int:
        text = judge.bundle.render(messages, tools or None, generate=False)
        return len(judge.bundle.encode(text))

    def fixed(dialogue: Dialogue) -> int:
        system = dialogue.policy
        with_tools = len(judge.ids(system, dialogue.tools))
        return with_tools - size(system, ())

    return trim


def main() -> None:
    """Run every trimmer on every dialogue and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="qwen3-0.6b")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    judge = Judge(
        shipped_reference(ROOT / "model_bundles", chosen.bundle), window=WINDOW_TOKENS, reserve=RESERVE_TOKENS
    )
    dialogues = load(chosen.shared)
    right = {dialogue.id: judge.find(dialogue) for dialogue in dialogues}
    trimmers = {
        "planner": planner(chosen.bundle),
        "langchain default": langchain(judge, best=False),
        "langchain best": langchain(judge, best=True),
    }
    out: dict[str, Any] = {}
    for name, trim in trimmers.items():
        wrong: Counter[str] = Counter()
        clean, uses, spent = 0, [], []
        for dialogue in dialogues:
            kept, cpu_ms = timed(lambda trim=trim, dialogue=dialogue: trim(dialogue))
            spent.append(cpu_ms)
            found, tokens = faults(judge, dialogue, right[dialogue.id], kept)
            clean += not found
            wrong.update(found)
            use = judge.utilisation(dialogue, tokens, right[dialogue.id]) if tokens <= judge.room else None
            uses += [] if use is None or kept is None else [use]
        out[name] = {
            "dialogues": len(dialogues), "clean": clean, "faults": dict(wrong.most_common()),
            "use": statistics.median(uses) if uses else None, "cpu_ms": statistics.median(spent),
        }  # fmt: skip
    text = json.dumps(out, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
