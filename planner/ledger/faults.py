"""Every error of apsw becomes one named fault here, and nowhere else; no message of SQLite leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn

import apsw

from planner.values.reasons import PlannerFault, RefusalSignal

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (apsw.BusyError, "ledger_busy"),
    (apsw.LockedError, "ledger_busy"),
    (apsw.FullError, "ledger_full"),
    (apsw.ReadOnlyError, "ledger_read_only"),
    (apsw.CorruptError, "ledger_corrupt"),
    (apsw.NotADBError, "ledger_corrupt"),
    (apsw.FormatError, "ledger_corrupt"),
    (apsw.MismatchError, "ledger_corrupt"),
    (apsw.ConstraintError, "ledger_corrupt"),
    # A statement of ours that no longer fits the schema means that the schema was damaged.
    (apsw.SQLError, "ledger_corrupt"),
    (apsw.Error, "ledger_io"),
    # Text that is no UTF-8 and JSON that does not parse are damage too: we wrote both.
    (UnicodeError, "ledger_corrupt"),
)


def code_of(error: BaseException) -> str | None:
    """Return the fault code of a foreign error, None where it is none of the storage's.

    >>> code_of(apsw.BusyError()), code_of(KeyError())
    ('ledger_busy', None)
    """
    if isinstance(error, PermissionError):
        return "ledger_read_only"
    if isinstance(error, OSError):
        return "ledger_full" if error.errno in _NO_SPACE else "ledger_io"
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)


_NO_SPACE = frozenset({28, 122})  # ENOSPC, EDQUOT
_READ_ONLY_FILE_SYSTEM = 30


class _Alone:
    """Lets a fault pass without the exceptions it came from: a damaged row's text hangs on them (R188)."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, PlannerFault | RefusalSignal):
            error.__context__ = None


@contextmanager
def mapped(doing: str) -> Iterator[None]:
    """Turn what the storage raises into a PlannerFault that stands alone; `doing` is a word of ours for the detail."""
    with _Alone():
        try:
            yield
        except (apsw.Error, OSError, UnicodeError) as error:
            raise fault_of(error, doing) from None


def fault_of(error: BaseException, doing: str) -> PlannerFault:
    """Return the fault for a foreign error: code, what was done and SQLite's number, no words of the error."""
    number = getattr(error, "extendedresult", None) or getattr(error, "errno", None)
    if isinstance(error, OSError) and error.errno == _READ_ONLY_FILE_SYSTEM:
        return PlannerFault("ledger_read_only", doing)
    code = code_of(error) or "ledger_io"
    return PlannerFault(code, f"{doing}, {number}" if number else doing)


def corrupt(where: str) -> NoReturn:
    """Raise `ledger_corrupt`; `where` names a table and numbers."""
    raise PlannerFault("ledger_corrupt", where)
