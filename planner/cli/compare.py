"""What differs between a receipt and another plan of the same request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.cli.account_lines import account_lines, part_lines, removal_name
from planner.values.account import Account

if TYPE_CHECKING:
    from planner.values.plan import Plan, Refusal
    from planner.values.receipt import Receipt


_LAST = ("free", "limit")
"""The lines that close the account."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Ids that leave or come back, the tokens per line before and after, and whether the request is the same.

    `tokens` holds only lines that differ; a refusal without an account has none.
    """

    leaves: tuple[str, ...]
    comes: tuple[str, ...]
    tokens: tuple[tuple[str, int, int], ...]
    removed: tuple[str, ...]
    outcomes: tuple[str, str]
    same_conversation: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "leaves": list(self.leaves),
            "comes": list(self.comes),
            "tokens": [{"line": name, "before": old, "after": new} for name, old, new in self.tokens],
            "outcomeBefore": self.outcomes[0],
            "outcomeAfter": self.outcomes[1],
            "sameConversation": self.same_conversation,
        }


def compare(before: Receipt, after: Receipt) -> Difference:
    """Compare two receipts of one conversation."""
    old, new = frozenset(before.kept), frozenset(after.kept)
    same = (before.conversation_id, before.generation, before.revision) == (
        after.conversation_id,
        after.generation,
        after.revision,
    )
    return Difference(
        leaves=tuple(name for name in before.kept if name not in new),
        comes=tuple(name for name in after.kept if name not in old),
        tokens=_tokens(before.account, after.account),
        removed=tuple(f"{removal_name(one)}: {one.reason}" for one in after.removed),
        outcomes=(before.outcome, after.outcome),
        same_conversation=same,
    )


def _tokens(before: Account | None, after: Account | None) -> tuple[tuple[str, int, int], ...]:
    if before is None or after is None:
        return ()
    old, new = _by_name(before), _by_name(after)
    # A line that only one of them has stands where it would, before what is free.
    names = [name for name in (*old, *new) if name not in _LAST]
    lines = [(name, old.get(name, 0), new.get(name, 0)) for name in dict.fromkeys((*names, *_LAST))]
    return tuple(line for line in lines if line[1] != line[2])


def _by_name(account: Account) -> dict[str, int]:
    lines = {line.name: line.tokens for line in (*account_lines(account), *part_lines(account))}
    return lines | {"limit": account.input_limit}


def draw_difference(before: Receipt, answer: Plan | Refusal, found: Difference) -> None:
    """Draw the difference for a person."""
    from planner.cli.draw import rows, say

    after = answer.receipt
    say(f"plan {before.plan_id} for {before.model_bundle_id}: {before.outcome}", "bold")
    say(f"plan {after.plan_id} for {after.model_bundle_id}: {after.outcome}", "bold")
    if not found.same_conversation:
        say("The receipt names another conversation or revision than the request.")
    say()
    if found.tokens:
        cells = [(name, f"{old:,}", f"{new:,}", f"{new - old:+,}") for name, old, new in found.tokens]
        rows(("part", "before", "after", "change"), cells, right=(1, 2, 3))
        say()
    if not after.kept:
        say("no prompt: the request is refused with these options")
        return
    rows(("leaves",), [(name,) for name in found.leaves] or [("nothing",)])
    rows(("comes back",), [(name,) for name in found.comes] or [("nothing",)])
