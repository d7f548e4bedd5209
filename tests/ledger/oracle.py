"""A conversation in plain lists: the naive ledger that the real one is compared with. A branch is a copy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from planner.values.digest import chain_of
from planner.values.receipt import Removal
from planner.values.relations import relations
from planner.values.turn import Message, MustPreserve, OpenItem, ProtectionReason, Turn, TurnState, may_become


@dataclass
class Plain:
    """One conversation; `lines` are turns by branch as they are kept, `shown` strips what is not shown."""

    lines: dict[str, list[Turn]] = field(default_factory=lambda: {"main": []})
    branch: str = "main"
    generation: int = 1
    last_sequence: int = -1

    @property
    def line(self) -> list[Turn]:
        """Turns of the branch that is written."""
        return self.lines[self.branch]

    def turn(self, turn_id: str) -> Turn:
        """One turn of the line."""
        return next(turn for turn in self.line if turn.id == turn_id)

    def put(self, turn: Turn) -> None:
        """Replace the turn of this id, or append it."""
        for place, known in enumerate(self.line):
            if known.id == turn.id:
                self.line[place] = turn
                return
        self.line.append(turn)

    def append(self, turn_id: str, messages: list[Message], state: TurnState | None = None) -> None:
        """Append messages to a new turn or to an open one."""
        placed = []
        for message in messages:
            self.last_sequence += 1
            placed.append(replace(message, sequence=self.last_sequence))
        known = next((turn for turn in self.line if turn.id == turn_id), None)
        if known is None:
            known = Turn(turn_id, placed[0].sequence or 0, "open", ())
        self.put(replace(known, messages=(*known.messages, *placed), state=state or known.state))

    def set_state(self, turn_id: str, state: TurnState) -> None:
        """Move a turn."""
        turn = self.turn(turn_id)
        assert may_become(turn.state, state)
        self.put(replace(turn, state=state))

    def change(self, message_id: str, **fields: object) -> None:
        """Put a new version of a message."""
        for turn in self.line:
            for place, message in enumerate(turn.messages):
                if message.id == message_id:
                    after = replace(message, version=message.version + 1, **fields)  # type: ignore[arg-type]
                    if replace(after, version=message.version) != message:
                        self.put(replace(turn, messages=(*turn.messages[:place], after, *turn.messages[place + 1 :])))
                    return

    def protect(self, message_id: str, reason: ProtectionReason | None) -> None:
        """Set or clear a protection."""
        self.change(message_id, protection_reason=reason)

    def mark(self, turn_id: str, marks: list[MustPreserve]) -> None:
        """Add marks that are not there."""
        turn = self.turn(turn_id)
        known = {mark.constraint_id for mark in turn.must_preserve}
        new = [mark for mark in marks if mark.constraint_id not in known]
        self.put(replace(turn, must_preserve=(*turn.must_preserve, *new)))

    def supersede(self, turn_id: str, names: list[str]) -> None:
        """Add withdrawals that are not there."""
        turn = self.turn(turn_id)
        self.put(replace(turn, supersedes=tuple(dict.fromkeys((*turn.supersedes, *names)))))

    def set_item(self, turn_id: str, item: OpenItem) -> None:
        """Set an item of a turn."""
        turn = self.turn(turn_id)
        items = {entry.id: entry for entry in turn.open_items} | {item.id: item}
        self.put(replace(turn, open_items=tuple(items.values())))

    def make_branch(self, branch_id: str, at_turn_id: str) -> None:
        """Copy the line up to a turn."""
        place = next(place for place, turn in enumerate(self.line) if turn.id == at_turn_id)
        self.lines[branch_id] = list(self.line[: place + 1])

    def shown(self, branch: str | None = None) -> list[Turn]:
        """Return the turns of a line as they are read: a cancelled one keeps only what is protected."""
        return [_shown(turn) for turn in self.lines[branch or self.branch]]

    def expected(self) -> dict[str, object]:
        """Return what a view must say of the line that is written."""
        every = self.shown()
        rendered = [turn for turn in every if turn.state in ("completed", "open")]
        found = relations(every)
        return {
            "turns": rendered,
            "pinned": [place for place, turn in enumerate(rendered) if turn.pinned or turn.state == "open"],
            "hidden": [
                Removal(f"turn/{turn.id}", turn.state) for turn in every if turn.state in ("cancelled", "superseded")
            ],
            "chain": chain_of(every).raw(),
            "constraints": found.constraints,
            "held": [place for place, turn in enumerate(rendered) if turn.id in found.held],
            "withdrawing": [place for place, turn in enumerate(rendered) if turn.id in found.withdrawing],
        }


def _shown(turn: Turn) -> Turn:
    if turn.state != "cancelled":
        return turn
    kept = [entry for entry in turn.messages if entry.role == "user" and entry.protection_reason is not None]
    return replace(turn, messages=tuple(kept))
