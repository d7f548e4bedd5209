"""Judge what a runtime made of small conversations: may this bundle be handed to it as text or messages (R41)?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.values.certificate import REQUIRED_SHAPES, SHAPES, Certificate, CertifiedMode, Vector
from planner.values.reasons import PlannerFault
from planner.values.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Sample:
    """One small conversation, written for this; never a user's."""

    name: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None


_SYSTEM = {"role": "system", "content": "Answer in one short sentence."}
_TURN = ({"role": "user", "content": "How many moons has Mars?"}, {"role": "assistant", "content": "Two."})
_NEXT = {"role": "user", "content": "And which is larger?"}
_TOOL = {"type": "function", "function": {
    "name": "find_page", "description": "Find a page of a book.",
    "parameters": {"type": "object", "properties": {
        "title": {"type": "string", "description": "The title."}, "page": {"type": "integer", "minimum": 1},
    }, "required": ["title"]},
}}  # fmt: skip
_CALL = (
    {"role": "user", "content": "What does page 7 say?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": {
        "name": "find_page", "arguments": '{"title": "Moons", "page": 7}'}}]},
    {"role": "tool", "tool_call_id": "call00001", "content": "Page 7: nothing of note."},
)  # fmt: skip


def _asked(name: str, text: str) -> Sample:
    return Sample(name, ({"role": "user", "content": text},))


SAMPLES: tuple[Sample, ...] = (
    _asked("a question", "How many moons has Mars?"),
    _asked("spaces and lines", "  two  spaces,\n\n\na\ttab, and an end \n"),
    _asked("numbers and code", "1234567890 3.14 0x7f\nfor (i = 0; i < 10; i++) { a[i] += 'x'; }"),
    _asked("scripts", "Grüße, 你好, привет, नमस्ते, สวัสดี, שלום, 한국어"),
    _asked("emoji", "fine \U0001f44d\U0001f3fd and \U0001f468\u200d\U0001f469\u200d\U0001f467 too"),
    Sample("a system message", (_SYSTEM, _TURN[0])),
    Sample("two turns", (*_TURN, _NEXT)),
    Sample("three turns", (_SYSTEM, *_TURN, *_TURN, _NEXT)),
    Sample("a tool", (_SYSTEM, _TURN[0]), (_TOOL,)),
    Sample("a call and its result", (*_CALL,), (_TOOL,)),
    Sample("a call in an older turn", (*_CALL, {"role": "assistant", "content": "Nothing."}, _NEXT), (_TOOL,)),
    Sample("old reasoning", (_TURN[0], {**_TURN[1], "reasoning_content": "Phobos and Deimos."}, _NEXT)),
    _asked("letters in parts", "Cafe\u0301, n\u0303, A\u030a, \u1100\u1161"),
)
"""Shapes and texts that runtimes read differently (facts-runtimes.md §2.5, §2.6); which of them a bundle's template
cannot carry is left out."""


def judge(mode: CertifiedMode, runtime: Runtime, vectors: Iterable[Vector], *, begins: bool = False) -> Certificate:
    """Return the certificate that vectors prove.

    A shape in which one vector differs is not covered; a text, a turn or the count itself may differ in none.
    A runtime that takes no ids may read fewer tokens than planned: then the count is an upper bound.
    Raises PlannerFault certificate_refused, naming the vector with both numbers (R41).
    """
    found = tuple(vectors)
    if runtime.version is None:
        raise PlannerFault("certificate_refused", "the manifest states no version of its runtime")
    failed: set[str] = set()
    agreeing = [one for one in found if _agrees(one, runtime)]
    for one in found:
        if one not in agreeing:
            optional = [shape for shape in one.shapes if shape in ("tools", "calls", "reasoning", "not_normal")]
            if not optional:
                raise PlannerFault(
                    "certificate_refused",
                    f"{one.name}: {one.planned_tokens} tokens planned, the runtime reads {one.counted_tokens}"
                    + (", other ones" if one.same_ids is False else ""),
                )
            failed.update(optional[-1:])
    seen = {shape for one in agreeing for shape in one.shapes} - failed
    covers = tuple(shape for shape in SHAPES if shape in seen)
    lacking = [shape for shape in REQUIRED_SHAPES if shape not in covers]
    if lacking:
        raise PlannerFault("certificate_refused", f"nothing was compared of: {', '.join(lacking)}")
    exact = all(one.same_ids for one in agreeing)
    return Certificate(mode, runtime.name, (runtime.version,), covers, exact, found, begins)


def _agrees(vector: Vector, runtime: Runtime) -> bool:
    if vector.same_ids is not None:
        return vector.same_ids and vector.planned_tokens == vector.counted_tokens
    if runtime.profile.accepts_ids:
        return vector.planned_tokens == vector.counted_tokens
    return 0 < vector.counted_tokens <= vector.planned_tokens
