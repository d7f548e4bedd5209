"""The account as lines that add up to the limit, and as a bar of one letter per part; no drawing here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.values.account import Account
from planner.values.receipt import Removal

BAR_WIDTH = 64


@dataclass(frozen=True, slots=True)
class Line:
    """One part of the window: its letter in the bar, its name, tokens, and a rich colour."""

    letter: str
    name: str
    tokens: int
    colour: str


def account_lines(account: Account) -> tuple[Line, ...]:
    """Return the parts of the window; their tokens add up to the limit, the last line is what is free.

    The output schema is shown apart from the policy it travels with, summaries apart from the history.
    """
    return (
        Line("P", "policy", account.policy_tokens - account.schema_tokens, "red"),
        Line("T", "tools", account.tool_tokens, "yellow"),
        Line("S", "schema", account.schema_tokens, "dark_orange"),
        Line("Q", "request", account.request_tokens, "magenta"),
        Line("H", "history", account.history_tokens - account.summary_tokens, "green"),
        Line("M", "summary", account.summary_tokens, "cyan"),
        Line("R", "retrieval", account.retrieval_tokens, "blue"),
        Line("F", "framing", account.framing_tokens, "white"),
        Line("O", "reserve for the answer", account.reserved_output_tokens, "bright_black"),
        Line("-", "safety margin", account.safety_margin_tokens, "bright_black"),
        *_runtime_lines(account),
        Line(".", "free", free_tokens(account), "bright_black"),
    )


def _runtime_lines(account: Account) -> tuple[Line, ...]:
    """Return what the runtime adds or keeps back; most runtimes do neither."""
    found = (
        Line("W", "added by the runtime", account.runtime_overhead_tokens, "bright_black"),
        Line("-", "kept back by the runtime", account.runtime_kept_tokens, "bright_black"),
    )
    return tuple(line for line in found if line.tokens)


def part_lines(account: Account) -> tuple[Line, ...]:
    """Return what is shown below the parts of the window and is in them already: it is in no sum and in no bar.

    Images and sounds stand in request and history, and an account does not say how many in which.
    """
    line = Line("", "of request and history: images and sounds", account.part_tokens, "green")
    return (line,) if line.tokens else ()


def free_tokens(account: Account) -> int:
    """Return the tokens of the window that nobody uses; negative by what is missing on overflow."""
    taken = account.input_tokens + account.reserved_output_tokens + account.safety_margin_tokens
    taken += account.runtime_overhead_tokens + account.runtime_kept_tokens
    return account.input_limit - taken


def bar(lines: Sequence[Line], width: int = BAR_WIDTH) -> tuple[tuple[Line, int], ...]:
    """Share `width` cells among the lines by largest remainder; a part that is there gets at least one.

    The margin, mostly a single token, is left out.

    >>> [cells for _, cells in bar((Line("P", "p", 1, ""), Line("H", "h", 99, "")), 10)]
    [1, 9]
    """
    present = [line for line in lines if line.tokens > 0 and line.letter != "-"]
    total = sum(line.tokens for line in present)
    cells = {line.letter: max(1, line.tokens * width // total) for line in present}
    by_rest = sorted(present, key=lambda line: -(line.tokens * width % total))
    for line in by_rest:
        if sum(cells.values()) < width:
            cells[line.letter] += 1
    while sum(cells.values()) > width:
        largest = max(present, key=lambda line: cells[line.letter])
        cells[largest.letter] -= 1
    return tuple((line, cells[line.letter]) for line in present)


def by_kind(kept: Iterable[str]) -> dict[str, list[str]]:
    """Group `kind/id` names by their kind, in the order they come.

    >>> by_kind(["turn/a", "tool/x", "turn/b"])
    {'turn': ['a', 'b'], 'tool': ['x']}
    """
    found: dict[str, list[str]] = {}
    for name in kept:
        kind, _, item = name.partition("/")
        found.setdefault(kind, []).append(item)
    return found


def removal_name(removal: Removal) -> str:
    """Name what left: an id, or the first and last turn of a range.

    >>> removal_name(Removal("turn/t1", "over_budget", "turn/t9", 9))
    'turn/t1 .. t9 (9 turns)'
    """
    if removal.last_id is None:
        return removal.id
    return f"{removal.id} .. {removal.last_id.partition('/')[2]} ({removal.count} turns)"
