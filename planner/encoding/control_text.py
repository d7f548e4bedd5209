"""Control strings that hold a character of content: what a parser of the whole text would obey (design.md §4.5)."""

from __future__ import annotations

from planner.encoding.guards import Guards
from planner.values.prompt import Rendered


def touched_by_content(rendered: Rendered, guards: Guards) -> str | None:
    """Return the item whose text spells a control string or a part of one, None where there is none.

    That covers a content that spells one and two contents that meet and form one (H02).
    """
    hits = guards.find(rendered.text)
    position = 0
    at = 0
    for owner, length in rendered.spans:
        while position < len(hits) and hits[position].stop <= at:
            position += 1
        if owner is not None and owner.kind != "media" and position < len(hits) and hits[position].start < at + length:
            return owner.item
        at += length
    return None
