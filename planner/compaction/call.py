"""The call of a summariser as an ordinary request: it is planned like any other call (R215, X66)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.compaction.prompt import SummaryPrompt
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.request import CurrentRequest, PlanRequest, TextItem

INSTRUCTIONS_ID = "compaction"
_REASONED = "</think>"
_ANSWERS = ("{", "```")


@dataclass(frozen=True, slots=True)
class Summariser:
    """The model that writes summaries, by its bundle; tokens of its window, None as in any request."""

    model_bundle_id: str
    max_input_tokens: int | None = None
    reserved_output_tokens: int = 1_024

    def __post_init__(self) -> None:
        """Raise RefusalSignal `invalid-input` for what is no id: every record made with it would be refused."""
        if not is_id(self.model_bundle_id):
            invalid("$.modelBundleId", ID_RULE)


def summary_request(prompt: SummaryPrompt, summariser: Summariser, request_id: str) -> PlanRequest:
    """Return the request of one summary: instructions as policy, material as the question; nothing of it may leave."""
    return PlanRequest(
        model_bundle_id=summariser.model_bundle_id,
        request=CurrentRequest(id=request_id, text=prompt.material),
        max_input_tokens=summariser.max_input_tokens,
        reserved_output_tokens=summariser.reserved_output_tokens,
        policy=(TextItem(INSTRUCTIONS_ID, prompt.instructions),),
    )


def summary_messages(prompt: SummaryPrompt) -> Sequence[dict[str, str]]:
    """Return the same call as messages ready for a model."""
    return ({"role": "system", "content": prompt.instructions}, {"role": "user", "content": prompt.material})


@dataclass(frozen=True, slots=True)
class PromptedRun:
    """One run with its call: exact ids where a bundle planned it, and the same as messages."""

    plan_id: str
    run: int
    covers: tuple[int, int]
    messages: Sequence[dict[str, str]] = field(repr=False)
    max_output_tokens: int
    ids: Sequence[int] = field(default=(), repr=False)


def spoken(text: str) -> str:
    """Return what a model said after its reasoning, where it wrote that out first.

    A template may have opened the reasoning itself, so that the text holds its end alone. What begins as an answer is
    left as it is, whatever stands in it.

    >>> spoken("<think>hm</think> {}"), spoken("hm</think> {}"), spoken('{"goal": "</think>"}')
    ('{}', '{}', '{"goal": "</think>"}')
    """
    rest, mark = text, _REASONED
    while mark and not rest.lstrip().startswith(_ANSWERS):
        _, mark, rest = rest.partition(_REASONED) if _REASONED in rest else ("", "", rest)
    return text if rest == text else rest.strip()
