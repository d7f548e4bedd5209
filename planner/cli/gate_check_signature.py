"""`planner gate check-signature`: whether a statement is of these files and was signed by this key."""

from __future__ import annotations

import click

from planner.cli.draw import say
from planner.cli.failure import REFUSED, complain
from planner.cli.files import read_input
from planner.cli.gate_sign import KEY_BYTES, LARGEST, file_options, files_of


@click.command("check-signature")
@click.argument("signed", metavar="SIGNED.json")
@click.argument("result", metavar="RESULT.json")
@click.option("--public-key", required=True, metavar="KEY.pem", help="The public key of whoever may sign.")
@file_options
def command(signed: str, result: str, public_key: str, receipts: str | None, others: tuple[str, ...]) -> int:
    """Check that a key signed this result and every file that goes with it, without a network.

    Exit 0 where it did and the verdict is a pass; exit 2 for an unsigned statement, one byte that differs, a file
    that is missing on either side, and a signed verdict that blocks.
    """
    from planner.gate.signature import check_signed, parse_signed

    statement = check_signed(
        parse_signed(read_input(signed, LARGEST)), read_input(result, LARGEST), files_of(receipts, others),
        read_input(public_key, KEY_BYTES),
    )  # fmt: skip
    say(f"{statement.verdict}  candidate {statement.candidate_id}  {len(statement.files)} files, as they were signed")
    say(statement.claim)
    if statement.verdict == "block":
        complain("release_blocked", "the signed verdict blocks the candidate")
        return REFUSED
    return 0
