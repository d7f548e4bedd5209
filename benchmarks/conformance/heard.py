"""What an application would hand to the planner: the kit's turns as ours, with marks on the rules it must keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from benchmarks.conformance.reading import rules_of
from benchmarks.conformance.typed import subject, typed
from planner.compaction.propose import Material
from planner.values.constraint import Constraint
from planner.values.turn import Message, MustPreserve, Turn

POLICY_VERSION = "1"


class KitTurn(Protocol):
    """One entry of the kit's transcript. What it plants is marked there too; that mark is never read."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that was said: a mark of its turn. `replaces` names the rules it took the place of."""

    id: str
    turn: int
    weight: int
    text: str
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """Turns without marks, the rules in force by weight (safety rules first), and those that were replaced."""

    turns: tuple[Turn, ...]
    rules: tuple[Rule, ...]
    replaced: tuple[Rule, ...]

    def material(self, live: Sequence[Rule]) -> Material:
        """Return the conversation with these of its rules marked, and the rules they replaced."""
        names = {name for rule in live for name in rule.replaces}
        marked = sorted(
            (*live, *(rule for rule in self.replaced if rule.id in names)), key=lambda rule: (rule.turn, rule.id)
        )
        turns = [
            replace(
                turn,
                must_preserve=tuple(MustPreserve(rule.id, rule.text) for rule in marked if rule.turn == place),
                supersedes=tuple(name for rule in live if rule.turn == place for name in rule.replaces),
            )
            for place, turn in enumerate(self.turns)
        ]
        return Material(
            conversation_id="conformance",
            turns=tuple(turns),
            policy_version=POLICY_VERSION,
            constraints=tuple(
                Constraint(rule.id, self.turns[rule.turn].id, rule.text) for rule in marked if rule in live
            ),
        )


def hear(kit_turns: Sequence[KitTurn]) -> Heard:
    """Return what an application has after these turns.

    From its second round on the kit shows one system turn that holds our own last text. The planner never
    summarises a summary, so this text is taken for what a user said, and the rules in it are marked again.
    A system turn beside others is policy: it is no turn, and no summary carries it.
    """
    if len(kit_turns) == 1 and kit_turns[0].role == "system":
        text = kit_turns[0].text
        own = tuple(Rule(f"c{place}", 0, place, rule) for place, rule in enumerate(rules_of(text), 1))
        return Heard((_turn(0, (("user", text),)), _tail(1)), own, ())
    turns = tuple(_turn(place, group) for place, group in enumerate(_groups(kit_turns)))
    rules, replaced = _rules(turns)
    return Heard((*turns, _tail(len(turns))), rules, replaced)


def _groups(kit_turns: Sequence[KitTurn]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield what a user said with what was answered to it."""
    group: list[tuple[str, str]] = []
    for entry in kit_turns:
        if entry.role == "system":
            continue
        if entry.role == "user" and group:
            yield tuple(group)
            group = []
        group.append((entry.role, entry.text))
    if group:
        yield tuple(group)


def _turn(place: int, group: tuple[tuple[str, str], ...]) -> Turn:
    first = 100 * (place + 1)
    return Turn(
        f"t{place}",
        first,
        "completed",
        tuple(
            Message("user" if role == "user" else "assistant", id=f"t{place}.{number}", text=text,
                    sequence=first + number)
            for number, (role, text) in enumerate(group)
        ),
    )  # fmt: skip


def _tail(place: int) -> Turn:
    """The newest turn, which stays raw: a compaction has one, the kit's session is all to be summarised."""
    return _turn(place, (("user", "Go on."),))


def _rules(turns: Sequence[Turn]) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the rules in force and the replaced ones: of sentences that differ by values alone the newest counts."""
    live: dict[tuple[str, str], Rule] = {}
    replaced: list[Rule] = []
    number = 0
    for place, turn in enumerate(turns):
        for message in turn.messages:
            for line in message.words().splitlines() if message.role == "user" else ():
                said = typed(line)
                if said is None or said.kind not in ("safety", "constraint"):
                    continue
                number += 1
                key = (said.kind, subject(said.text))
                old = live.pop(key, None)
                names: tuple[str, ...] = ()
                if old is not None and old.turn != place:
                    replaced.append(old)
                    names = (old.id,)
                live[key] = Rule(f"c{number}", place, int(said.kind != "safety"), said.text, names)
    return tuple(sorted(live.values(), key=lambda rule: (rule.weight, rule.turn))), tuple(replaced)
