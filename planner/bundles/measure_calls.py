"""Measure tools, calls, results and reasoning: what is carried, and in which form it must be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from planner.bundles.canaries import TOOL_MARKS, TOOLS, Canary, Form, adapt
from planner.bundles.subject import POSITIONS, Subject, badness, called, worst
from planner.values.profile import Carried, TemplateProfile


def _carries_calls(subject: Subject, canary: Canary, form: Form | None = None) -> tuple[Carried, Carried]:
    """Tell what became of the calls (names, keys and values counted) and of the results."""
    text = subject.show(canary, form=form)
    if text is None:
        return "raises", "raises"
    bare = subject.show(subject.pen(tools=True).say("user").done()) or ""
    complete = all(mark in text for mark in canary.marks("call")) and all(
        text.count(name) >= canary.named.count(name) + bare.count(name) for name in set(canary.named)
    )
    answered = all(mark in text for mark in canary.marks("tool"))
    return ("kept" if complete else "dropped"), ("kept" if answered else "dropped")


def tools(subject: Subject) -> dict[str, Any]:
    """Measure tools, calls and results, and settle the form of arguments and call ids."""
    plain = subject.show(replace(subject.chat("user"), tools=TOOLS))
    tools: Carried = "raises" if plain is None else "dropped"
    if plain is not None and all(mark in plain for mark in TOOL_MARKS):
        tools = "kept"
    verdicts: dict[tuple[str, str], tuple[Carried, Carried]] = {}
    for call_ids in ("any", "nine_alphanumerics"):
        for arguments in ("object", "text"):
            form = replace(subject.form, arguments=arguments, call_ids=call_ids, reasoning=False)
            each = [_carries_calls(subject, called(subject, place), form) for place in POSITIONS]
            verdicts[call_ids, arguments] = worst(*(c for c, _ in each)), worst(*(r for _, r in each))
    ids: Literal["any", "nine_alphanumerics"] = "any"
    if _all_raise(verdicts, "any") and not _all_raise(verdicts, "nine_alphanumerics"):
        ids = "nine_alphanumerics"
    objects, texts = verdicts[ids, "object"], verdicts[ids, "text"]
    better: Literal["object", "text"] = "object" if _rank(objects) <= _rank(texts) else "text"
    subject.form = replace(subject.form, arguments=better, call_ids=ids)
    tool_call, tool_result = verdicts[ids, better]
    return {
        "tools": tools,
        "tool_call": tool_call,
        "tool_result": tool_result,
        "call_ids": ids,
        "object_arguments": objects[0],
        "text_arguments": "given" if _verbatim(subject) else "object",
        "parallel_calls": _beside(subject, tool_call, calls=2),
        "text_beside_call": _beside(subject, tool_call, text=True),
        "null_content": _null_content(subject),
    }


def _all_raise(verdicts: Mapping[tuple[str, str], tuple[Carried, Carried]], ids: str) -> bool:
    return all(pair[0] == "raises" for (form, _), pair in verdicts.items() if form == ids)


def _rank(pair: tuple[Carried, Carried]) -> int:
    return badness(pair[0]) * 3 + badness(pair[1])


def _verbatim(subject: Subject) -> bool:
    """Tell whether arguments that come as a JSON text stand in the output letter for letter."""
    form = replace(subject.form, arguments="text", reasoning=False)
    for position in POSITIONS:
        canary = called(subject, position)
        text = subject.show(canary, form=form)
        messages = adapt(canary.messages, form)
        written = [call["function"]["arguments"] for m in messages for call in m.get("tool_calls", ())]
        if text is None or any(argument not in text for argument in written):
            return False
    return True


def _beside(subject: Subject, single: Carried, *, calls: int = 1, text: bool = False) -> Carried:
    """Measure a richer call against the plain one at the same place, in an old turn and in the open one."""
    seen: list[Carried] = []
    form = replace(subject.form, reasoning=False)
    for position in POSITIONS:
        plain = called(subject, position)
        call, result = _carries_calls(subject, plain, form)
        # A text is carried or not whatever becomes of the call; several calls can lose no more than one does.
        if call == "raises" if text else (call != "kept" or result != "kept"):
            continue
        canary = called(subject, position, calls=calls, text=text)
        if text:
            seen.append(subject.carries(canary, "assistant", form=form))
        else:
            seen.append(worst(*_carries_calls(subject, canary, form)))
    return worst(*seen) if seen else worst(single, "dropped")


def without_content(canary: Canary) -> Canary:
    messages = tuple(m | {"content": None} if m.get("tool_calls") else m for m in canary.messages)
    return replace(canary, messages=messages)


def _null_content(subject: Subject) -> Literal["empty", "raises", "differs"]:
    form = replace(subject.form, reasoning=False)
    for position in POSITIONS:
        canary = called(subject, position)
        before, after = (subject.show(shape, form=form) for shape in (without_content(canary), canary))
        if before is None and after is not None:
            return "raises"
        if before != after:
            return "differs"
    return "empty"


def reasoning(subject: Subject, profile: TemplateProfile) -> dict[str, Any]:
    """Measure whether reasoning beside a message raises, and whether that of an old turn is kept."""
    answered = subject.pen().say("user").answer(reasoning=True).say("user").done()
    shapes, beside = [answered], []
    if profile.tool_call == "kept":
        shapes += [called(subject, position, thought=True) for position in POSITIONS]
        beside = [called(subject, position, thought=True, text=True) for position in POSITIONS]
    without = replace(subject.form, reasoning=False)

    def raises(canaries: Sequence[Canary]) -> bool:
        return any(subject.show(c) is None and subject.show(c, form=without) is not None for c in canaries)

    found: dict[str, Any] = {"old_reasoning": subject.carries(answered, "reasoning")}
    alone, with_text = raises(shapes), raises(beside)
    if with_text:
        found["reasoning_beside_text"] = "raises"
    if alone:
        found["reasoning"] = "raises"
        subject.form = without
    return found
