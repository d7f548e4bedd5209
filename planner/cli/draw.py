"""What a person reads: tables and the bar. Imported, with rich, only when something is drawn.

Everything is ASCII and complete without colour, so that a pipe, a file and an old terminal show the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.cli.account_lines import (
    account_lines,
    bar,
    by_kind,
    free_tokens,
    part_lines,
    removal_name,
)
from planner.values.reasons import CODES

if TYPE_CHECKING:
    from planner.values.account import Account
    from planner.values.plan import Advice, Plan, Refusal
    from planner.values.receipt import Receipt, Removal

PIPE_WIDTH = 110


def console() -> Console:
    """Return a console on stdout that never reads markup in what it prints."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=width)


def table(*headings: str, right: Sequence[int] = ()) -> Table:
    """Return a table without borders; columns whose index is in `right` hold figures."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(headings))
    for index, heading in enumerate(headings):
        made.add_column(
            heading, justify="right" if index in right else "left", overflow="fold", header_style="bold",
            no_wrap=index in right,
        )  # fmt: skip
    return made


def rows(headings: Sequence[str], cells: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Draw one table of plain cells."""
    made = table(*headings, right=right)
    for row in cells:
        made.add_row(*(Text(str(cell)) for cell in row))
    console().print(made)


def say(line: str = "", style: str = "") -> None:
    """Print one line of talk on stdout."""
    console().print(Text(line, style=style), soft_wrap=True)


def _of_runtime(account: Account) -> str:
    taken = account.runtime_overhead_tokens + account.runtime_kept_tokens
    return f" + {taken:,} of the runtime" if taken else ""


def draw_plan(plan: Plan) -> None:
    """Draw an accepted plan: headline, bar, account, kept, removed, notes, digest."""
    account, receipt = plan.account, plan.receipt
    say(f"plan {receipt.plan_id} for {receipt.model_bundle_id}: accepted", "bold")
    say(
        f"{account.input_tokens:,} prompt tokens + {account.reserved_output_tokens:,} reserved for the answer"
        f" + {account.safety_margin_tokens:,} margin{_of_runtime(account)} + {free_tokens(account):,} free"
        f" = {account.input_limit:,}; the answer"
        f" may have up to {plan.max_output_tokens:,}"
    )
    say()
    draw_account(account)
    say()
    draw_kept(plan.kept)
    draw_removed(plan.removed, receipt)
    draw_notes(receipt)
    draw_advice(plan.advice)
    say(f"digest  {receipt.final_input_digest}")


def draw_refusal(refusal: Refusal) -> None:
    """Draw what cannot move and what would help; the refusal's line itself goes to stderr."""
    say(f"plan {refusal.receipt.plan_id} for {refusal.receipt.model_bundle_id}: refused", "bold")
    if refusal.tokens_missing:
        say(f"{refusal.tokens_missing:,} tokens are missing")
    if refusal.account is not None:
        say("what cannot move:")
        draw_account(refusal.account)
    say(f"meaning  {meaning(refusal.reason)}")
    say(f"remedy   {remedy(refusal.reason)}")
    notes = tuple(note for note in refusal.advice.notes if note != remedy(refusal.reason))
    draw_advice(replace(refusal.advice, notes=notes))


def draw_account(account: Account) -> None:
    """Draw the bar against the limit, the table whose tokens add up to it, and below it what is in them already."""
    lines = account_lines(account)
    if free_tokens(account) >= 0:
        drawn = Text("[")
        for line, cells in bar(lines):
            drawn.append(line.letter * cells, style=line.colour)
        drawn.append(f"] {account.input_limit:,}")
        console().print(drawn, soft_wrap=True)
    made = table("", "part", "tokens", "share", right=(2, 3))
    for line in lines:
        if line.tokens or line.letter != "M":
            share = _share(line.tokens, account)
            made.add_row(Text(line.letter, style=line.colour), line.name, f"{line.tokens:,}", share)
    made.add_row("", "limit", f"{account.input_limit:,}", "", style="bold")
    for line in part_lines(account):
        made.add_row("", line.name, f"{line.tokens:,}", _share(line.tokens, account), style=line.colour)
    console().print(made)


def _share(tokens: int, account: Account) -> str:
    return f"{100 * tokens / account.input_limit:.1f} %" if account.input_limit else ""


def draw_kept(kept: Sequence[str]) -> None:
    """Draw how much of each kind is in the prompt, with the first and last ids."""
    made = table("kept", "", "", right=(1,))
    for kind, items in by_kind(kept).items():
        named = ", ".join(items) if len(items) <= 6 else f"{', '.join(items[:3])}, ... {', '.join(items[-2:])}"
        made.add_row(kind, str(len(items)), Text(named))
    console().print(made)


def draw_removed(removed: Sequence[Removal], receipt: Receipt) -> None:
    """Draw what is not in the prompt and why."""
    if not removed and not receipt.excluded:
        say("removed  nothing")
        return
    made = table("removed", "reason", "meaning")
    for entry in removed:
        made.add_row(Text(removal_name(entry)), entry.reason, meaning(entry.reason))
    for reason, count in receipt.excluded.items():
        made.add_row(f"{count} not shown by id", reason, meaning(reason))
    console().print(made)


def draw_notes(receipt: Receipt) -> None:
    """Draw flags, defaults, concessions and counts that a reader should know of."""
    notes = [(flag, meaning(flag)) for flag in receipt.flags]
    if receipt.template_fallback is not None:
        notes.append((receipt.template_fallback, meaning(receipt.template_fallback)))
    notes += [("default", f"{name} {value}") for name, value in receipt.defaults.items()]
    notes += [("concession", f"{use.name} in {len(use.message_ids)} messages") for use in receipt.concessions]
    for count, what in (
        (receipt.neutralised, "control strings in content stayed ordinary text"),
        (sum(receipt.hidden_characters.values()), "characters that are not shown, per item in the receipt"),
        (receipt.aliased_call_ids, "call ids were written as the template wants them"),
        (len(receipt.tool_detail_lost), "details of tool schemas are not printed by the template"),
    ):
        if count:
            notes.append(("note", f"{count} {what}"))
    if receipt.prefix is not None:
        notes.append(("prefix", f"{receipt.prefix.common_tokens:,} tokens; {receipt.prefix.broken_by}"))
    if notes:
        rows(("notes", ""), notes)


def draw_advice(advice: Advice) -> None:
    """Draw what would help, where there is anything."""
    lines: list[tuple[str, str]] = []
    if advice.concession is not None:
        lines.append(("allow", f"--allow {advice.concession}"))
    if advice.tiers:
        lines.append(("tiers that would fit", ", ".join(advice.tiers)))
    if advice.droppable:
        lines.append(("you could drop", ", ".join(advice.droppable[:8])))
    if advice.compaction is not None:
        due = advice.compaction
        runs = ", ".join(f"{first} to {last}" for first, last in due.covers)
        lines.append(("compact now", f"{due.input_tokens:,} tokens reach {due.threshold_tokens:,}; turns {runs}"))
    lines += [("or", note) for note in advice.notes]
    if lines:
        rows(("advice", ""), lines)


def meaning(code: str) -> str:
    """Return a code's sentence; a code may carry a kind after a colon, and a reader's file unknown ones."""
    row = CODES.get(code.partition(":")[0])
    return "unknown to this version" if row is None else row.meaning


def remedy(code: str) -> str:
    """Return what the reader can do about a code."""
    row = CODES.get(code.partition(":")[0])
    return "" if row is None else row.remedy
