"""What may be kept of a summary that was not taken: ids, numbers and codes, never a sentence (R116, R188)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.values.field_rules import is_id, is_version

MAX_ENTRIES = 64
_LEFT_OUT = "leftOut"


def text_free(diagnostics: Mapping[str, Any] | None) -> str | None:
    """Return diagnostics as JSON without what could be conversation text; None where there are none.

    Kept are numbers, booleans, ids, and lists of them under keys that are ids; the rest is only counted.

    >>> text_free({"runs": 2, "code": "goal_missing", "why": "the user said so"})
    '{"code":"goal_missing","leftOut":1,"runs":2}'
    """
    if not diagnostics:
        return None
    kept: dict[str, Any] = {}
    left_out = 0
    for key, value in diagnostics.items():
        if not is_id(key) or len(kept) == MAX_ENTRIES:
            left_out += 1
        elif _is_plain(value):
            kept[key] = value
        elif isinstance(value, (list, tuple)):
            found = [item for item in value if _is_plain(item)][:MAX_ENTRIES]
            left_out += len(value) - len(found)
            kept[key] = found
        else:
            left_out += 1
    if left_out:
        kept[_LEFT_OUT] = left_out
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int) or is_version(value)
