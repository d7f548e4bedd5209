"""Whether an answer may stand for its run: the checks of ids, sources, fields and words (R99..R106, R110, X28, X30).

One check a function, in a fixed order; the first flaw refuses the whole answer (R114).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.compaction.answer import Answer, Entry, refuse
from planner.compaction.check_words import Shown, copies_of, holds_words, is_said, states
from planner.compaction.literals import folded, literals, missing
from planner.compaction.strategy import Granularity
from planner.values.turn import Message


class Sources:
    """The messages of a run by label, and what each of them shows."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Take the accepted messages in the order of the prompt's labels."""
        self.messages = {f"m{place}": message for place, message in enumerate(messages, 1)}
        self._shown: dict[str, Shown] = {}

    def shown(self, labels: Iterable[str] = ()) -> list[Shown]:
        """Return what the labelled messages show; without a label what the whole run shows."""
        chosen = tuple(labels) or tuple(self.messages)
        for label in chosen:
            if label not in self._shown:
                self._shown[label] = Shown.of(self.messages[label])
        return [self._shown[label] for label in chosen]

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results."""
        return tuple(message.tool_result.text for message in self.messages.values() if message.tool_result is not None)


@dataclass(frozen=True)
class Asked:
    """What an answer must echo and keep.

    constraint_ids  the live marks of the run (R98).
    items           id and status of every item of the run's turns, finished ones too.
    goal_so_far     an inherited goal: a literal of it may stand in the new one (X52).
    """

    constraint_ids: tuple[str, ...]
    items: Mapping[str, str]
    keeps: Granularity
    goal_so_far: str = ""


def check_answer(answer: Answer, sources: Sources, asked: Asked) -> None:
    """Return nothing if an answer may stand for its run; raises RefusalSignal `invalid-summary` at the first flaw."""
    if not answer.goal and not asked.goal_so_far.strip():
        refuse("empty_goal", "goal")
    _check_constraints(answer, asked)
    _check_labels(answer, sources)
    _check_items(answer, asked)
    _check_decisions(answer, sources, asked)
    for place, entry in answer.entries():
        _check_words(place, entry, sources)
    so_far = [literals(asked.goal_so_far)] if asked.goal_so_far else []
    flaw = missing(literals(answer.goal), [*(one.literals for one in sources.shown()), *so_far])
    if flaw is not None:
        refuse("literal_not_cited", "goal", flaw)
    _check_traces(answer, asked.keeps)
    # R74: wherever it would stand, no stretch of a long tool result is copied.
    if copies_of(answer.written, sources.results):
        refuse("tool_result_copied", "$")


def _check_constraints(answer: Answer, asked: Asked) -> None:
    """R99, R100, X45: the ids are those of the live marks, each once."""
    named = answer.constraint_ids
    if len(set(named)) != len(named):
        refuse("constraint_repeated", "constraints")
    missing_ids = set(asked.constraint_ids) - set(named)
    if missing_ids:
        refuse("constraint_missing", "constraints", min(missing_ids))
    if set(named) - set(asked.constraint_ids):
        # An unknown id is the model's own text, so it is not repeated.
        refuse("constraint_unknown", "constraints")


def _check_labels(answer: Answer, sources: Sources) -> None:
    """Threats 2.2: what an entry cites stands in the run."""
    for place, entry in answer.entries():
        if any(label not in sources.messages for label in entry.sources):
            refuse("source_unknown", place)


def _check_items(answer: Answer, asked: Asked) -> None:
    """X32: every unfinished item of the ledger is echoed once with its status, and none is made up."""
    echoed = [entry.id for entry in answer.open_actions if entry.id is not None]
    if len(set(echoed)) != len(echoed):
        refuse("open_item_mismatch", "open_actions", "an item stands twice")
    lost = [item for item, status in asked.items.items() if status != "done" and item not in echoed]
    if lost:
        refuse("open_item_mismatch", "open_actions", lost[0])
    for place, entry in enumerate(answer.open_actions):
        if entry.id is not None and asked.items.get(entry.id) != entry.status:
            refuse("open_item_mismatch", f"open_actions[{place}]", "names no item of the run, or another status")


def _check_decisions(answer: Answer, sources: Sources, asked: Asked) -> None:
    """R94, R104, X30: a decision cites the user, is no question as well, and is no open item."""
    questions = {_sentence(entry.text) for entry in answer.questions}
    unfinished = {
        _sentence(entry.text) for entry in answer.open_actions if entry.id is not None and entry.status != "done"
    }
    for place, entry in enumerate(answer.decisions):
        path = f"decisions[{place}]"
        if all(sources.messages[label].role != "user" for label in entry.sources):
            refuse("decision_without_user", path)
        if _sentence(entry.text) in questions:
            refuse("question_and_decision", path)
        if _sentence(entry.text) in unfinished or (entry.id is not None and entry.id in asked.items):
            refuse("open_item_mismatch", path, "an open item is no decision")


def _sentence(text: str) -> str:
    """Return the letters and digits of a sentence, by which two of them are compared."""
    return re.sub(r"[\W_]+", "", folded(text))


def _check_words(place: str, entry: Entry, sources: Sources) -> None:
    """R93: every literal and the owner stand in a message the entry cites, without sources in the run."""
    shown = sources.shown(entry.sources)
    stated = entry.text if entry.fact_value is None else f"{entry.text}\n{entry.fact_value}"
    flaw = missing(literals(stated), [one.literals for one in shown])
    if flaw is not None:
        refuse("literal_not_cited", place, flaw)
    if entry.fact_value is not None and not any(states(entry.fact_value, one) for one in shown):
        refuse("literal_not_cited", place, "the fact value")
    if entry.owner is not None and not any(is_said(entry.owner, one) for one in shown):
        refuse("owner_not_cited", place)
    if entry.excerpt is not None and not any(holds_words(one, entry.excerpt) for one in shown):
        refuse("not_traceable", place, "the excerpt is no part of a cited message")
    if entry.archive_ref is not None and not any(folded(entry.archive_ref) in one.folded for one in shown):
        refuse("not_traceable", place, "no cited message names the archive reference")


def _check_traces(answer: Answer, keeps: Granularity) -> None:
    """R110, X28: where the table asks for it, decisions and evidence have an excerpt or a reference."""
    if not keeps.excerpts:
        return
    for place, entry in answer.entries():
        if place.startswith(("decisions", "evidence")) and entry.excerpt is None and entry.archive_ref is None:
            refuse("not_traceable", place, "neither excerpt nor archive reference")
