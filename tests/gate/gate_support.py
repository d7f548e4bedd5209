"""A candidate, a subject and small samples over the embedded bundle."""

from __future__ import annotations

from functools import cache
from typing import Any

from planner import Planner
from planner.gate.cells import Cell, Subject, cells_of
from planner.values.candidate import Candidate
from planner.values.gate import Expectation, Sample
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, Turn

ZERO = "0" * 64


@cache
def planner() -> Planner:
    """One planner of the embedded bundle."""
    return Planner("reference")


def subject() -> Subject:
    """The embedded bundle under the gate."""
    return Subject("reference", planner().encoder().bundle, planner().plan)


def candidate(**fields: Any) -> Candidate:
    """A candidate that ships the embedded bundle."""
    digest = planner().encoder().bundle.manifest.digest
    return Candidate(**{
        "app_version": "1.0", "bundle_digests": (digest,), "template_version": "1", "tool_set_digest": ZERO,
        "summary_schema_version": "1.0", "hardening_digest": ZERO, "policy_digest": ZERO, **fields,
    })  # fmt: skip


def turns(count: int) -> tuple[Turn, ...]:
    """Return completed turns of a question and an answer."""
    return tuple(
        Turn(
            id=f"t{number}", sequence=number * 10, state="completed",
            messages=(
                Message("user", f"u{number}", f"Question {number}: where is lift {number}?", sequence=number * 10),
                Message("assistant", f"a{number}", f"Lift {number} is on floor {number}.", sequence=number * 10 + 1),
            ),
        )
        for number in range(1, count + 1)
    )  # fmt: skip


def asked(**fields: Any) -> PlanRequest:
    """Return a request with a rule, six turns and a question."""
    return PlanRequest(**{
        "model_bundle_id": "reference", "policy": (TextItem("p1", "Never promise a repair date."),), "turns": turns(6),
        "request": CurrentRequest("q", text="Which lift is out of order?"), "reserved_output_tokens": 64, **fields,
    })  # fmt: skip


def sample(name: str = "s1", **fields: Any) -> Sample:
    """Return a sample of the first family."""
    return Sample(**{"id": name, "family": "over_budget", "request": asked(), "expect": Expectation(), **fields})


def cell(one: Sample, **fields: Any) -> Cell:
    """Return the one cell of a sample on the embedded bundle."""
    made = candidate(**fields)
    return next(cells_of([one], [("reference", made.bundle_digests[0])], [], made))
