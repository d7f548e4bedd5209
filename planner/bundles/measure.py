"""Measure what a chat template does to each kind of message, by rendering canaries in this process.

`measure` is pure and trusts nothing it is told about the template: no name, no family, only renders. For a
template nobody has vouched for it runs inside the limits of `planner.bundles.probe`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.bundles.canaries import MARK, TOOL_MARKS, TOOLS, Canary, Form, Pen, adapt, chat
from planner.bundles.measure_growth import grows
from planner.bundles.measure_text import reads
from planner.bundles.verdicts import rejected
from planner.encoding.template import (
    OutputBudgetExceeded,
    TemplateFailure,
    compile_plain,
    option_names,
    output_budget,
    render_plain,
    variables,
)
from planner.encoding.template_static import runaway
from planner.values.profile import Carried, Normalisation, TemplateProfile

LATER = "2031-05-06T07:08:09+00:00"
_WORST: tuple[Carried, ...] = ("kept", "dropped", "raises")


@dataclass(slots=True)
class Subject:
    """One template under test, and what is known so far about how to talk to it."""

    source: str
    strings: Mapping[str, str]
    form: Form = field(default_factory=Form)
    opening: tuple[str, ...] = ()
    needs_tools: bool = False
    renders: int = 0
    stretches: dict[str, None] = field(default_factory=dict)

    def show(
        self,
        canary: Canary,
        *,
        generation: bool = True,
        now: str | None = None,
        form: Form | None = None,
        strings: Mapping[str, str] | None = None,
    ) -> str | None:
        """Render a canary in the known form, None where the template raises.

        Raises PlannerFault template_rejected for what no honest template does.
        """
        messages = adapt(canary.messages, form or self.form)
        tools = list(canary.tools) or (list(TOOLS) if self.needs_tools else None)
        values = variables(
            messages, tools, {"add_generation_prompt": generation}, strings or self.strings, now
        )
        size = sum(len(json.dumps(message)) for message in messages) + (4_096 if tools else 0)
        self.renders += 1
        try:
            text = render_plain(self.source, values, output_budget(size))
        except OutputBudgetExceeded:
            raise rejected("budget") from None
        except TemplateFailure as failure:
            if failure.kind == "MemoryError":
                raise rejected("memory") from None
            return None
        if not canary.filled:
            self.stretches.update(dict.fromkeys(MARK.split(text)))
        return text

    def carries(self, canary: Canary, *roles: str, form: Form | None = None) -> Carried:
        """Tell what became of the marks of these roles, of every role but reasoning where none is named."""
        text = self.show(canary, form=form)
        if text is None:
            return "raises"
        return "kept" if all(mark in text for mark in canary.marks(*roles)) else "dropped"

    def pen(self, *, tools: bool = False) -> Pen:
        """Start a canary with the opening this template is known to take."""
        pen = Pen(tools=tools or self.needs_tools)
        for role in self.opening:
            pen.say(role)
        return pen

    def chat(self, *roles: str) -> Canary:
        """Return a canary of these roles after the opening."""
        pen = self.pen()
        for role in roles:
            pen.say(role)
        return pen.done()


def worst(*verdicts: Carried) -> Carried:
    """Return the worst of several verdicts.

    >>> worst("kept", "raises", "dropped")
    'raises'
    """
    return max(verdicts, key=_WORST.index)


def measure(source: str, strings: Mapping[str, str]) -> TemplateProfile:
    """Return the measured profile of a template; `strings` are the bundle's bos_token and the like.

    Raises PlannerFault `template_rejected` where the template does not compile, could run away, leaves its
    sandbox or carries no conversation at all, and `template_content_dependent` where its framing depends on
    ordinary words or it changes them (R188; threats.md §2.5).
    """
    try:
        danger = runaway(source)
        if danger is not None:
            raise rejected(danger)
        compile_plain(source)
        options = option_names(source)
    except TemplateFailure:
        raise rejected("compile") from None
    subject = Subject(source, strings)
    _find_form(subject)
    profile = TemplateProfile(
        template_digest=hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
        content_form=subject.form.content,
        options=tuple(name for name in options if name not in strings),
        **_roles(subject),
    )
    profile = replace(profile, **_tools(subject))
    profile = replace(profile, **_reasoning(subject, profile))
    profile = replace(profile, **reads(subject, profile))
    profile = replace(profile, **grows(subject, profile))
    return replace(
        profile,
        uses_clock=_uses_clock(subject),
        writes_bos=_writes_bos(subject),
        normalisations=_normalisations(subject, profile),
        template_literals=_literals(subject),
        probe_renders=subject.renders,
    )


def _find_form(subject: Subject) -> None:
    """Find how to say anything at all: contents as strings or parts, with or without a system text, tools."""
    for content in ("string", "parts"):
        for needs_tools in (False, True):
            for roles in (("user",), ("system", "user")):
                trial = replace(subject, form=Form(content=content), needs_tools=needs_tools)
                verdict = trial.carries(chat(*roles), "user")
                subject.renders = trial.renders
                if verdict == "kept":
                    subject.form, subject.needs_tools = trial.form, needs_tools
                    subject.opening = roles[:-1]
                    return
    raise rejected("silent")


def _roles(subject: Subject) -> dict[str, Any]:
    """Measure where system and developer texts are carried, and which neighbours are."""
    system = worst(
        subject.carries(chat("system", "user"), "system"),
        subject.carries(chat("system", "user", "assistant", "user"), "system"),
    )
    if system == "kept":
        subject.opening = ("system",)
    late = ("user", "assistant")
    return {
        "system": system,
        "late_system": subject.carries(subject.chat(*late, "system", "user"), "system", "user", "assistant"),
        "developer": subject.carries(chat("developer", "user"), "developer"),
        "late_developer": subject.carries(subject.chat(*late, "developer", "user"), "developer"),
        "neighbouring_users": worst(
            subject.carries(subject.chat("user", "user"), "user"),
            subject.carries(subject.chat("user", "user", "assistant", "user"), "user"),
        ),
        "neighbouring_assistants": subject.carries(
            subject.chat("user", "assistant", "assistant", "user"), "assistant"
        ),
        "assistant_first": subject.carries(subject.chat("assistant", "user"), "assistant"),
    }


POSITIONS = ("old", "open")


def called(
    subject: Subject, position: str, *, calls: int = 1, text: bool = False, thought: bool = False
) -> Canary:
    """Return a chat with one answered call, either in an old turn or in the open one."""
    pen = subject.pen(tools=True).say("user").loop(calls=calls, text=text, reasoning=thought)
    if position == "old":
        pen.answer(reasoning=thought).say("user")
    return pen.done()


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


def _tools(subject: Subject) -> dict[str, Any]:
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
    return _WORST.index(pair[0]) * 3 + _WORST.index(pair[1])


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
        if call != "kept" or (result != "kept" and calls > 1):
            continue
        canary = called(subject, position, calls=calls, text=text)
        if text:
            seen.append(subject.carries(canary, "assistant", form=form))
        else:
            seen.append(worst(*_carries_calls(subject, canary, form)))
    return worst(*seen) if seen else worst(single, "dropped")


def _without_content(canary: Canary) -> Canary:
    messages = tuple(m | {"content": None} if m.get("tool_calls") else m for m in canary.messages)
    return replace(canary, messages=messages)


def _null_content(subject: Subject) -> Literal["empty", "raises", "differs"]:
    form = replace(subject.form, reasoning=False)
    for position in POSITIONS:
        canary = called(subject, position)
        before, after = (subject.show(shape, form=form) for shape in (_without_content(canary), canary))
        if before is None and after is not None:
            return "raises"
        if before != after:
            return "differs"
    return "empty"


def _reasoning(subject: Subject, profile: TemplateProfile) -> dict[str, Any]:
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
    if raises(shapes):
        subject.form = without
        found["reasoning"] = "raises"
    if raises(beside):
        found["reasoning_beside_text"] = "raises"
    return found


def _uses_clock(subject: Subject) -> bool:
    shapes = (
        subject.chat("user"),
        replace(subject.chat("user"), tools=TOOLS),
        chat("user"),
        called(subject, "open"),
    )
    return any(subject.show(shape) != subject.show(shape, now=LATER) for shape in shapes)


def _writes_bos(subject: Subject) -> bool:
    bos = subject.strings.get("bos_token", "")
    text = subject.show(subject.chat("user"))
    return bool(bos) and text is not None and text.lstrip().startswith(bos)


def _normalisations(subject: Subject, profile: TemplateProfile) -> tuple[Normalisation, ...]:
    """Render a small example before and after each change we make to what an application sent."""
    found: list[Normalisation] = []
    form = subject.form

    def note(name: str, before: Canary, wrong: Form, after: Canary) -> None:
        text = subject.show(after, form=form)
        if text is not None:
            found.append(Normalisation(name, subject.show(before, form=wrong), text))

    example = called(subject, "old")
    if profile.tool_call == "kept":
        if profile.null_content != "empty":
            note("null_content", _without_content(example), form, example)
        if profile.text_arguments == "object":
            note("arguments", example, replace(form, arguments="text"), example)
        if profile.call_ids != "any":
            note("call_ids", example, replace(form, call_ids="any"), example)
    if profile.content_form == "parts":
        plain = subject.chat("user")
        note("content_form", plain, replace(form, content="string"), plain)
    if profile.reasoning == "raises":
        thought = called(subject, "old", thought=True)
        note("reasoning", thought, replace(form, reasoning=True), thought)
    return tuple(found)


def _literals(subject: Subject) -> tuple[str, ...]:
    """Return what the template itself wrote in the probe, longest first, without pieces of one another."""
    kept: list[str] = []
    everything = ""
    for text in sorted(subject.stretches, key=lambda stretch: (-len(stretch), stretch)):
        if text and text not in everything:
            kept.append(text)
            everything += "\0" + text
    return tuple(kept)
