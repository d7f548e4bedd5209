"""What goes wrong, as one line on stderr and an exit code. Foreign exception text is never shown (R188)."""

from __future__ import annotations

import errno
import re
import sys
import traceback
from pathlib import Path

import click

from planner.values.printable import printable
from planner.values.reasons import PlannerFault, RefusalSignal, outcome_of

REFUSED = 2
BUG = 1
_OPTION = re.compile(r"-{1,2}[a-z][a-z-]*")
_PACKAGE = Path(__file__).resolve().parents[1]


def report(error: Exception) -> int:
    """Print the one line of `error` and return the exit code: 2, or 1 where it is a bug of ours."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        # A group without a command: the help is the answer, and older versions of click exit 0 with it.
        click.echo(context.get_help())
        return 0
    found = _known(error)
    if found is None:
        click.echo(_bug(error), err=True)
        return BUG
    complain(*found)
    return REFUSED


def complain(reason: str, detail: str) -> None:
    """Print the line of design.md §9 for a refusal or a fault."""
    outcome = outcome_of(reason)
    shown = detail if outcome == reason else f"{reason}: {detail}"
    click.echo(f"context plan rejected: {outcome}: {printable(shown)}", err=True)


def usage(sentence: str) -> RefusalSignal:
    """Return the refusal of a command line that contradicts itself."""
    return RefusalSignal("invalid-input", sentence)


def _known(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, RefusalSignal):
        return error.reason, error.detail
    if isinstance(error, PlannerFault):
        return error.code, error.detail
    if isinstance(error, click.ClickException):
        return "invalid-input", _usage_sentence(error)
    if isinstance(error, BrokenPipeError):
        return "environment", "the reader of the output went away"
    if isinstance(error, OSError) and error.errno in _WRITING:
        return "environment", _WRITING[error.errno]
    if isinstance(error, MemoryError):
        return "environment", "this machine has not enough memory for it"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("planner"):
        return "environment", "an installed package is incomplete; see planner doctor"
    return None


_WRITING = {
    errno.ENOSPC: "the disk is full",
    errno.EIO: "the disk or terminal reports an error",
    errno.EBADF: "the output is closed",
    # Not every system knows quotas.
    getattr(errno, "EDQUOT", errno.ENOSPC): "the disk is full",
}


def _usage_sentence(error: click.ClickException) -> str:
    """Say what is wrong with the command line without repeating what stood there."""
    context = getattr(error, "ctx", None)
    see = f"see {context.command_path} --help" if context is not None else "see planner --help"
    if isinstance(error, click.NoSuchOption) and _OPTION.fullmatch(error.option_name):
        return f"no option {error.option_name}; {see}"
    if isinstance(error, click.BadParameter):
        parameter = error.param
        name = "an argument" if parameter is None else _parameter_name(parameter)
        what = "is missing" if isinstance(error, click.MissingParameter) else "has a value of the wrong form"
        return f"{name} {what}; {see}"
    if isinstance(error, click.BadOptionUsage) and _OPTION.fullmatch(error.option_name):
        return f"{error.option_name} is used in a wrong way; {see}"
    if context is not None and isinstance(context.command, click.Group):
        return f"no such command; {see}"
    return f"the arguments do not fit; {see}"


def _parameter_name(parameter: click.Parameter) -> str:
    """Name a parameter as its help does."""
    if isinstance(parameter, click.Argument):
        return parameter.metavar or (parameter.name or "").upper()
    return parameter.opts[-1]


def _bug(error: Exception) -> str:
    """Describe a bug by its kind and our own lines that led to it; its message may hold text."""
    places = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            places.append(f"{path.relative_to(_PACKAGE).as_posix()}:{line}")
    trail = " > ".join(places[-6:]) or "unknown place"
    python = ".".join(str(part) for part in sys.version_info[:3])
    return (
        f"planner bug: {type(error).__name__} at {trail} (python {python}). This is our fault; please report this line."
    )
