"""A template under test: renders canaries, counts, and keeps what the template itself wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.bundles.canaries import MARK, TOOLS, Canary, Form, Pen, adapt
from planner.bundles.verdicts import rejected
from planner.encoding.template import (
    TemplateFailure,
    output_budget,
    render_plain,
    variables,
)
from planner.encoding.template_bounds import OutputBudgetExceeded
from planner.values.profile import Carried

_WORST: tuple[Carried, ...] = ("kept", "dropped", "raises")


def badness(verdict: Carried) -> int:
    """Order verdicts: kept 0, dropped 1, raises 2."""
    return _WORST.index(verdict)


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
        values = variables(messages, tools, {"add_generation_prompt": generation}, strings or self.strings, now)
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
    return max(verdicts, key=badness)


POSITIONS = ("old", "open")


def called(subject: Subject, position: str, *, calls: int = 1, text: bool = False, thought: bool = False) -> Canary:
    """Return a chat with one answered call, either in an old turn or in the open one."""
    pen = subject.pen(tools=True).say("user").loop(calls=calls, text=text, reasoning=thought)
    if position == "old":
        pen.answer(reasoning=thought).say("user")
    return pen.done()
