"""Encoding a whole render in one call, for tokenizers that may not be cut at control tokens (design.md §4.3).

The tokenizer parses the text itself, so it would obey a control string of content: a prompt with one is refused.
Nothing is cached and nothing is spliced; slower, never wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from planner.encoding.assemble import Assembled
from planner.encoding.control_text import touched_by_content
from planner.encoding.guards import Found, Guards
from planner.values.bundle import Encoded, Engine
from planner.values.prompt import Counters, Leaf, Rendered, Span
from planner.values.reasons import RefusalSignal


def assemble_parsed(
    rendered: Rendered, guards: Guards, engine: Engine, counters: Counters, *, keep_spans: bool = False
) -> Assembled:
    """Encode a tracked render in one call, as the tokenizer file itself does, and charge every owner.

    A token belongs to a part where all its characters do; the rest is framing (X40). `starts` are token
    indexes after the last control token before an item, as `assemble` gives them, but none is clean: a
    stretch of such a prompt is not the same elsewhere.
    Content that spells a control string is measured as the tokenizer takes it and named in `obeyed`; whoever
    hands the prompt out refuses it. Refuses control_token_forged where the tokenizer made a control id that
    no control string of the text stands for.
    """
    hits = guards.find(rendered.text)
    encoded = engine.encode_parsed_spans(rendered.text)
    counters.runs_encoded += 1
    counters.characters_encoded += len(rendered.text)
    ids = array("i", encoded.ids)
    made = [token for token in ids if token in guards.ids]
    if not _in_order(made, [hit.token.id for hit in hits]):
        raise RefusalSignal("control_token_forged", "the tokenizer made a control id out of content")
    return _charged(
        Assembled(ids=ids, control_ids=len(made), obeyed=touched_by_content(rendered, guards)),
        rendered,
        hits,
        encoded,
        keep_spans,
    )


def _in_order(made: Iterable[int], written: Sequence[int]) -> bool:
    """Tell whether `made` is `written` with some left out: a token that needs a word border may stay text."""
    rest = iter(written)
    return all(token in rest for token in made)


def _by_item(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours of one item: a token over both is that item's."""
    joined: list[Span] = []
    for owner, length in spans:
        last = joined[-1][0] if joined else None
        if joined and (last is owner or (last is not None and owner is not None and last.item == owner.item)):
            joined[-1] = (last, joined[-1][1] + length)
        elif length:
            joined.append((owner, length))
    return joined


def _charged(
    out: Assembled, rendered: Rendered, hits: Sequence[Found], encoded: Encoded, keep_spans: bool
) -> Assembled:
    borders = [encoded.token_at(hit.stop)[0] for hit in hits]
    place = run_start = at = first = straddling = 0
    sharing: Leaf | None = None
    for owner, length in _by_item(rendered.spans):
        while place < len(hits) and hits[place].stop <= at:
            run_start, sharing = borders[place], None
            place += 1
        at += length
        index, start = encoded.token_at(at)
        count = max(0, index - first)
        if owner is not None:
            out.charge(owner, count, first if sharing is not None else run_start, clean=False)
            sharing = owner
        if keep_spans:
            out.spans.append((owner.item if owner is not None else "framing", count))
        straddling = index + 1 if start < at and index < len(out.ids) else index
        if keep_spans and straddling > max(first, index):
            out.spans.append(("framing", 1))
        first = max(first, straddling)
    return out
