"""Generators of what a state block is made of: marks, withdrawals, open items, and current summaries of runs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from planner.values.check_summary import may_be_covered, may_be_skipped
from planner.values.request import Options, PlanRequest, SectionBounds, Sections
from planner.values.summary import SummaryRecord
from planner.values.turn import MustPreserve, OpenItem, Turn
from tests.strategies import SOME_TEXT, Wanted, requests
from tests.support.records import CONVERSATION, live, record_of

LONG = st.integers(1, 60).map(lambda count: "ab c " * count)
"""Texts that are often longer than the frame of a state block, so that summaries save something."""


@st.composite
def related(draw: st.DrawFn, turns: tuple[Turn, ...], texts: st.SearchStrategy[str] = SOME_TEXT) -> tuple[Turn, ...]:
    """Give turns marks, a mark of an earlier constraint again, withdrawals and open items; keep their order."""
    out: list[Turn] = []
    known: list[str] = []
    for turn in turns:
        kind = draw(st.sampled_from(("plain", "plain", "mark", "mark", "bare", "again", "withdraw", "item")))
        changed = turn
        if kind in ("mark", "bare"):
            text = draw(texts) if kind == "mark" or turn.state == "cancelled" else None
            changed = replace(turn, must_preserve=(MustPreserve(f"k{len(known)}", text),))
            known.append(f"k{len(known)}")
        elif kind == "again" and known:
            changed = replace(turn, must_preserve=(MustPreserve(draw(st.sampled_from(known)), draw(texts)),))
        elif kind == "withdraw" and known:
            changed = replace(turn, supersedes=(draw(st.sampled_from(known)),))
        elif kind == "item":
            status = draw(st.sampled_from(("pending", "blocked", "done")))
            changed = replace(turn, open_items=(OpenItem(draw(st.sampled_from(("o1", "o2"))), status),))
        out.append(changed)
    return tuple(out)


@st.composite
def records(
    draw: st.DrawFn, turns: tuple[Turn, ...], texts: st.SearchStrategy[str] = SOME_TEXT
) -> tuple[SummaryRecord, ...]:
    """Draw current summaries of gap-free runs; cancelled and superseded turns inside a run are passed over."""
    constraints = live(turns)
    out: list[SummaryRecord] = []
    at = 0
    while at < len(turns):
        run = list(turns[at : at + draw(st.integers(1, 3))])
        at += len(run)
        while run and may_be_skipped(run[0], constraints):
            run.pop(0)
        while run and may_be_skipped(run[-1], constraints):
            run.pop()
        fine = all(may_be_covered(turn, constraints) or may_be_skipped(turn, constraints) for turn in run)
        if run and fine and all(message.id for turn in run for message in turn.messages) and draw(st.integers(0, 2)):
            out.append(record_of(f"s{len(out)}", run, draw(texts), constraints))
    return tuple(out)


def state_options(draw: st.DrawFn) -> Options:
    """Draw options that bear on summaries, constraints and the notice."""
    most = draw(st.sampled_from((None, None, 0, 20, 60)))
    return Options(
        tail_turns=draw(st.sampled_from((None, None, None, 1, 2))),
        allow_history_eviction=draw(st.sampled_from((True, True, True, True, False))),
        history_notice=draw(st.sampled_from(("receipt", "prompt"))),
        sections=Sections(summary=SectionBounds(max=most)),
    )


@st.composite
def state_requests(draw: st.DrawFn, bundle_id: str, wanted: Wanted | None = None) -> PlanRequest:
    """Draw a request whose turns say something about each other and whose summaries are current."""
    chosen = wanted or Wanted(texts=LONG, max_turns=8)
    request = draw(requests(bundle_id, chosen, options=state_options))
    own = tuple(turn for turn in request.turns if turn.id == "own")
    turns = draw(related(tuple(turn for turn in request.turns if turn.id != "own")))
    turns = (*turns, *own)
    return replace(
        request, turns=turns, conversation_id=CONVERSATION,
        summaries=draw(records(tuple(turn for turn in turns if turn.id != "own"))),
    )  # fmt: skip
