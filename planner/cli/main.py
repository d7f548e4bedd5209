"""The command `planner`: a lazy group; a command's file is imported only when that command runs.

Exit codes: 0 accepted, 2 refused, invalid or environment (one line on stderr), 1 only for a bug of ours, and
130 after an interrupt as in every shell.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from planner import __version__
from planner.cli.lazy import LazyGroup

COMMANDS = {
    "plan": "Plan one call: which token ids go to the model, what was left out and why.",
    "run": "Run a plan on a llama.cpp server and compare its token counts with the plan's.",
    "count": "Count a text or a chat exactly, as the model's own tokenizer does.",
    "explain": "Say what happened to every id of a plan, or what another window would change.",
    "verify": "Check a plan file: its structure, and with the request also tokens, coverage, citations and tools.",
    "replay": "Rebuild the input of a recorded call, or say which layer and part differ or are gone.",
    "diff": "Say what changed between two recorded plans of a conversation.",
    "gate": "Pass or block a release: samples, bundles and tiers against one candidate.",
    "bench": "Measure planning on each bundle: load, first plan, a growing chat, and how full the window gets.",
    "whatif": "Say whether a request would fit into other tiers and bundles, and what would go.",
    "policy": "Check policy texts before they are published.",
    "ledger": "Keep conversations: import, export, check, and purge by a recorded run.",
    "compact": "Summarise old turns: propose, prompt, accept, and see what stands.",
    "bundle": "Add, list, show and check model bundles.",
    "doctor": "Show versions, folders and what is weaker on this machine.",
    "reasons": "Explain every code a plan, refusal or fault may carry: what it means and what to do.",
    "schema": "Print the JSON Schema of a request.",
    "demo": "Plan the demo conversation and draw its account.",
}
"""Name to short help, so that `planner --help` imports no command; a test compares it with the commands."""

OPTION = re.compile(r"--[a-z][a-z-]*")

EPILOG = """\b
Start here:
  planner demo
  planner plan REQUEST.json --bundle qwen3-0.6b
  planner plan --chat CHAT.json --tools TOOLS.json --window 8192
  echo -n "Hello" | planner count -

Exit 0: accepted. Exit 2: refused, invalid, or this machine lacks something; one line says which.
"""


class _SystemProblem(Exception):  # noqa: N818
    """Carries an OSError past click, which would end a closed pipe with the exit code of our bugs."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error


class MainGroup(LazyGroup):
    """The command line itself; what the system refuses is reported by us."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Read the command line; an OSError of what is printed on the way leaves as one of ours."""
        try:
            return super().make_context(*arguments, **extra)
        except OSError as error:
            raise _SystemProblem(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an OSError leaves as one of ours."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise _SystemProblem(error) from None


@click.group(cls=MainGroup, table=COMMANDS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="planner", message="%(prog)s %(version)s")
def group() -> None:
    """Exactly which token ids go to the model, what was left out and why.

    A conversation, a policy and tools go in; a plan comes out that a model with a small window can run, or a
    refusal that says what does not fit. Every plan carries a receipt that proves it later.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing but the code leaves this function."""
    given = None if arguments is None else list(arguments)
    try:
        _check_named(sys.argv[1:] if given is None else given)
        code: Any = group.main(args=given, prog_name="planner", standalone_mode=False)
        # A full disk or a closed pipe shows here at the latest, not in the interpreter's shutdown.
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return 130
    except _SystemProblem as problem:
        return _reported(problem.error)
    except SystemExit as end:
        # Where the pipe of the output is closed, rich ends with the exit code of our bugs.
        if not isinstance(end.__context__, OSError):
            raise
        return _reported(end.__context__)
    except Exception as error:
        return _reported(error)
    return code if isinstance(code, int) else 0


def _check_named(given: Sequence[str]) -> None:
    """Refuse an empty argument: mostly a script's variable that is not set, never the name of anything."""
    for before, one in pairwise(("", *given)):
        option = one[:-1] or before
        # A value may itself end with the sign, as in --goal=x=.
        is_empty = one == "" or (one.endswith("=") and OPTION.fullmatch(option))
        if not is_empty or "--text" in (option, before):
            continue
        from planner.cli.failure import usage

        raise usage(f"{option} is empty" if OPTION.fullmatch(option) else "an argument is empty")


def _reported(error: Exception) -> int:
    """Report an error, which may itself not be printable; return the exit code."""
    from planner.cli.failure import report

    try:
        return report(error)
    except OSError as problem:
        return report(problem)


def main() -> None:
    """Be the console script: run the command line of this process and exit."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A folder's name may hold characters the terminal cannot show; they must not become a bug of ours.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = run()
    try:
        sys.stdout.flush()
    except OSError:
        # What could not be written was reported; the interpreter must not try again while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Put something in the place of streams the caller closed, so that no file of ours takes their numbers.

    Reading such a stdin and writing such a stdout fails as on any closed stream; stderr loses its lines.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


if __name__ == "__main__":
    main()
