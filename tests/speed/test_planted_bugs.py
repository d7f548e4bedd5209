"""Three planted bugs, each noticed by the comparison of the speeds and by the audit of every 64th plan."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import planner.steps.splice as splicing
from planner.encoding.assemble import Assembled
from planner.encoding.encoder import AUDIT_EVERY
from planner.encoding.spliced import FrozenTurn
from planner.values.plan import Plan
from tests.speed.growing import Growing
from tests.support.toy import TEMPLATES, ToyBundle

LOOKS_TWO_TURNS_AHEAD = TEMPLATES["plain"].replace(
    "{{ m.content or '' }}",
    "{{ m.content or '' }}"
    "{% if messages[loop.index:] | selectattr('role', 'equalto', 'user') | list | length > 1 %}{{ '~~' }}{% endif %}",
)
"""Marks what is older than the last two questions, so a turn's text depends on the next two turns."""


class LookingAhead(ToyBundle):
    """A toy with the template above and whatever splice depth is claimed for it."""

    def __init__(self, depth: int | None) -> None:
        super().__init__("plain", "pair", longest_token_bytes=None)
        assert self.template_source != LOOKS_TWO_TURNS_AHEAD
        self.template_source = LOOKS_TWO_TURNS_AHEAD
        digest = hashlib.sha256(self.template_source.encode()).hexdigest()
        self.profile = replace(self.profile, template_digest=digest, splice_depth=depth)


def toy() -> ToyBundle:
    """Return a toy that admits splicing."""
    return ToyBundle("plain", "pair", longest_token_bytes=None)


def grown(bundle: ToyBundle, steps: int = 8) -> Growing:
    """Return a chat of so many steps, never cut so that every turn stays in its window."""
    chat = Growing(bundle, "planted", tools=False)
    for _ in range(steps):
        question = chat.pen.question()
        plan(chat, question.text)
        chat.put(chat._next(question, chat.pen.answer()))
    return chat


def plan(chat: Growing, question: str | None) -> Plan:
    """Plan in a window that holds everything; return what the spliced conversation answered."""
    chat.windows = (100_000,)
    answer = chat.plan(question)["spliced"]
    assert isinstance(answer, Plan), answer.line()
    return answer


def audited(chat: Growing) -> Plan:
    """Make the next plan of the spliced conversation the 64th and return it."""
    chat.planners["spliced"].encoder()._plans = AUDIT_EVERY - 1
    return plan(chat, "and now?")


def assert_audit_repairs(chat: Growing) -> None:
    """The audited plan has the right ids, says that a difference was found, and none after it is spliced."""
    before = len(chat.different)
    found = audited(chat)
    assert found.diagnostics["audit_differences"] == 1
    assert found.diagnostics["speed"] == "certified"
    assert not chat.planners["spliced"].encoder().splicing
    assert plan(chat, "and then?").diagnostics["speed"] == "certified"
    assert chat.different[before:] == []


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    """The nearest legal neighbour: the right depth, no bug; an audit finds nothing and splicing goes on."""
    for bundle in (toy(), LookingAhead(2)):
        chat = grown(bundle)
        assert chat.speeds["spliced"] >= 4
        assert audited(chat).diagnostics["audit_differences"] == 0
        assert audited(chat).diagnostics["speed"] == "spliced"
        assert chat.different == []


def test_a_wrong_splice_depth_is_noticed() -> None:
    """A template that looks two turns ahead, spliced as if one were enough."""
    chat = grown(LookingAhead(1))
    assert set(chat.different) == {"spliced"}
    assert_audit_repairs(chat)


def spoil_runs(chat: Growing, name: str) -> None:
    """Make every remembered run of one planner stale: one of its ids is another one now."""
    cache = chat.planners[name].encoder().cache
    for key, run in list(cache._runs.items()):
        ids = array("i", run.ids)
        ids[-1] += 1
        cache._runs[key] = replace(run, ids=ids)


@pytest.mark.parametrize("name", ["certified", "spliced"])
def test_a_stale_run_is_noticed(name: str) -> None:
    """A remembered run whose ids are no longer those of its text."""
    chat = grown(toy())
    assert chat.different == []
    spoil_runs(chat, name)
    plan(chat, "and now?")
    assert chat.different == [name]


def test_an_audit_repairs_a_stale_run_of_the_spliced_speed() -> None:
    """The ids of the audited plan are right, and nothing stale is used after it."""
    chat = grown(toy())
    spoil_runs(chat, "spliced")
    assert_audit_repairs(chat)


def test_an_audit_repairs_a_stale_run_of_the_certified_speed() -> None:
    """Without splicing there is only the cache of runs to distrust."""
    chat = grown(toy())
    spoil_runs(chat, "certified")
    chat.planners["certified"].encoder()._plans = AUDIT_EVERY - 1
    answer = chat.plan("and now?")["certified"]
    assert answer.diagnostics["audit_differences"] == 1
    plan(chat, "and then?")
    assert chat.different == []


def _splice_losing_one(spliced: Callable[..., Assembled]) -> Callable[..., Assembled]:
    def losing(tail: Assembled, frozen: Any, first: str, *rest: Any) -> Assembled:
        out = spliced(tail, frozen, first, *rest)
        del out.ids[out.starts[first] - 1]
        return out

    return losing


def _freeze_losing_one(freeze: Callable[..., dict[str, FrozenTurn]]) -> Callable[..., dict[str, FrozenTurn]]:
    def losing(*given: Any) -> dict[str, FrozenTurn]:
        return {item: replace(turn, ids=turn.ids[:-1]) for item, turn in freeze(*given).items()}

    return losing


@pytest.mark.parametrize("place", ["splice", "freeze"])
def test_a_lost_token_at_a_border_is_noticed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last token before a border is lost, where turns are cut out or where they are put together."""
    bug = {"splice": _splice_losing_one, "freeze": _freeze_losing_one}[place]
    monkeypatch.setattr(splicing, place, bug(getattr(splicing, place)))
    chat = grown(toy())
    assert set(chat.different) == {"spliced"}
    assert_audit_repairs(chat)
