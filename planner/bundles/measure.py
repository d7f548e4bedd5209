"""Measure what a chat template does to each kind of message, by rendering canaries in this process.

`measure` is pure and trusts nothing it is told about the template: no name, no family, only renders. For a
template nobody has vouched for it runs inside the limits of `planner.bundles.probe`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.bundles.canaries import TOOLS, Canary, Form, chat
from planner.bundles.measure_calls import reasoning, tools, without_content
from planner.bundles.measure_growth import grows
from planner.bundles.measure_text import reads
from planner.bundles.subject import Subject, called, worst
from planner.bundles.verdicts import rejected
from planner.encoding.template import TemplateFailure, compile_plain, option_names
from planner.encoding.template_static import runaway
from planner.values.profile import Normalisation, TemplateProfile

LATER = "2031-05-06T07:08:09+00:00"


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
    profile = replace(profile, **tools(subject))
    profile = replace(profile, **reasoning(subject, profile))
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
        "neighbouring_assistants": subject.carries(subject.chat("user", "assistant", "assistant", "user"), "assistant"),
        "assistant_first": subject.carries(subject.chat("assistant", "user"), "assistant"),
    }


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
            note("null_content", without_content(example), form, example)
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
