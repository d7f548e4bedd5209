"""Planning with many candidate passages, cold and warm (`python -m benchmarks.bench_passages`).

Two sizes: 2,000 passages in a window of 32k, and 10,000 of 512 bytes. Bounds: cold at most 2.5 times the time of
encoding those passages once; warm at most 0.1 of it (the smaller set); a passage of the larger set costs at most 1.2
times one of the smaller.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from planner.encoding.encoder import Encoder
from planner.planner import Planner
from planner.values.passage import Claims, Passage, Source
from planner.values.plan import Plan
from planner.values.prompt import Counters
from planner.values.request import CurrentRequest, PlanRequest, TextItem

BUNDLE = "qwen3-0.6b"
WORDS = (
    "river valve paper garden seven engine window market letter copper island winter ticket bridge silver pencil "
    "harbour lesson carpet meadow signal bottle station orchard thunder village lantern saddle ribbon cellar mirror"
).split()


def passages(count: int, size: int, seed: int = 7) -> tuple[Passage, ...]:
    """Return passages of about `size` bytes; every tenth says what the one before says, in other form."""
    rng = random.Random(seed)
    out: list[Passage] = []
    for at in range(count):
        text = ""
        while len(text) < size - 20:
            words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 12)))
            text += f"{words.capitalize()} {rng.randint(1, 99)}. "
        if at % 10 == 9:
            text = out[-1].text.upper()
        out.append(Passage(f"c{at}", text, rng.random(), "acme", "manuals", Source(f"s{at % 7}", 1 + at % 3)))
    return tuple(out)


def request(found: tuple[Passage, ...]) -> PlanRequest:
    """Return a request with these passages in a window of 32k."""
    return PlanRequest(
        BUNDLE, CurrentRequest(id="q", text="What does the manual say?"), max_input_tokens=32_768, passages=found,
        policy=(TextItem("p", "Answer from the passages only."),), now="2030-01-01T00:00:00Z",
        claims=Claims("acme", ("manuals",), tuple(f"s{at}" for at in range(7))),
    )  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    before = time.process_time()
    work()
    return time.process_time() - before


def encode_once(found: tuple[Passage, ...]) -> float:
    """Return the seconds of encoding every passage alone with nothing remembered."""
    encoder: Encoder = Planner(BUNDLE).encoder()
    counters = Counters()
    return timed(lambda: [encoder.alone(f"[{one.citation_id}] {one.text}\n", counters) for one in found])


def measure(count: int, size: int) -> tuple[float, bool]:
    """Print one line; return the cold seconds a passage and byte, and whether the bounds hold."""
    found = passages(count, size)
    once = encode_once(found)
    planner = Planner(BUNDLE)
    planner.encoder()
    asked = request(found)
    answers: list[object] = []
    cold = timed(lambda: answers.append(planner.plan(asked)))
    warm = min(timed(lambda: planner.plan(asked)) for _ in range(3))
    plan = answers[0]
    assert isinstance(plan, Plan), plan
    fates = [entry.reason for entry in plan.removed]
    print(
        f"{count:6,} passages of {size} bytes: encoding once {once:.2f} s, cold {cold:.2f} s ({cold / once:.2f}x),"
        f" warm {warm:.3f} s ({warm / once:.3f}x), kept {count - len(fates)}, duplicates {fates.count('duplicate')},"
        f" prompt {len(plan.ids):,}"
    )
    return cold / count / size, cold <= 2.5 * once and (warm <= 0.1 * once or count > 2_000)


def main() -> int:
    """Run both sizes; exit 1 where a bound does not hold."""
    small, good = measure(2_000, 512)
    large, good_too = measure(10_000, 512)
    print(f"a passage of the larger set costs {large / small:.2f} times one of the smaller")
    return 0 if good and good_too and large <= 1.2 * small else 1


if __name__ == "__main__":
    sys.exit(main())
