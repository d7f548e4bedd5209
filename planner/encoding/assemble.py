"""Assembling a render: ids in order and what each item is charged, from encoded runs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.encoding.conserve import Printed, printed
from planner.encoding.guards import WHITESPACE, Guards
from planner.encoding.runs import Run, RunCache
from planner.values.bundle import ControlToken
from planner.values.prompt import Counters, Leaf, Rendered, Span


@dataclass(slots=True)
class Assembled:
    """Ids of a whole render, with what each owner is charged.

    `lines` adds the charges up by the section and the bracketed line of their items; `front` is where the first item
    begins that changes from turn to turn, None where there is none.
    `charges` maps an item to its tokens; `labels` to a leaf of it; `starts` to the index of the token at
    which the run holding its first character begins (the place where history may be cut), or to about its own
    first token where `clean_starts` says that the run begins with another item. `obeyed` names an item whose
    control string the tokenizer obeys because the text could not be cut: such a prompt is not handed out.
    """

    ids: array[int] = field(default_factory=lambda: array("i"))
    charges: dict[str, int] = field(default_factory=dict)
    labels: dict[str, Leaf] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    clean_starts: dict[str, bool] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    front: int | None = None
    spans: list[tuple[str, int]] = field(default_factory=list)
    control_ids: int = 0
    neutralised: int = 0
    neutral_at: list[tuple[int, int]] = field(default_factory=list)
    obeyed: str | None = None

    def charge(self, owner: Leaf, tokens: int, start: int, *, clean: bool) -> None:
        """Charge an owner's item; where it was not seen before it begins at token `start`."""
        item = owner.item
        label = self.labels.get(item)
        if label is None:
            label = self.labels[item] = owner
            self.charges[item], self.starts[item], self.clean_starts[item] = tokens, start, clean
            if label.section in _MOVING and (self.front is None or start < self.front):
                self.front = start
        else:
            self.charges[item] += tokens
        line = label.section, label.of_which
        self.lines[line] = self.lines.get(line, 0) + tokens


_MOVING = frozenset({"history", "request", "retrieval"})


@dataclass(frozen=True, slots=True)
class Head:
    """Where assembling stood after the fixed beginning of a prompt: the same beginning goes on from here.

    `text` and `spans` are that beginning, policy and tools with the framing around them, `printed` what it
    prints of their leaves; the rest is the state.
    """

    text: str = field(repr=False)
    spans: Sequence[Span] = field(repr=False)
    out: Assembled = field(repr=False)
    owners: tuple[Leaf | None, ...]
    lengths: tuple[int, ...]
    begin: int
    swallow: bool
    keep_spans: bool
    printed: Printed = field(repr=False)

    def begins(self, rendered: Rendered, keep_spans: bool) -> bool:
        """Tell whether a render begins with the very same characters and owners."""
        return (
            keep_spans == self.keep_spans
            and rendered.text.startswith(self.text)
            and rendered.spans[: len(self.spans)] == self.spans
        )


@dataclass(slots=True)
class Heads:
    """The last fixed beginning; threads may overwrite each other's, each checks what it takes."""

    last: Head | None = None

    def of(self, rendered: Rendered, keep_spans: bool) -> Head | None:
        """Return the remembered beginning where a render has it."""
        head = self.last
        return head if head is not None and head.begins(rendered, keep_spans) else None


class _Assembler:
    def __init__(self, guards: Guards, cache: RunCache, counters: Counters, keep_spans: bool) -> None:
        self.out = Assembled()
        self.guards = guards
        self.cache = cache
        self.counters = counters
        self.keep_spans = keep_spans
        self.owners: list[Leaf | None] = []
        self.lengths: list[int] = []
        self.begin = 0
        self.swallow = False

    def resume(self, head: Head) -> None:
        self.out = _copied(head.out)
        self.owners, self.lengths = list(head.owners), list(head.lengths)
        self.begin, self.swallow = head.begin, head.swallow

    def stand(self, rendered: Rendered, at: int, count: int) -> Head:
        text, spans = rendered.text[:at], rendered.spans[:count]
        return Head(
            text, spans, _copied(self.out), tuple(self.owners), tuple(self.lengths),
            self.begin, self.swallow, self.keep_spans, printed(Rendered(text, spans)),
        )  # fmt: skip

    def add(self, owner: Leaf | None, length: int) -> None:
        if length == 0:
            return
        if self.owners:
            last = self.owners[-1]
            if last is owner or (last is not None and owner is not None and last.item == owner.item):
                self.lengths[-1] += length
                return
        self.owners.append(owner)
        self.lengths.append(length)

    def flush(self, text: str, stop: int, trim_right: bool) -> None:
        if not self.owners:
            self.begin = stop
            return
        run_text = text[self.begin : stop]
        if self.swallow or trim_right:
            run_text = self._trim(run_text, trim_right)
            self.swallow = False
        out = self.out
        index = len(out.ids)
        run = None
        if run_text:
            run = self.cache.encode(run_text, tuple(self.lengths), self.counters)
            out.ids.extend(run.ids)
            if run.neutralised:
                out.neutralised += run.neutralised
                out.neutral_at.append((index, run.neutralised))
        if len(self.owners) > 1 or self.owners[0] is not None:
            self._charge(index, run.counts if run is not None else (0,) * len(self.owners))
        if self.keep_spans and run is not None:
            self._record(run)
        self.owners.clear()
        self.lengths.clear()
        self.begin = stop

    def _charge(self, index: int, counts: tuple[int, ...]) -> None:
        out = self.out
        shared = False
        before = 0
        for owner, count in zip(self.owners, counts, strict=True):
            if owner is not None:
                # A run that begins with another item's text (a folded policy) cannot be cut at its start.
                out.charge(owner, count, index + before if shared else index, clean=not shared)
                shared = True
            before += count

    def _record(self, run: Run) -> None:
        for owner, count in zip(self.owners, run.counts, strict=True):
            self.out.spans.append((owner.item if owner is not None else "framing", count))
        straddling = len(run.ids) - sum(run.counts)
        if straddling:
            self.out.spans.append(("framing", straddling))

    def _trim(self, run_text: str, trim_right: bool) -> str:
        trimmed = run_text.lstrip(WHITESPACE) if self.swallow else run_text
        left = len(run_text) - len(trimmed)
        if trim_right:
            trimmed = trimmed.rstrip(WHITESPACE)
        right = len(run_text) - left - len(trimmed)
        self._shorten(left, 0)
        self._shorten(right, -1)
        return trimmed

    def _shorten(self, count: int, end: int) -> None:
        # Parts are shortened, not removed: an owner whose characters were all swallowed still stood here.
        order = range(len(self.lengths)) if end == 0 else range(len(self.lengths) - 1, -1, -1)
        for position in order:
            take = min(count, self.lengths[position])
            self.lengths[position] -= take
            count -= take
            if not count:
                return

    def control(self, token: ControlToken, owner: Leaf | None) -> None:
        out = self.out
        if owner is not None:
            out.charge(owner, 1, len(out.ids), clean=True)
        out.ids.append(token.id)
        out.control_ids += 1
        if self.keep_spans:
            out.spans.append((owner.item if owner is not None else "framing", 1))
        self.swallow = token.rstrip


def assemble(
    rendered: Rendered,
    guards: Guards,
    cache: RunCache,
    counters: Counters,
    *,
    keep_spans: bool = False,
    heads: Heads | None = None,
) -> Assembled:
    """Encode a tracked render: control tokens where the template wrote them, one encode per run between.

    Neighbouring spans have different owners, so a control token spelled by several literals and a role is
    one stretch. Refuses control_token_forged (see RunCache.encode). `keep_spans` also lists (item, tokens) in order,
    `heads` remembers the fixed beginning for the next render.
    """
    work = _Assembler(guards, cache, counters, keep_spans)
    head = heads.of(rendered, keep_spans) if heads is not None else None
    if head is not None:
        work.resume(head)
        at, count = len(head.text), len(head.spans)
    else:
        count = _fixed(rendered.spans)
        at = _take(work, rendered.text, rendered.spans[:count], 0)
        if heads is not None and count >= _LONG_HEAD:
            heads.last = work.stand(rendered, at, count)
    at = _take(work, rendered.text, rendered.spans[count:], at)
    work.flush(rendered.text, at, trim_right=False)
    return work.out


_LONG_HEAD = 16


def _fixed(spans: Sequence[Span]) -> int:
    """Return how many spans stand before the first that is neither policy, tools nor framing."""
    for index, (owner, _) in enumerate(spans):
        if owner is not None and owner.section not in ("policy", "tool"):
            return index
    return len(spans)


def _copied(out: Assembled) -> Assembled:
    return Assembled(
        out.ids[:], dict(out.charges), dict(out.labels), dict(out.starts), dict(out.clean_starts), dict(out.lines),
        out.front, out.spans[:], out.control_ids, out.neutralised, out.neutral_at[:],
    )  # fmt: skip


def _take(work: _Assembler, text: str, spans: Sequence[Span], at: int) -> int:
    """Go through spans that begin at character `at`; return where they end.

    Control tokens are looked for in what the template wrote and in placeholders of ours, never in content.
    """
    guards = work.guards
    for owner, length in spans:
        if owner is not None and owner.kind != "media":
            work.add(owner, length)
            at += length
            continue
        stretch = text[at : at + length]
        cursor = 0
        for hit in guards.find(stretch):
            if hit.start > cursor:
                work.add(owner, hit.start - cursor)
            work.flush(text, at + hit.start, hit.token.lstrip)
            work.control(hit.token, owner)
            work.begin = at + hit.stop
            cursor = hit.stop
        if length > cursor:
            work.add(owner, length - cursor)
        at += length
    return at
