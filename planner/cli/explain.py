"""`planner explain`: what happened to every id of a plan, a refusal or a receipt, and what would change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import Overrides, overriding, plan_value, read_request
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import STDIO, read_input
from planner.values.reasons import RefusalSignal

if TYPE_CHECKING:
    from planner.values.plan import Plan, Refusal
    from planner.values.receipt import Receipt

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_OF_A_RECEIPT = frozenset({"planId", "account", "outcome", "finalInputDigest"})

EPILOG = """\b
Examples:
  planner plan request.json --json > plan.json
  planner explain plan.json
  planner explain receipt.json --window 4096 --request request.json

The second form plans the request again with other options and shows what leaves, what comes back and how
the account changes. Nothing is sent anywhere and nothing is kept.
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a file recorded: always a receipt, a plan or refusal where the file holds one."""

    receipt: Receipt
    plan: Plan | None = None
    refusal: Refusal | None = None


@click.command("explain", epilog=EPILOG)
@click.argument("recorded", metavar="PLAN|RECEIPT")
@click.option("--request", metavar="REQUEST.json|-", help="Plan this request again and show the difference.")
@overriding
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
def command(recorded: str, request: str | None, as_json: bool, **given: Any) -> int:
    """Say what happened to every id of a plan, or what another window would change.

    PLAN|RECEIPT is a file that planner plan wrote with --json or --receipt; - is stdin. A plan's ids are
    checked against its digest.
    """
    overrides = Overrides.taken_from(given)
    if request is None and overrides != Overrides():
        raise usage("to plan again with other options, name the request with --request")
    if recorded == STDIO == request:
        raise usage("the plan and the request cannot both be read from stdin")
    found = read_recorded(recorded)
    if request is not None:
        return _again(found.receipt, request, overrides, as_json=as_json)
    if found.plan is not None:
        check_digest(found.plan)
    if as_json:
        click.echo(json.dumps(fates(found.receipt), indent=1))
        return 0
    from planner.cli.draw_explained import draw_recorded

    draw_recorded(found)
    return 0


def read_recorded(name: str) -> Recorded:
    """Read a plan, refusal or receipt. Raises RefusalSignal invalid-input or account_incomplete."""
    from planner.wire.parse import parse_plan, parse_receipt, parse_refusal

    data = read_input(name, MAX_ANSWER_BYTES)
    try:
        keys = json.loads(data).keys()
    except (ValueError, AttributeError, RecursionError):
        keys = {}.keys()
    if "maxOutputTokens" in keys:
        plan = parse_plan(data, base=None if name == STDIO else Path(name).resolve().parent)
        return Recorded(plan.receipt, plan=plan)
    if "receipt" in keys:
        refusal = parse_refusal(data)
        return Recorded(refusal.receipt, refusal=refusal)
    if keys and keys.isdisjoint(_OF_A_RECEIPT):
        raise RefusalSignal("invalid-input", "$: is neither a plan, a refusal nor a receipt")
    return Recorded(parse_receipt(data))


def check_digest(plan: Plan) -> None:
    """Refuse a plan whose ids are not those its receipt was sealed over.

    Raises RefusalSignal invalid-input, or account_incomplete where the account does not add up to the ids.
    """
    from planner.values.digest import final_input_digest

    if plan.account.input_tokens != len(plan.ids):
        raise RefusalSignal("account_incomplete", "$.account: does not add up to the number of ids")
    if plan.receipt.final_input_digest != final_input_digest(plan.receipt.bundle_digest or "", plan.ids):
        raise RefusalSignal("invalid-input", "$.ids: are not the ids the receipt was sealed over")


def fates(receipt: Receipt) -> list[dict[str, Any]]:
    """Return one row per id: its fate, its tokens where it was kept, its reason where it was removed.

    A row of something kept in a shorter form names it; of a turn, once for each result.
    A summary's row also has the sequences of the turns it covers and, where it was not used, cause and ids. What was
    excluded has one row a reason, with a count and no id; a disputed fact's row names summary, fact and citation.
    """
    items = {} if receipt.account is None else receipt.account.items
    out: list[dict[str, Any]] = [{"id": name, "fate": "kept", "tokens": items.get(name, 0)} for name in receipt.kept]
    for entry in receipt.removed:
        row: dict[str, Any] = {"id": entry.id, "fate": "removed", "reason": entry.reason}
        if entry.last_id is not None:
            row |= {"lastId": entry.last_id, "count": entry.count}
        out.append(row)
    for row in out:
        forms = [one for one in receipt.forms if one.id == row["id"]]
        if forms and row["fate"] == "kept":
            row["forms"] = [
                {"form": one.form, "tokens": one.tokens, "callId": one.call_id, "sequence": one.sequence}
                for one in forms
            ]
    out += [{"id": None, "fate": "excluded", "reason": why, "count": many} for why, many in receipt.excluded.items()]
    out += [
        {"id": f"conflict/{one.summary_id}:{one.fact_id}", "fate": "disputed", "factKey": one.fact_key,
         "citationId": one.citation_id, "explained": one.explained}
        for one in receipt.disputes
    ]  # fmt: skip
    uses = {f"summary/{use.id}": use for use in receipt.summaries}
    for row in out:
        use = uses.get(row["id"])
        if use is not None:
            row |= {"covers": list(use.covers), "version": use.version, "cause": use.cause, "ids": list(use.ids)}
    return out


def _again(receipt: Receipt, name: str, overrides: Overrides, *, as_json: bool) -> int:
    """Plan the request again, compare with the receipt."""
    from planner.cli.compare import compare, draw_difference

    request = read_request(name)
    named = {receipt.conversation_id, request.conversation_id} - {None}
    if len(named) > 1:
        raise usage("--request is of another conversation than the record")
    answer = plan_value(request, overrides)
    found = compare(receipt, answer.receipt)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
    else:
        draw_difference(receipt, answer, found)
    if answer.accepted:
        return 0
    complain(getattr(answer, "reason", ""), getattr(answer, "detail", ""))
    return REFUSED
