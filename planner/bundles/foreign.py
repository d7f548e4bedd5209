"""Calling foreign tokenizer libraries: whatever they raise becomes one fault without their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from planner.values.reasons import PlannerFault

T = TypeVar("T")


def guarded(call: Callable[[], T], detail: str) -> T:
    """Run a call into a tokenizer library. Raises tokenizer_failed with `detail`.

    A Rust panic is no Exception, so it is caught by the name of its class (threats.md §2.4).
    """
    try:
        return call()
    except PlannerFault:
        raise
    except Exception:
        raise PlannerFault("tokenizer_failed", detail) from None
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise PlannerFault("tokenizer_failed", detail) from None
        raise
