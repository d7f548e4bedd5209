"""The text of a summary, written by us from the checked state: plain lines, each understood alone (design.md §8)."""

from __future__ import annotations

from collections.abc import Iterator

from planner.values.summary import StateEntry, SummaryState


def state_text(state: SummaryState) -> str:
    """Return the lines of a state: goal, decisions, constraints, actions, questions, evidence.

    A constraint is the application's wording. An entry is one line, so it cannot begin one that looks like ours.

    >>> state_text(SummaryState("Paint it.", decisions=(StateEntry("Use blue."),)))
    'Goal: Paint it.\\nDecided: Use blue.'
    """
    return "\n".join(_lines(state))


def _lines(state: SummaryState) -> Iterator[str]:
    yield f"Goal: {one_line(state.goal)}"
    yield from (f"Decided: {_traced(entry)}" for entry in state.decisions)
    yield from (f"Must hold: {one_line(entry.text)}" for entry in state.constraints)
    yield from (f"{_action(entry)}: {_traced(entry)}" for entry in state.open_actions)
    yield from (f"Not answered: {_traced(entry)}" for entry in state.questions)
    yield from (f"Known: {_traced(entry)}" for entry in state.evidence)


def _action(entry: StateEntry) -> str:
    """Return what an action is and who owns it: a lost owner or status would have to be guessed again."""
    owner = f", {one_line(entry.owner)}" if entry.owner else ""
    return f"Action ({entry.status}{owner})"


def _traced(entry: StateEntry) -> str:
    """Return the sentence with the words it rests on and where they can be looked up (R110)."""
    text = one_line(entry.text)
    if entry.excerpt and one_line(entry.excerpt) != text:
        text = f'{text} "{one_line(entry.excerpt)}"'
    return f"{text} [{one_line(entry.archive_ref)}]" if entry.archive_ref else text


def one_line(text: str) -> str:
    """Return a text with every run of white space as one space."""
    return " ".join(text.split())
