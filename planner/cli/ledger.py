"""`planner ledger`: conversations in and out of the durable record, and its upkeep."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import STDIO, check_outputs, not_readable, read_input, write_chunks
from planner.cli.ledger_resolve import command as resolve_command
from planner.cli.opening import (
    as_tree,
    conversation_option,
    json_option,
    ledger_option,
    open_ledger,
    progress,
)

if TYPE_CHECKING:
    from planner.adapters.frames import Frame
    from planner.adapters.ledger_files import Imported

MAX_POLICY_BYTES = 4 * 1024 * 1024

EPILOG = """\b
Examples:
  planner ledger import chat.json --ledger chat.db --conversation c1
  planner plan --ledger chat.db --conversation c1 --bundle qwen3-0.6b
  planner ledger export --ledger chat.db --conversation c1 --out c1.jsonl
  planner ledger verify --ledger chat.db
  planner ledger retain --ledger chat.db --conversation c1 --before 200 --reason policy-30-days
"""


@click.group("ledger", epilog=EPILOG)
def command() -> None:
    """Keep conversations: import, export, check, and purge by a recorded run.

    A ledger is one file. What was acknowledged is durable, and nothing is changed or deleted afterwards but by
    planner ledger retain.
    """


@command.command("import")
@click.argument("file", metavar="FILE|-")
@ledger_option
@conversation_option
@click.option("--legacy", is_flag=True, help="FILE holds old records whose role or source may be unknown.")
@click.option("--policy", metavar="FRAME.json", help="Policy, tools and options to store with the conversation.")
@json_option
def import_command(file: str, ledger: str, conversation: str, **given: Any) -> int:
    """Take a history into a ledger, one transaction a turn; repeat it after a crash.

    FILE is a request with turns, a list of turns, an OpenAI-style list of messages, or JSON lines of turns or of
    messages. Leading system messages are stored as the policy of the conversation. Turns that are there already
    stay as they are.
    """
    from planner.adapters.ledger_files import import_history, import_records

    frame = None if given["policy"] is None else _read_policy(given["policy"])
    with ExitStack() as opened:
        stream = opened.enter_context(_reading(file))
        size = 0 if file == STDIO else os.fstat(stream.fileno()).st_size
        store = opened.enter_context(open_ledger(ledger, create=True))
        move = opened.enter_context(progress("import", size or None))
        take = import_records if given["legacy"] else import_history

        def told() -> None:
            if size:
                move(stream.tell())

        done = take(store, conversation, stream, frame=frame, told=told)
    click.echo(json.dumps(as_tree(done)) if given["as_json"] else _said(done))
    return 0


@command.command("export")
@ledger_option
@conversation_option
@click.option("--branch", metavar="B", help="Another branch than the one the conversation goes on with.")
@click.option("--out", metavar="FILE", help="Write the lines to a file, whole or not at all.")
@click.option("--json", "as_json", is_flag=True, help="With --out: print what was written as JSON.")
def export_command(ledger: str, conversation: str, **given: Any) -> int:
    """Write the turns of a conversation as JSON lines, oldest first; planner ledger import reads them."""
    out = given["out"] or STDIO
    if given["as_json"] and out == STDIO:
        raise usage("--json goes with --out; the lines themselves are JSON")
    check_outputs({"--out": out}, (ledger,))
    from planner.adapters.ledger_files import export_turns, left_behind

    with open_ledger(ledger, read_only=True) as store, ExitStack() as opened:
        head = store.head(conversation)
        move = opened.enter_context(progress("export", head.turns))
        count = 0

        def lines() -> Any:
            nonlocal count
            for line in export_turns(store, conversation, given["branch"]):
                count += 1
                move(count)
                yield line

        write_chunks(out, lines())
        raw, settled = len(store.unclassified(conversation)), len(store.resolutions(conversation))
        purged = [run.through_sequence for run in store.retentions(conversation)]
        left = left_behind(store, conversation, given["branch"]) if purged else ()
    if raw:
        click.echo(f"not exported: {raw} records that could not be classified", err=True)
    if settled:
        click.echo(f"not exported: how disputes about {settled} facts ended, which belongs to summaries", err=True)
    if purged:
        click.echo(f"not exported: turns up to sequence {purged[-1]}, which were purged", err=True)
    if left is None:
        click.echo("constraints in force of purged turns are told of the branch in use alone", err=True)
    elif left:
        click.echo(f"not exported: constraints in force of purged turns: {', '.join(left)}", err=True)
    if given["as_json"]:
        counts = {"turns": count, "unclassified": raw, "purgedThrough": purged[-1] if purged else None}
        click.echo(json.dumps({**counts, "constraintsLeft": left}))
    return 0


@command.command("verify")
@ledger_option
@click.option("--reanchor", is_flag=True, help="Write the anchor anew: accept a restored or copied file.")
@click.option("--rebuild", is_flag=True, help="Make derived rows anew from the facts.")
@json_option
def verify_command(ledger: str, **given: Any) -> int:
    """Compare the whole ledger with itself: structure, hash chain, every pointer, the anchor."""
    repair = given["reanchor"] or given["rebuild"]
    with open_ledger(ledger, read_only=not repair, unchecked=True) as store, progress("verify", 100) as move:
        found = store.verify(
            reanchor=given["reanchor"], rebuild=given["rebuild"], progress=lambda done, total: move(done * 100 // total)
        )
    if given["as_json"]:
        click.echo(json.dumps({**as_tree(found), "sound": found.sound}))
    elif found.sound:
        click.echo(f"sound: {found.events:,} events, {found.conversations:,} conversations")
    else:
        from planner.cli.draw import rows

        rows(("code", "where"), found.problems)
    if not given["as_json"]:
        for name in ("reanchored", "rebuilt"):
            if getattr(found, name):
                click.echo(name)
    if found.sound:
        return 0
    complain(*found.problems[0])
    return REFUSED


@command.command("stats")
@ledger_option
@json_option
def stats_command(ledger: str, as_json: bool) -> int:
    """Show sizes and numbers of rows."""
    with open_ledger(ledger, read_only=True) as store:
        found = as_tree(store.stats())
    if as_json:
        click.echo(json.dumps(found))
        return 0
    from planner.cli.draw import rows

    cells = [(name, f"{value:,}" if type(value) is int else value) for name, value in found.items()]
    rows(("", "ledger"), cells, right=(1,))
    return 0


@command.command("retain")
@ledger_option
@conversation_option
@click.option("--before", type=click.IntRange(min=0), required=True, metavar="SEQ",
              help="Purge turns that began before this sequence.")  # fmt: skip
@click.option("--reason", required=True, metavar="ID", help="Why, as an id such as policy-30-days.")
@click.option("--dry-run", is_flag=True, help="Only say what would go, and which summaries would end with it.")
@json_option
def retain_command(ledger: str, conversation: str, **given: Any) -> int:
    """Purge the originals of old turns for good, and record the boundary of what can no longer be had.

    Constraints in force keep their words. An open or protected turn is never purged: then nothing is.
    """
    with open_ledger(ledger) as store:
        done = store.retain(conversation, given["before"], given["reason"], rehearse=given["dry_run"])
    if given["as_json"]:
        click.echo(json.dumps(as_tree(done)))
    elif not (done.turns or done.messages):
        click.echo("nothing to purge")
    else:
        click.echo(
            f"{'would purge' if given['dry_run'] else 'purged'} up to sequence {done.through_sequence}:"
            f" {done.turns:,} turns, {done.messages:,} messages, {done.parts:,} parts, {done.summaries:,} summaries"
        )
    if done.voided:
        click.echo(f"summaries that end with it: {', '.join(done.voided)}", err=True)
    if done.lost:
        click.echo(f"plans are refused then until a new turn names them: {', '.join(done.lost)}", err=True)
    if not done.cleared:
        click.echo("a reader keeps old pages of the file; run this again when it is closed", err=True)
    return 0


command.add_command(resolve_command, "resolve")


def _reading(name: str) -> BinaryIO:
    if name == STDIO:
        return sys.stdin.buffer
    problem: OSError | None = None
    try:
        return Path(name).open("rb")
    except OSError as error:
        problem = error
    raise not_readable(name, problem)


def _read_policy(name: str) -> Frame:
    from planner.adapters.frames import frame_of, read_frame

    read = read_frame(read_input(name, MAX_POLICY_BYTES))
    return frame_of(read.request, names_bundle=read.names_bundle)


def _said(done: Imported) -> str:
    taken = f"{done.records:,} records" if done.records else f"{done.turns:,} turns, {done.messages:,} messages"
    notes = [f"{done.known:,} of them were there already"] if done.known else []
    notes += [f"{done.raw:,} unclassified, kept raw"] if done.raw else []
    notes += [f"{done.empty:,} open turns without a message left out"] if done.empty else []
    notes += [f"{done.purged:,} turns that were purged not brought back"] if done.purged else []
    notes += ["policy stored"] if done.policy_stored else []
    return f"{done.conversation_id}: {'; '.join([taken, *notes])}"
