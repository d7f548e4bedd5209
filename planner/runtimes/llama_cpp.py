"""A llama.cpp server by token ids: what it can hold, one streamed answer, and its own figures beside the plan's.

Every rule here was measured on the server itself; docs/runtimes.md names the versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.runtimes.http_json import JsonServer, as_object, parsed, sayable
from planner.steps.prefix import common_length
from planner.values.field_rules import is_whole
from planner.values.reasons import PlannerFault

_WANTED = ("content", "tokens", "stop", "stop_type", "truncated", "id_slot", "tokens_evaluated", "tokens_predicted",
           "timings")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server says of itself: tokens that prompt and answer share in one slot, and how many slots."""

    window_tokens: int
    slots: int


@dataclass(frozen=True, slots=True)
class Served:
    """One answer and the server's figures, in tokens.

    ids            of the answer; None where it was streamed: the server leaves out ids between two pieces of text.
    finish         `length` where the answer ended because its tokens were used up.
    truncated      the server says that prompt and answer filled its window.
    prompt_tokens  the whole prompt as the server read it, what was cached included.
    cached_tokens  those of them it did not process again.
    """

    text: str = field(repr=False)
    ids: tuple[int, ...] | None = field(repr=False)
    finish: Literal["stop", "length"]
    truncated: bool
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    slot: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure the plan and the server do not share."""

    what: str
    planned: int
    reported: int


class LlamaServer(JsonServer):
    """A llama.cpp server at a base URL."""

    def is_llama(self) -> bool:
        """Tell whether the server takes token ids as llama.cpp does: it answers /props with its settings."""
        try:
            body = self.call_object("GET", "/props")
        except PlannerFault as fault:
            if fault.code == "upstream_failed":
                return False
            raise
        return isinstance(body.get("default_generation_settings"), dict)

    def limits(self, slot: int | None = None) -> Limits:
        """Return the window of a slot, of the smallest one where none is named; what was configured is not asked.

        Raises PlannerFault upstream_down, upstream_failed where the server is no llama.cpp server or has no such slot.
        """
        props = self.call_object("GET", "/props")
        settings = props.get("default_generation_settings")
        what = "the server does not state its window as llama.cpp does"
        window = whole(as_object(settings).get("n_ctx") if settings is not None else None, what)
        slots = whole(props.get("total_slots"), what)
        if slot is not None and slot >= slots:
            raise PlannerFault("upstream_failed", f"the server has {slots} slots")
        if props.get("endpoint_slots") is False:
            return Limits(window, slots)
        sizes = [_slot_window(one, index) for index, one in enumerate(_listed(self.call("GET", "/slots"), slots))]
        return Limits(min(window, *sizes) if slot is None else sizes[slot], slots)

    def run(
        self, ids: Sequence[int], max_tokens: int, *, heard: Callable[[str], None] | None = None,
        slot: int | None = None,
    ) -> Served:  # fmt: skip
        """Run exact ids at temperature 0; with `heard`, hand each piece of text to it as it comes.

        max_tokens  at least 1: the server makes one token even where none is asked for.
        Raises PlannerFault upstream_down, upstream_failed; runtime_mismatch where the server refuses the prompt as
        too long, with its count and its window.
        """
        asked: dict[str, Any] = {
            "prompt": list(ids), "n_predict": max_tokens, "temperature": 0, "cache_prompt": True, "return_tokens": True,
            "stream": heard is not None, "id_slot": -1 if slot is None else slot, "response_fields": list(_WANTED),
        }  # fmt: skip
        if heard is None:
            answer = self.call_object("POST", "/completion", asked)
            made = answer.get("tokens")
            if type(made) is not list or len(made) != answer.get("tokens_predicted"):
                raise _incomplete()
            return _served(answer, _text(answer), tuple(whole(one) for one in made))
        texts: list[str] = []
        for event in self.events("/completion", asked):
            texts.append(_text(event))
            if texts[-1]:
                heard(texts[-1])
            if event.get("stop") is True:
                return _served(event, "".join(texts), None)
        raise PlannerFault("upstream_failed", "the answer has no end")

    def status_fault(self, status: int, body: bytes) -> PlannerFault:
        """Name the server's count and window where it refuses a prompt as too long."""
        with suppress(PlannerFault):
            said = as_object(as_object(parsed(body)).get("error"))
            if said.get("type") == "exceed_context_size_error":
                counted, window = whole(said.get("n_prompt_tokens")), whole(said.get("n_ctx"))
                detail = f"the server refuses a prompt of {counted} tokens for its window of {window}"
                return PlannerFault("runtime_mismatch", detail)
        return super().status_fault(status, body)


def expected_cached(prompt: Sequence[int], generated: Sequence[int], new: Sequence[int]) -> int:
    """Return how many tokens of `new` a slot that just ran `prompt` and made `generated` need not process again.

    The last generated token was never processed, and one token of a prompt always is. Exact on one slot of a model
    with full attention while the server keeps no older prompts; it is the least where it keeps them, and the most
    where the model has a sliding window.

    >>> expected_cached([1, 2, 3], [4, 5], [1, 2, 3, 4, 5, 6]), expected_cached([1, 2, 3], [], [1, 2, 3])
    (4, 2)
    """
    return max(0, min(common_length([*prompt, *generated[:-1]], new), len(new) - 1))


def check_room(limits: Limits, window_tokens: int, prompt_tokens: int) -> None:
    """Refuse before the call what the server would refuse or cut.

    window_tokens  the limit the plan was made for; the server's may not be smaller.
    Raises PlannerFault runtime_mismatch with both numbers: the server takes at most its window less one.
    """
    if limits.window_tokens < window_tokens:
        detail = f"the plan is made for {window_tokens} tokens, the server's window has {limits.window_tokens}"
        raise PlannerFault("runtime_mismatch", detail)
    if prompt_tokens >= limits.window_tokens:
        detail = f"the prompt has {prompt_tokens} tokens, the server takes at most {limits.window_tokens - 1}"
        raise PlannerFault("runtime_mismatch", detail)


def differences(
    served: Served, prompt_tokens: int, max_output_tokens: int, cached: int | None = None
) -> tuple[Difference, ...]:
    """Compare the server's figures with the plan's, in tokens; `cached` only where it is known for certain.

    More cached than expected is none: the server also keeps prompts of before the previous one. An answer that was
    cut before its planned end is a difference too, and one that went on beyond it.
    """
    rows = [("prompt tokens", prompt_tokens, served.prompt_tokens)]
    if cached is not None and served.cached_tokens < cached:
        rows.append(("cached tokens", cached, served.cached_tokens))
    if served.truncated and served.finish == "length":
        rows.append(("answer tokens before the window ended", max_output_tokens, served.answer_tokens))
    elif served.answer_tokens > max_output_tokens:
        rows.append(("answer tokens", max_output_tokens, served.answer_tokens))
    return tuple(Difference(*row) for row in rows if row[1] != row[2])


def whole(value: object, what: str = "the answer lacks text, tokens or figures") -> int:
    """Return a figure of the server. Raises PlannerFault upstream_failed with `what` where it is none."""
    if type(value) is not int or not is_whole(value):
        raise PlannerFault("upstream_failed", what)
    return value


def _text(event: dict[str, Any]) -> str:
    text = event.get("content")
    if type(text) is not str:
        raise _incomplete()
    return sayable(text)


def _served(event: dict[str, Any], text: str, made: tuple[int, ...] | None) -> Served:
    timings = as_object(event.get("timings"))
    cached, fresh, read = whole(timings.get("cache_n")), whole(timings.get("prompt_n")), event.get("tokens_evaluated")
    stop, truncated = event.get("stop_type"), event.get("truncated")
    if cached + fresh != whole(read):
        raise PlannerFault("upstream_failed", f"the server counts {read} prompt tokens as {cached} and {fresh}")
    if stop not in ("eos", "word", "limit") or type(truncated) is not bool:
        raise _incomplete()
    finish: Literal["stop", "length"] = "length" if stop == "limit" else "stop"
    predicted, slot = whole(event.get("tokens_predicted")), whole(event.get("id_slot"))
    return Served(text, made, finish, truncated, cached + fresh, cached, predicted, slot)


def _incomplete() -> PlannerFault:
    return PlannerFault("upstream_failed", "the answer lacks text, tokens or figures")


def _listed(value: Any, count: int) -> list[Any]:
    if type(value) is not list or len(value) != count:
        raise PlannerFault("upstream_failed", "the server does not list its slots as llama.cpp does")
    return value


def _slot_window(value: Any, index: int) -> int:
    slot, what = as_object(value), "the server does not list its slots as llama.cpp does"
    if slot.get("id") != index:
        raise PlannerFault("upstream_failed", what)
    return whole(slot.get("n_ctx"), what)
