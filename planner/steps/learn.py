"""Tell from three calls what a runtime's own count means (field-notes.md M5)."""

from __future__ import annotations

from collections.abc import Sequence

from planner.steps.observe import check_reported, prompt_tokens
from planner.steps.prefix import common_length
from planner.values.observation import ProbeCall, Reported
from planner.values.runtime import MEANINGS, Meaning

CALLS = 3
PROBE_OUTPUT = 64
"""Most tokens of an answer to a probe: enough for a model to think in."""
_QUESTION = "name three rivers, one a line, and say where each one ends."


def probe_chats(mark: str) -> tuple[list[dict[str, str]], ...]:
    """Return four chats: one that is only planned, one that is new to any cache by its mark, the same again, and one
    that goes on from it.

    The first one's mark differs at its first character, so what the two share is the template's frame.
    """
    other, first = ([{"role": "user", "content": f"{one}: {_QUESTION}"}] for one in (_another(mark), mark))
    more = [
        {"role": "assistant", "content": "Rhine, the North Sea. Danube, the Black Sea. Rhone, the Mediterranean."},
        {"role": "user", "content": "Which of the three is the longest?"},
    ]
    return (other, first, first, [*first, *more])


def probed(number: int, ids: Sequence[int], before: Sequence[int], reported: Reported) -> ProbeCall:
    """Return the call of one of the chats, counted from 0; `before` are the ids of the chat before it.

    What the first chat that is run shares with the one that was only planned, any chat may have left in the session.
    """
    shared = common_length(ids, before)
    known = 0 if number == 1 else shared
    return ProbeCall(len(ids), known, reported, shared - known)


def _another(mark: str) -> str:
    return ("1" if mark.startswith("0") else "0") + mark[1:]


def learned_meaning(calls: Sequence[ProbeCall]) -> Meaning:
    """Return the one meaning under which every call's count is the planned prompt, `unknown` where none or several.

    calls  three: a new prompt, the same again, and one that goes on from it; each with what the session shares with
           the call before. Overhead is not assumed: a runtime that adds tokens is of no meaning here.
    Of the first prompt a session may hold the template's frame already, from any chat before: what was processed of
    it lies between, and the other two calls decide, of which every token is known.
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
        most = call.planned_tokens - call.shared_tokens
        least = most - call.frame_tokens
        return call.planned_tokens > 0 and (least <= reported.tokens <= most or reported.tokens == max(1, least))
    return prompt_tokens(reported, meaning) == call.planned_tokens
