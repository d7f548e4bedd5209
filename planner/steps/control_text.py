"""Text mode: refuse content that a runtime parsing the prompt itself would obey (design.md §4.5)."""

from __future__ import annotations

from planner.encoding.guards import Guards
from planner.values.prompt import Rendered
from planner.values.reasons import RefusalSignal


def refuse_control_text(rendered: Rendered, guards: Guards) -> None:
    """Refuse where a control string of the prompt has a character of content in it.

    That covers a content that spells one and two contents that meet and form one (H02).
    """
    hits = list(guards.find(rendered.text))
    position = 0
    at = 0
    for owner, length in rendered.spans:
        while position < len(hits) and hits[position].stop <= at:
            position += 1
        if owner is not None and position < len(hits) and hits[position].start < at + length:
            raise RefusalSignal("control_text_in_field", owner.item)
        at += length
