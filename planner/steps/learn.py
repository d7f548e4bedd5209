"""Tell from three calls what a runtime's own count means (field-notes.md M5)."""

from __future__ import annotations

from collections.abc import Sequence

from planner.steps.observe import check_reported, prompt_tokens
from planner.values.observation import ProbeCall
from planner.values.runtime import MEANINGS, Meaning

CALLS = 3
PROBE_OUTPUT = 64
"""Most tokens of an answer to a probe: enough for a model to think in."""


def probe_chats(mark: str) -> tuple[list[dict[str, str]], ...]:
    """Return three chats: one that is new to any cache by its mark, the same again, and one that goes on from it."""
    first = [{"role": "user", "content": f"{mark}: name three rivers, one a line, and say where each one ends."}]
    more = [
        {"role": "assistant", "content": "Rhine, the North Sea. Danube, the Black Sea. Rhone, the Mediterranean."},
        {"role": "user", "content": "Which of the three is the longest?"},
    ]
    return (first, first, [*first, *more])


def learned_meaning(calls: Sequence[ProbeCall]) -> Meaning:
    """Return the one meaning under which every call's count is the planned prompt, `unknown` where none or several.

    calls  three: a new prompt, the same again, and one that goes on from it; each with what the session shares with
           the call before. Overhead is not assumed: a runtime that adds tokens is of no meaning here.
    `whole_prompt` needs a call that names cached tokens, or a runtime that processes only what is new would pass for
    one wherever its cache was empty. Raises RefusalSignal invalid-input for figures that are no counts.
    """
    for call in calls:
        check_reported(call.reported)
    if len(calls) != CALLS:
        return "unknown"
    fitting = [meaning for meaning in MEANINGS if meaning != "unknown" and all(_fits(one, meaning) for one in calls)]
    if fitting == ["whole_prompt"] and not any(one.reported.cached_tokens for one in calls):
        return "unknown"
    return fitting[0] if len(fitting) == 1 else "unknown"


def _fits(call: ProbeCall, meaning: Meaning) -> bool:
    reported = call.reported
    if meaning == "prefilled_now" and reported.cached_tokens is None:
        # A server that does not say what it had cached had what the session shared, less the last token at most.
        least = call.planned_tokens - call.shared_tokens
        return reported.tokens in (least, max(1, least)) and call.planned_tokens > 0
    return prompt_tokens(reported, meaning) == call.planned_tokens
