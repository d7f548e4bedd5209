"""Shorter forms of tool results and passages: what may stand for a text, and what a rung shows instead (X31)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from planner.values.turn import Message, Turn


class Form(NamedTuple):
    """One shorter form: `json`, `log`, `short_1`, `short_2`, .. or `stub`.

    tokens       of its text alone.
    saved        tokens a prompt has less than with the form that the ladder begins with, as rendered.
    saved_alone  the same, each text counted alone.
    """

    name: str
    text: str
    tokens: int = 0
    saved: int = 0
    saved_alone: int = 0

    @property
    def lossless(self) -> bool:
        """True where the whole text can be had back from it."""
        return self.name in ("json", "log")


Shown = tuple[tuple[int, Form], ...]
"""The shorter forms of one item: indexes of messages in their turn (0 for a passage), in order."""


class FormStep(NamedTuple):
    """One step of one text: from now on `form` stands for the message at `place` of a turn, or for a passage."""

    key: str
    place: int
    form: Form


@dataclass(frozen=True, slots=True)
class FormSteps:
    """The steps of a ladder, each list in the order of its moves.

    old    results of turns beside the request's own.
    own    results of the request's own turn.
    cited  by `passage/id`.
    first  forms shown from the start, because a longer one could never fit.
    """

    old: tuple[FormStep, ...] = ()
    own: tuple[FormStep, ...] = ()
    cited: Mapping[str, tuple[FormStep, ...]] = field(default_factory=dict)
    first: Mapping[str, Shown] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True where nothing has a shorter form."""
        return not (self.old or self.own or self.cited or self.first)


NO_FORMS = FormSteps()


def with_forms(turn: Turn, shown: Shown) -> Turn:
    """Return a turn with some results in a shorter form; calls, ids and order are untouched.

    >>> from planner.values.turn import ToolResult
    >>> turn = Turn("t", 1, "open", (Message("tool", tool_result=ToolResult("c", "a long text")),))
    >>> with_forms(turn, ((0, Form("short_1", "a text")),)).messages[0].words()
    'a text'
    """
    if not shown:
        return turn
    forms = dict(shown)
    return replace(
        turn, messages=tuple(_formed(message, forms.get(place)) for place, message in enumerate(turn.messages))
    )


def _formed(message: Message, form: Form | None) -> Message:
    if form is None or message.tool_result is None:
        return message
    return replace(message, tool_result=replace(message.tool_result, text=form.text))
