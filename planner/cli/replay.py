"""`planner replay`: rebuild the input of a recorded call, or say which part differs or is gone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.asking import plan_as_kept, planner_for, read_request
from planner.cli.explain import read_recorded
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.opening import as_tree, open_ledger

if TYPE_CHECKING:
    from planner.values.receipt import Receipt
    from planner.values.request import PlanRequest

_HELD = ("history", "summary", "framing", "outcome", "request")
"""Layers in which something of purged turns may be in force: a constraint, a withdrawal, a border."""

EPILOG = """\b
Examples:
  planner replay receipt.json --ledger chat.db
  planner replay receipt.json --request request.json --bundle qwen3-0.6b

The texts come from the ledger or the request; the receipt holds none. Nothing is written.
"""


@click.command("replay", epilog=EPILOG)
@click.argument("recorded", metavar="RECEIPT.json")
@click.option("--ledger", metavar="DB", help="The ledger the call was planned from.")
@click.option("--request", metavar="REQUEST.json", help="The request; with --ledger its frame, if that is gone.")
@click.option("--bundle", metavar="ID|PATH", help="The bundle of the call; default: the one the receipt names.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def command(recorded: str, ledger: str | None, request: str | None, bundle: str | None, as_json: bool) -> int:
    """Rebuild the input of a recorded call, or say which layer and part differ or are gone.

    Exit 0 where the ids are the same to the last one; exit 2 with one line otherwise.
    """
    from planner.gate.replay import differences, plan_withholding

    receipt = read_recorded(recorded).receipt
    planner = planner_for(bundle or receipt.model_bundle_id)
    given = None if request is None else read_request(request)
    asked = given if ledger is None else _from_ledger(ledger, receipt, given)
    if asked is None:
        raise usage("name --ledger or --request; see planner replay --help")
    asked = replace(asked, model_bundle_id=planner.bundle_id)
    encoder = planner.encoder(app_version=asked.app_version)
    revoked = frozenset() if ledger is None else _withheld(ledger, receipt)
    again = boundary = None
    if ledger is not None:
        with open_ledger(ledger, read_only=True) as store:
            again = plan_as_kept(store, asked, planner, revoked=revoked, summaries=bool(receipt.summaries))
            boundary = store.view(asked.conversation_id or "").boundary if again is None else None
    if again is None:
        again = plan_withholding(asked, encoder, revoked) if revoked else planner.plan(asked)
    found = differences(receipt, asked, again, encoder.bundle.manifest)
    if as_json:
        click.echo(json.dumps({"same": not found, "differences": as_tree(found)}, indent=1))
    elif not found:
        click.echo(f"replayed: {receipt.final_input_digest or receipt.reason}")
    if found and boundary is not None and all(one.layer in _HELD and one.how != "gone" for one in found):
        complain("part_missing:history", f"turns up to sequence {boundary} were purged, and the conversation went on")
        return REFUSED
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        complain("replay_differs", f"{found[0].line}{more}")
        return REFUSED
    return 0


def _withheld(name: str, receipt: Receipt) -> frozenset[str]:
    """Return what the caller withheld from a call, as the audit record beside its receipt says."""
    from planner.gate.replay import withheld
    from planner.ledger.parts import EXCLUSIONS
    from planner.values.reasons import PlannerFault

    with open_ledger(name, read_only=True) as store:
        try:
            return withheld(store.part(receipt.conversation_id, EXCLUSIONS, receipt.plan_id))
        except PlannerFault as fault:
            if fault.code.partition(":")[0] != "part_missing":
                raise
            return frozenset()


def _from_ledger(name: str, receipt: Receipt, given: PlanRequest | None) -> PlanRequest:
    """Put a recorded request together again: its frame, the turns of its revision, the summaries it used."""
    from planner.adapters.frames import UNVERSIONED, versioned
    from planner.gate.checks_receipt import digest_of
    from planner.ledger.parts import CANONICAL_REQUEST
    from planner.values.digest import withheld_digest
    from planner.values.reasons import PlannerFault
    from planner.wire.parse import parse_request

    conversation = receipt.conversation_id
    if conversation is None or receipt.request_digest is None:
        raise PlannerFault("conversation_not_found", "the receipt names no conversation of a ledger")
    with open_ledger(name, read_only=True) as store:
        if given is not None and receipt.policy_version != UNVERSIONED:
            given = versioned(given)
        stored = given or parse_request(store.part(conversation, CANONICAL_REQUEST, receipt.request_digest), Path())
        frame = replace(stored, conversation_id=conversation, generation=receipt.generation, revision=receipt.revision)
        turns = store.turns_at(conversation, generation=receipt.generation, revision=receipt.revision)
        named = {(use.id, use.version) for use in receipt.summaries}
        versions = store.summaries(conversation)
        current = store.summaries_at(conversation, receipt.plan_id, receipt.policy_version)
    if receipt.final_input_digest is None:
        # A refusal names no summary. Switched off there were none, and its request tells which of the two it was.
        bare = replace(frame, turns=turns)
        same = withheld_digest(digest_of(bare), _withheld(name, receipt)) == receipt.request_digest
        return bare if same else replace(bare, summaries=current)
    # One that an older generation made stood there as this generation's.
    kept = [replace(one.record, source_generation=receipt.generation) for one in versions
            if one.record is not None and (one.summary_id, one.summary_version) in named]  # fmt: skip
    return replace(frame, turns=turns, summaries=tuple(sorted(kept, key=lambda one: one.covers_from)))
