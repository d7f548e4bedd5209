"""Samples of budget, turns and summaries (R191)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.values.gate import Family, Sample
from planner.values.request import CurrentRequest, Options, OutputSchema, PlanRequest
from planner.values.turn import ToolCall, Turn
from tools.gate_samples.parts import (
    CLAIMS,
    KEPT,
    RULE,
    TOOLS,
    asked,
    edges,
    looked_up,
    marked,
    passage,
    protected,
    sample,
    summary,
    talk,
    talks,
    with_message,
)


def over_budget() -> Iterator[Sample]:
    """What cannot move is kept or refused, never cut."""
    name: Family = "over_budget"
    yield from edges(name, asked(talks(8)), reduced=True)
    yield sample("over-budget-half", name, asked(talks(16)), boundary="half", kept=(*KEPT, "turn/t16"), reduced=True)
    yield sample(
        "over-budget-half-chinese",
        name,
        asked(talks(16, chinese=True)),
        boundary="half",
        reduced=True,
        kept=(*KEPT, "turn/t16"),
        absent=("turn/t1",),
    )
    yield sample("over-budget-policy", name, asked(max_input_tokens=90), outcome=("context_policy_overflow",))
    long = CurrentRequest("q", text="Read this out to the tenants: " + "the north lift is out of order; " * 60)
    yield sample(
        "over-budget-question", name, asked(request=long, max_input_tokens=400), outcome=("context_policy_overflow",)
    )
    schema = OutputSchema(
        "notice", {"type": "object", "properties": {f"floor_{n}": {"type": "string"} for n in range(60)}}
    )
    yield sample(
        "over-budget-schema",
        name,
        asked(output_schema=schema, max_input_tokens=300),
        outcome=("context_policy_overflow",),
    )
    waiting = tuple(protected(talk(number)) for number in range(1, 30))
    yield sample(
        "over-budget-protected", name, asked(waiting, max_input_tokens=500), outcome=("protected_history_overflow",)
    )
    yield sample(
        "over-budget-no-eviction",
        name,
        asked(talks(30), max_input_tokens=500, options=Options(allow_history_eviction=False)),
        outcome=("raw_history_overflow",),
    )
    loop = (looked_up(1, state="open", calls=1, long=150),)
    yield sample(
        "over-budget-open-turn",
        name,
        asked(loop, tools=TOOLS, request=CurrentRequest("q", turn_id="t1"), max_input_tokens=600),
        outcome=("open_turn_overflow",),
    )
    kept = (*KEPT, "passage/p1", "tool/find_tickets")
    roomy = asked(talks(4), tools=TOOLS, claims=CLAIMS, passages=(passage("p1", "Floor 12 uses the south lift."),))
    yield sample("over-budget-everything-fits", name, replace(roomy, max_input_tokens=4000), kept=kept, reduced=False)


def turn_truncation() -> Iterator[Sample]:
    """Turns leave whole, oldest first, in order, and never the ones that may not."""
    name: Family = "turn_truncation"
    yield from edges(name, asked((*talks(5), looked_up(6), talk(7)), tools=TOOLS), reduced=True)
    yield sample(
        "turns-oldest-first",
        name,
        asked(talks(12)),
        boundary="half",
        reduced=True,
        kept=("turn/t12", "turn/t11"),
        absent=("turn/t1", "turn/t2"),
    )
    yield sample(
        "turns-chinese",
        name,
        asked(talks(12, chinese=True)),
        boundary="half",
        reduced=True,
        kept=("turn/t12",),
        absent=("turn/t1",),
    )
    pinned = tuple(protected(turn) if turn.id == "t2" else turn for turn in talks(12))
    yield sample(
        "turns-protected-stays",
        name,
        asked(pinned),
        boundary="half",
        reduced=True,
        kept=("turn/t2", "turn/t12"),
        absent=("turn/t1", "turn/t3"),
    )
    mixed = tuple(
        replace(turn, state={"t3": "cancelled", "t5": "superseded"}.get(turn.id, "completed")) for turn in talks(8)
    )
    yield sample(
        "turns-ended-never-shown",
        name,
        asked(mixed, max_input_tokens=4000),
        kept=("turn/t1", "turn/t8"),
        absent=("turn/t3", "turn/t5"),
    )
    pairs = tuple(looked_up(number, long=4) for number in range(1, 9))
    yield sample(
        "turns-calls-and-results",
        name,
        asked(pairs, tools=TOOLS),
        boundary="half",
        reduced=True,
        kept=("turn/t8",),
        absent=("turn/t1",),
    )
    gaps = tuple(talk(number) for number in (1, 4, 5, 11, 30, 31, 50, 51))
    yield sample(
        "turns-with-gaps", name, asked(gaps), boundary="half", reduced=True, kept=("turn/t51",), absent=("turn/t1",)
    )
    yield sample(
        "turns-shuffled",
        name,
        asked(tuple(reversed(talks(6))), max_input_tokens=4000),
        reduced=False,
        kept=("turn/t1", "turn/t6"),
    )
    yield sample(
        "turns-tail",
        name,
        asked(talks(12), options=Options(tail_turns=2)),
        boundary="half",
        kept=("turn/t12", "turn/t11"),
        reduced=True,
    )
    odd = {"floor": 3, "share": 1.0, "tiny": 1e-7, "serial": 2**53 + 1, "below": -0.0, "plain": 0.5}
    counted = with_message(looked_up(2), 1, tool_calls=(ToolCall("k2_0", "find_tickets", odd),))
    yield sample(
        "turns-numbers-in-calls",
        name,
        asked((talk(1), counted, talk(3)), tools=TOOLS, max_input_tokens=4000),
        kept=("turn/t1", "turn/t2", "turn/t3"),
        reduced=False,
    )
    rule = (marked(talk(1), "C1", RULE), *talks(12)[1:])
    yield sample(
        "turns-rule-outlives-its-turn",
        name,
        asked(rule),
        boundary="half",
        reduced=True,
        constraints=("C1",),
        absent=("turn/t1",),
        kept=("constraint/C1",),
    )
    withdrawn = (*rule[:3], replace(talk(4), supersedes=("C1",)), *rule[4:])
    yield sample(
        "turns-withdrawn-rule",
        name,
        asked(withdrawn),
        boundary="half",
        constraints=(),
        absent=("constraint/C1",),
        reduced=True,
    )


def old_summary() -> Iterator[Sample]:
    """A summary stands only while its sources are provably what they were."""
    name: Family = "old_summary"
    turns = talks(30)
    good = summary(turns[:22], turns)
    request = asked(turns, summaries=(good,))
    yield from edges(name, request, reduced=None, summaries={"s1": "used"})
    yield sample(
        "summary-current",
        name,
        request,
        boundary="half",
        summaries={"s1": "used"},
        kept=("summary/s1",),
        absent=("turn/t1", "turn/t8"),
    )
    edited = with_message(turns[2], 0, text="The lift in the south is fine.", version=2)
    stale: dict[str, PlanRequest] = {
        "edited-source": replace(request, turns=(*turns[:2], edited, *turns[3:])),
        "policy-version": replace(request, policy_version="desk-4"),
        "strategy": replace(request, summaries=(replace(good, strategy_version="0"),)),
        "protected-since": replace(request, turns=(protected(turns[0]), *turns[1:])),
        "superseded-since": replace(request, turns=(replace(turns[1], state="superseded"), turns[0], *turns[2:])),
    }
    for cause, one in stale.items():
        yield sample(
            f"summary-{cause}", name, one, boundary="half", summaries={"s1": "stale-source"}, absent=("summary/s1",)
        )
    refuse = CurrentRequest("q", text="And now?", on_invalid_summary="refuse")
    yield sample(
        "summary-stale-refused",
        name,
        replace(stale["edited-source"], request=refuse, max_input_tokens=4000),
        outcome=("stale-source",),
    )
    blank = replace(good, summary_text="  ")
    yield sample(
        "summary-blank",
        name,
        replace(request, summaries=(blank,)),
        boundary="half",
        summaries={"s1": "invalid-summary"},
        absent=("summary/s1",),
    )
    ruled: tuple[Turn, ...] = (marked(turns[0], "C1", RULE), *turns[1:])
    carrying = summary(ruled[:22], ruled)
    yield sample(
        "summary-carries-the-rule",
        name,
        asked(ruled, summaries=(carrying,)),
        boundary="half",
        constraints=("C1",),
        summaries={"s1": "used"},
    )
    dropped = replace(carrying, required_constraint_ids=(), state=replace(carrying.state, constraints=()))
    yield sample(
        "summary-lost-the-rule",
        name,
        asked(ruled, summaries=(dropped,)),
        boundary="half",
        constraints=("C1",),
        summaries={"s1": "invalid-summary"},
        absent=("summary/s1",),
    )
