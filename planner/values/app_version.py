"""Versions of an application, compared by their numbers: which ones a template is meant for (R177)."""

from __future__ import annotations

import re

from planner.values.bundle import Manifest
from planner.values.reasons import RefusalSignal

_NUMBERS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}")
Bounds = tuple[str | None, str | None]
"""Least and greatest version, both inclusive; None is open."""


def version_key(version: str) -> tuple[int, ...] | None:
    """Return what versions are compared by, None for a text that is no list of numbers: nothing is guessed.

    >>> version_key("1.10") > version_key("1.9.3"), version_key("2.0") == version_key("2"), version_key("2-beta")
    (True, True, None)
    """
    if _NUMBERS.fullmatch(version) is None:
        return None
    numbers = [int(part) for part in version.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def outside(version: str | None, bounds: Bounds) -> str | None:
    """Return why a version is not inside the bounds, as a code of reasons.py; None where it is.

    >>> outside("2.1", ("2", "3")), outside("3.0.1", ("2", "3")), outside(None, ("2", None))
    (None, 'app_version_out_of_range', 'app_version_unknown')
    """
    least, most = bounds
    if least is None and most is None:
        return None
    here = None if version is None else version_key(version)
    if here is None:
        return "app_version_unknown"
    low, high = (None if bound is None else version_key(bound) for bound in bounds)
    inside = (low is None or low <= here) and (high is None or here <= high)
    return None if inside else "app_version_out_of_range"


def check_app_version(manifest: Manifest, app_version: str | None) -> None:
    """Refuse a request of an app that the bundle's template is not meant for; one that names none was judged before.

    Raises RefusalSignal `app_version_out_of_range`: the bundle was opened for another app.
    """
    if app_version is not None and outside(app_version, manifest.app_versions) is not None:
        raise RefusalSignal("app_version_out_of_range", "$.appVersion: is not one the activated template is meant for")
