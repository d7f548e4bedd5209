"""Calling foreign tokenizer libraries: whatever they raise becomes one fault without their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from planner.values.reasons import PlannerFault

T = TypeVar("T")


def guarded(call: Callable[[], T], detail: str) -> T:
    """Run a call into a tokenizer library. Raises tokenizer_failed with `detail`.

    A Rust panic is no Exception, so it is caught by the name of its class (threats.md §2.4). The fault is
    raised outside the handler: an exception of the library may hold the text, and would stay as its context.
    """
    try:
        return call()
    except PlannerFault:
        raise
    except Exception:  # noqa: S110 - whatever it was, the fault below says so
        pass
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
    raise PlannerFault("tokenizer_failed", detail)


def cleanly(call: Callable[[], T]) -> T:
    """Run a call and raise its fault anew, without the exceptions it came from.

    A damaged file's text hangs on them: JSONDecodeError keeps the document, UnicodeDecodeError the bytes.
    """
    try:
        return call()
    except PlannerFault as fault:
        found = PlannerFault(fault.code, fault.detail)
    raise found
