"""Drawing of `planner explain`: one row for every id."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from planner.cli.account_lines import removal_name
from planner.cli.draw import (
    draw_account,
    draw_advice,
    draw_notes,
    meaning,
    remedy,
    rows,
    say,
)

if TYPE_CHECKING:
    from planner.cli.explain import Recorded
    from planner.values.receipt import Receipt


def draw_summaries(receipt: Receipt) -> None:
    """Draw which summary stood in for which turns, and why another one did not."""
    if receipt.summaries:
        rows(
            ("summary", "stands for turns", "fate", "why", "ids"),
            [
                (f"{use.id}@{use.version}" if use.version else use.id, f"{use.covers[0]} to {use.covers[1]}", use.fate,
                 use.cause or ("" if use.fate == "used" else meaning(use.fate)), ", ".join(use.ids))
                for use in receipt.summaries
            ],
        )  # fmt: skip


def draw_forms(receipt: Receipt) -> None:
    """Draw what is kept in a shorter form, and how many tokens the form has."""
    if receipt.forms:
        rows(
            ("kept shorter", "result of", "form", "tokens"),
            [(use.id, use.call_id or "", use.form, f"{use.tokens:,}") for use in receipt.forms],
            right=(3,),
        )


def draw_parts(receipt: Receipt) -> None:
    """Draw which images and sounds are in the prompt, and what each costs as the bundle declares it."""
    rows(
        ("image or sound", "type", "turn", "message", "tokens"),
        [(use.part_id, use.type, use.turn_id, use.message_id, f"{use.tokens:,}") for use in receipt.parts],
        right=(4,),
    )


def draw_recorded(found: Recorded) -> None:
    """Draw a plan, refusal or receipt: its account, then every id with its fate and the reason."""
    receipt = found.receipt
    say(f"plan {receipt.plan_id} for {receipt.model_bundle_id}: {receipt.outcome}", "bold")
    if receipt.reason is not None:
        detail = "" if found.refusal is None else f": {found.refusal.detail}"
        say(f"{receipt.reason}{detail}")
        say(f"meaning  {meaning(receipt.reason)}")
        say(f"remedy   {remedy(receipt.reason)}")
    if receipt.account is not None:
        say()
        draw_account(receipt.account)
        say()
        items = receipt.account.items
        rows(("kept", "tokens"), [(name, f"{items.get(name, 0):,}") for name in receipt.kept], right=(1,))
    draw_forms(receipt)
    if receipt.parts:
        draw_parts(receipt)
    rows(
        ("removed", "reason", "meaning", "what would change it"),
        [(removal_name(one), one.reason, meaning(one.reason), remedy(one.reason)) for one in receipt.removed],
    )
    rows(
        ("excluded", "reason", "meaning", "what would change it"),
        [(f"{count} not shown by id", why, meaning(why), remedy(why)) for why, count in receipt.excluded.items()],
    )
    rows(
        ("disputed fact", "summary", "passage", "explained"),
        [
            (one.fact_key, f"{one.summary_id}:{one.fact_id}", one.citation_id or "", "yes" if one.explained else "no")
            for one in receipt.disputes
        ],
    )
    draw_summaries(receipt)
    draw_notes(receipt)
    if found.plan is not None:
        draw_advice(found.plan.advice)
    if found.refusal is not None:
        draw_advice(found.refusal.advice)
    if found.plan is not None:
        say(f"digest  {receipt.final_input_digest} (agrees with the {len(found.plan.ids):,} ids)")
    elif receipt.final_input_digest is not None:
        say(f"digest  {receipt.final_input_digest}")


def draw_receipts(found: Mapping[str, Any]) -> None:
    """Draw how two recorded plans differ: identity, items, tokens per line, common prefix."""
    same = "the same input" if found["sameInput"] else f"{found['outcomeBefore']} before, {found['outcomeAfter']} after"
    say(same, "bold")
    if found["changed"]:
        say(f"changed  {', '.join(found['changed'])}")
    if found["leaves"] or found["comes"]:
        rows(("left", "came"), list(zip_longest(found["leaves"], found["comes"], fillvalue="")))
    else:
        say("nothing left or came")
    if found["tokens"]:
        rows(("line", "before", "after"), [tuple(row.values()) for row in found["tokens"]], right=(1, 2))
    else:
        say("no line of the account differs")
    if found["commonTokens"] is not None:
        say(f"common prefix  {found['commonTokens']:,} tokens, ended by {found['brokenBy']}")
