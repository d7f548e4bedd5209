"""What a runtime said about one plan, and what it comes to (X60, field-notes.md M5). Numbers and ids, never text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.values.runtime import Meaning

Verdict = Literal["exact", "runtime_truncated", "drift", "not_comparable"]
Moment = Literal["before_rollback", "after_rollback"]


@dataclass(frozen=True, slots=True)
class Reported:
    """The figures of one call as the runtime gave them, in tokens; None where it gave none.

    tokens            the count whose meaning the runtime's profile states.
    cached_tokens     of the prompt, not processed again.
    output_tokens, reasoning_tokens  of the answer, and of what was thought before it.
    meaning           what the count counts, where the caller knows better than profile and probe.
    moment            whether the count was read before or after the session took thoughts back.
    simulated         no model ran: proves the plumbing and nothing about a runtime (R210).
    """

    tokens: int
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    meaning: Meaning | None = None
    moment: Moment | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """A runtime's report beside the plan it is about.

    verdict  `exact`; `runtime_truncated`: the runtime read fewer tokens than it was given; `drift`: it read more, or
             otherwise than the bundle declares; `not_comparable`: the report does not say how long the prompt was.
    cause    why it is not comparable, "" otherwise. reason is the code that goes with a difference.
    planned_tokens    ids of the plan and what the bundle declares that the runtime adds.
    reported_tokens   as reported; prompt_tokens: the length of the prompt that follows from it, None: none does.
    """

    plan_id: str
    verdict: Verdict
    planned_tokens: int
    reported_tokens: int
    prompt_tokens: int | None
    meaning: Meaning
    model_bundle_id: str
    bundle_digest: str
    runtime: str
    runtime_version: str | None = None
    generation: int = 0
    conversation_id: str | None = None
    candidate_id: str | None = None
    cause: str = ""
    reason: str | None = None
    evidence: Literal["executed", "simulated"] = "executed"

    @property
    def differs(self) -> bool:
        """Whether the bundle may not be used further before it is measured again (X60)."""
        return self.verdict in ("runtime_truncated", "drift")


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """One call of the three that tell what a count means: prompt tokens as planned, of them known to the session.

    frame_tokens  of them at the front what any earlier chat may have left there: the template's frame. Only the first
                  call has it, for what a session held before is known to nobody.
    """

    planned_tokens: int
    shared_tokens: int
    reported: Reported
    frame_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Learned:
    """What three calls showed a runtime's count to mean, with them as evidence; `unknown` where they do not tell."""

    meaning: Meaning
    calls: tuple[ProbeCall, ...]
    runtime: str
    runtime_version: str | None = None
