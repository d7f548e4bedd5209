"""`planner gate sign`: state a result of the gate with the files that go with it, signed or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from planner.cli.draw import say
from planner.cli.failure import usage
from planner.cli.files import check_outputs, read_input, write_output

LARGEST = 1 << 31
KEY_BYTES = 1 << 16


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name what goes with a result."""
    command = click.option("--receipts", metavar="DIR", help="Device receipts that go with the result.")(command)
    return click.option(
        "--with",
        "others",
        multiple=True,
        metavar="FILE",
        help="A file that goes with it, repeatable: candidate, report.",
    )(command)


def files_of(receipts: str | None, others: tuple[str, ...]) -> dict[str, bytes]:
    """Read what goes with a result: each file by its name, receipts below `receipts/`."""
    named = [(Path(other).name, Path(other)) for other in others]
    if receipts is not None:
        if not Path(receipts).is_dir():
            raise usage("--receipts names a folder")
        named += [(f"receipts/{path.name}", path) for path in sorted(Path(receipts).glob("*.json"))]
    names = [name for name, _ in named]
    if len(set(names)) != len(names) or "result" in names:
        raise usage("--with names two files of one name, or one that is named result")
    return {name: read_input(str(path), LARGEST) for name, path in named}


@click.command("sign")
@click.argument("result", metavar="RESULT.json")
@click.option("--key", metavar="KEY.pem", help="An Ed25519 private key; without one the statement is unsigned.")
@click.option("--out", required=True, metavar="SIGNED.json", help="The file to write.")
@file_options
def command(result: str, key: str | None, out: str, receipts: str | None, others: tuple[str, ...]) -> int:
    """State a verdict and the digests of its files in one file, signed with a key of one's own.

    RESULT.json is what planner gate run --json printed. Nothing is sent anywhere.
    """
    from planner.gate.signature import Signed, dump_signed, sign, statement_of

    check_outputs({"--out": out}, (result, key, *others))
    statement = statement_of(read_input(result, LARGEST), files_of(receipts, others))
    signature = None if key is None else sign(statement, read_input(key, KEY_BYTES))
    write_output(out, dump_signed(Signed(statement, signature)))
    by = "unsigned" if signature is None else f"signed by key {signature.key_id[:16]}"
    say(f"{statement.verdict}  candidate {statement.candidate_id[:16]}  {len(statement.files)} files  {by}")
    return 0
