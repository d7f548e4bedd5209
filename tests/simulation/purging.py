"""The plain double of a conversation, with retention: what was purged is not shown, and what it marked still counts."""

from __future__ import annotations

from dataclasses import replace

from planner.values.digest import chain_of
from planner.values.relations import relations
from planner.values.turn import Turn
from tests.ledger.oracle import Plain


class Purging(Plain):
    """A `Plain` whose oldest turns may lose their messages."""

    through = -1

    def may_purge(self, before: int) -> bool:
        """Tell whether no open turn and no protected message stands before a sequence, in any branch."""
        return not any(
            turn.state == "open" or (turn.state != "superseded" and turn.pinned)
            for line in self.lines.values()
            for turn in line
            if turn.sequence < before
        )

    def purge(self, before: int) -> None:
        """Take the messages of every turn before a sequence."""
        gone = [turn.sequence for line in self.lines.values() for turn in line if turn.sequence < before]
        self.through = max([self.through, *gone])
        for name, line in self.lines.items():
            self.lines[name] = [replace(turn, messages=()) if turn.sequence <= self.through else turn for turn in line]

    def visible(self) -> list[Turn]:
        """Return the turns that still have their originals."""
        return [turn for turn in self.shown() if turn.sequence > self.through]

    def expected(self) -> dict[str, object]:
        """Return what a view must say."""
        found, wanted = relations(self.shown()), Purging(lines={"main": self.visible()}, branch="main")
        rendered = [turn for turn in self.visible() if turn.state in ("completed", "open")]
        return {
            **Plain.expected(wanted),
            "chain": chain_of(self.visible()).raw(),
            "constraints": found.constraints,
            "held": [place for place, turn in enumerate(rendered) if turn.id in found.held],
            "withdrawing": [place for place, turn in enumerate(rendered) if turn.id in found.withdrawing],
        }
