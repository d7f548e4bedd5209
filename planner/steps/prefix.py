"""What a prompt shares with the previous one, and what ended the common part (design.md §5, §11)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from planner.encoding.assemble import Assembled
from planner.values.receipt import Prefix
from planner.values.request import Previous


def prefix(previous: Previous, ids: array[int], assembled: Assembled, first_kept: str | None) -> Prefix | None:
    """Report what this prompt shares with the previous one and what ended it; None without its ids."""
    if previous.ids is None:
        return None
    held = previous.ids if previous.generated_ids is None else (*previous.ids, *previous.generated_ids)
    common = common_length(ids, held)
    return Prefix(previous.plan_id, common, _broken_by(previous, common, len(previous.ids), assembled, first_kept))


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many leading ids are equal.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    most = min(len(left), len(right))
    low = 0
    step = 512
    while low < most:
        high = min(most, low + step)
        if list(left[low:high]) != list(right[low:high]):
            for index in range(low, high):
                if left[index] != right[index]:
                    return index
        low = high
    return most


def _broken_by(previous: Previous, common: int, planned: int, assembled: Assembled, first_kept: str | None) -> str:
    if common >= planned:
        return "appended"
    changed = max(
        (item for item, start in assembled.starts.items() if start <= common),
        key=lambda item: assembled.starts[item],
        default="",
    )
    if not changed:
        return "template_rewrote"
    section = assembled.labels[changed].section
    if changed.startswith("summary/"):
        return "summary_changed"
    if changed.startswith("constraint/") and previous.first_kept_turn_id in (None, first_kept):
        return "policy_changed"
    if section == "policy":
        return "policy_changed"
    if section == "tool":
        return "tools_changed"
    if previous.first_kept_turn_id is not None and previous.first_kept_turn_id != first_kept:
        return "cut_moved"
    summaries = tuple(item.partition("/")[2] for item in assembled.starts if item.startswith("summary/"))
    if summaries != previous.summary_ids:
        return "summary_changed"
    if section == "retrieval":
        return "passages_changed"
    return "template_rewrote"
