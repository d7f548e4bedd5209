"""Measuring one bundle: CPU times of this process, and counts that are the same on every machine (R217)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from planner.cli.asking import open_named
from planner.cli.bench_chat import Chat
from planner.steps.prefix import common_length
from planner.values.plan import Plan
from planner.values.reasons import RefusalSignal
from planner.values.request import PlanRequest
from planner.values.turn import Turn

if TYPE_CHECKING:
    from planner.planner import Planner
    from planner.values.plan import Refusal

T = TypeVar("T")
RESERVE_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: plans of a growing chat, and the window in tokens that they share with the answer."""

    turns: int
    window: int


@dataclass(frozen=True, slots=True)
class Times:
    """CPU milliseconds of one kind of plan; None where there was none."""

    plans: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class BundleBench:
    """What one bundle came to. Times are of this machine; everything else is the same wherever it runs.

    load_ms       files, tokenizer and the template's profile, from its cache where it was measured before.
    append        plans that kept every turn of the plan before; `cut_moving` those that let the oldest leave.
    utilisation   tokens of the last plan over those of the longest run of whole turns that fits, found by trying all.
    prefix_reuse  share of a plan's ids that the plan before began with, mean over the plans behind the first.
    """

    bundle_id: str
    bundle_digest: str
    turns: int
    window_tokens: int
    load_ms: float
    first_plan_ms: float
    append: Times
    cut_moving: Times
    renders_per_plan: float
    characters_rendered_per_plan: float
    characters_encoded_per_plan: float
    prompt_tokens: int
    optimum_tokens: int
    utilisation: float
    prefix_reuse: float


@dataclass(slots=True)
class _Run:
    append_ms: list[float] = field(default_factory=list)
    cut_ms: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    counted: list[dict[str, Any]] = field(default_factory=list)


def bench(ref: str, size: Size) -> BundleBench:
    """Measure a bundle. Raises PlannerFault as opening does, RefusalSignal where it cannot carry the chat."""
    from planner.planner import Planner

    bundle, load_ms = timed(lambda: _loaded(ref))
    planner = Planner(bundle)
    chat = Chat()
    policy = chat.policy if bundle.profile.system == "kept" else ()
    base = PlanRequest(
        planner.bundle_id, chat.question(), policy=policy, max_input_tokens=size.window,
        reserved_output_tokens=RESERVE_TOKENS,
    )  # fmt: skip
    first, first_ms = timed(lambda: _planned(planner.plan(base)))
    found = _Run()
    last, asked, turns = _grow(planner, base, chat, size.turns, found)
    best = optimum(planner, asked, turns)
    return BundleBench(
        bundle_id=planner.bundle_id,
        bundle_digest=str(first.receipt.bundle_digest),
        turns=size.turns,
        window_tokens=size.window,
        load_ms=load_ms,
        first_plan_ms=first_ms,
        append=_times(found.append_ms),
        cut_moving=_times(found.cut_ms),
        renders_per_plan=_mean([row["renders"] + row["mini_renders"] for row in found.counted]),
        characters_rendered_per_plan=_mean([row["characters_rendered"] for row in found.counted]),
        characters_encoded_per_plan=_mean([row["characters_encoded"] for row in found.counted]),
        prompt_tokens=len(last.ids),
        optimum_tokens=best,
        utilisation=round(len(last.ids) / best, 4),
        prefix_reuse=_mean(found.shared),
    )


def _loaded(ref: str) -> Any:
    bundle = open_named(ref)
    _ = bundle.engine, bundle.profile
    return bundle


def _grow(
    planner: Planner, base: PlanRequest, chat: Chat, turns: int, found: _Run
) -> tuple[Plan, PlanRequest, tuple[Turn, ...]]:
    """Answer and ask so many times; every plan after the first is sorted by whether an older turn left."""
    conversation = planner.conversation()
    before = _planned(conversation.plan(base))
    asked = base
    for _ in range(turns):
        conversation.append(chat.answered())
        asked = replace(base, request=chat.question())
        answer, spent = timed(partial(conversation.plan, asked))
        answer = _planned(answer)
        stayed = set(_turns(before)) <= set(_turns(answer))
        (found.append_ms if stayed else found.cut_ms).append(spent)
        found.shared.append(common_length(answer.ids, before.ids) / len(answer.ids))
        found.counted.append(dict(answer.diagnostics))
        before = answer
    return before, asked, conversation.turns


def _turns(plan: Plan) -> list[str]:
    return [key for key in plan.kept if key.startswith("turn/t")]


def optimum(planner: Planner, asked: PlanRequest, turns: Sequence[Turn]) -> int:
    """Return the tokens of the longest run of newest whole turns that fits, by planning every run without eviction."""
    best = 0
    options = replace(asked.options, allow_history_eviction=False)
    for first in range(len(turns), -1, -1):
        answer = planner.plan(replace(asked, turns=tuple(turns[first:]), options=options))
        if not isinstance(answer, Plan):
            break
        best = len(answer.ids)
    return best


def _planned(answer: Plan | Refusal) -> Plan:
    if not isinstance(answer, Plan):
        raise RefusalSignal(answer.reason, answer.detail)
    return answer


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what the work gives and the CPU milliseconds of this process."""
    start = time.process_time()
    out = work()
    return out, round((time.process_time() - start) * 1e3, 3)


def _times(spent: Sequence[float]) -> Times:
    if not spent:
        return Times(0, None, None)
    ordered = sorted(spent)
    return Times(len(ordered), ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)])


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0
