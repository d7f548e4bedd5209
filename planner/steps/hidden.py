"""Count hidden characters where a text enters the prompt, and take out what a channel strips (threats.md §2.8).

Texts of turns are looked at once, when the turn is framed; everything else once a plan, without ASCII texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from planner.steps.forms import short_texts
from planner.values.hidden import count_hidden, strip_hidden
from planner.values.passage import Passage
from planner.values.prompt import Leaf
from planner.values.reasons import RefusalSignal
from planner.values.request import UNICODE_CHANNELS, Options, PlanRequest, TextItem, unicode_rule
from planner.values.rung import History, Layered, Selection

CHANNEL_OF_KIND: Mapping[str, str] = {
    "policy": "policy", "tools": "tools", "user_text": "user", "system_text": "user", "assistant_text": "assistant",
    "reasoning": "assistant", "call": "assistant", "result": "tool_result", "passage": "passage", "summary": "summary",
}  # fmt: skip
_EVERY, _NONE = frozenset(UNICODE_CHANNELS), frozenset[str]()


class Found(NamedTuple):
    """Hidden characters of one item in one channel; `stripped` where they were taken out of it.

    `form` names the shorter form of a passage that held them, "" the whole text.
    """

    item: str
    channel: str
    characters: int
    stripped: bool = False
    form: str = ""


class Look:
    """Looks at the texts of one turn while it is framed."""

    def __init__(self, strips: frozenset[str]) -> None:
        """`strips` are the channels whose hidden characters are taken out."""
        self._strips = strips
        self._found: dict[tuple[str, str, bool], int] = {}

    def leaf(self, leaf: Leaf, *, key: bool = False) -> Leaf:
        """Count the hidden characters of a text; return it without them where its channel strips.

        key  a key of an object: it is only counted, because `keys` strips all keys of an object together.
        """
        if leaf.text.isascii():
            return leaf
        channel = CHANNEL_OF_KIND.get(leaf.kind)
        count = count_hidden(leaf.text) if channel else 0
        if not count or channel is None:
            return leaf
        strips = channel in self._strips and not key
        self._add(leaf.item, channel, count, stripped=strips)
        return replace(leaf, text=strip_hidden(leaf.text)) if strips else leaf

    def keys(self, item: str, kind: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object with stripped keys; it stays as it is where two keys would become one."""
        channel = CHANNEL_OF_KIND[kind]
        if channel not in self._strips or all(map(str.isascii, value)):
            return value
        plain = {strip_hidden(key): inner for key, inner in value.items()}
        count = sum(map(count_hidden, value))
        if not count or len(plain) != len(value):
            return value
        self._add(item, channel, count, stripped=True)
        return plain

    def found(self) -> tuple[Found, ...]:
        """Return what was found, per item and channel."""
        return tuple(Found(item, channel, count, gone) for (item, channel, gone), count in self._found.items())

    def _add(self, item: str, channel: str, count: int, *, stripped: bool) -> None:
        place = (item, channel, stripped)
        self._found[place] = self._found.get(place, 0) + count


def stripped_channels(options: Options) -> frozenset[str]:
    """Return the channels whose hidden characters are taken out."""
    if options.unicode_channels is None:
        return _EVERY if options.unicode_policy == "strip" else _NONE
    return frozenset(channel for channel in UNICODE_CHANNELS if unicode_rule(options, channel) == "strip")


def found_in_leaves(leaves: Iterable[Leaf]) -> tuple[Found, ...]:
    """Return what the texts of fixed parts hide."""
    look = Look(frozenset())
    for leaf in leaves:
        look.leaf(leaf)
    return look.found()


def found_in_blocks(layered: Layered, selection: Selection) -> tuple[Found, ...]:
    """Return what the texts of a rung hide that belong to no turn: passages, summaries, constraints, labelled lines."""
    texts = [(f"passage/{one.citation_id}", "passage", one.text) for one in selection.passages]
    texts += [(f"constraint/{one.id}", "policy", one.text or "") for one in selection.constraints]
    if layered.summaries:
        records = {entry.id: entry for entry in layered.summaries}
        shown = [records[entry.id] for entry in selection.history if entry.id in records]
        texts += [(f"summary/{entry.id}", "summary", entry.summary_text) for entry in shown]
    texts += [(f"preference/{one.id}", "user", one.text) for one in layered.preferences]
    texts += [(f"parameter/{one.id}", "user", one.text) for one in layered.request.required_parameters]
    counted = ((item, channel, count_hidden(text)) for item, channel, text in texts if not text.isascii())
    return tuple(Found(item, channel, count) for item, channel, count in counted if count)


def judge_hidden(found: Sequence[Found], options: Options) -> tuple[dict[str, int], list[str]]:
    """Return hidden characters per item and the flags of the receipt.

    Refuses hidden_characters where a channel refuses them, with the item and their number.
    """
    counts: dict[str, int] = {}
    flags: set[str] = set()
    for one in found:
        if unicode_rule(options, one.channel) == "refuse":
            raise RefusalSignal("hidden_characters", f"{one.item}: {one.characters} characters that are not shown")
        counts[one.item] = counts.get(one.item, 0) + one.characters
        flags.add("hidden_characters_removed" if one.stripped else "hidden_characters")
    return counts, sorted(flags)


class Stripped(NamedTuple):
    """A request and history whose texts outside of turns are stripped, and what was taken out of which item."""

    request: PlanRequest
    history: History
    found: tuple[Found, ...] = ()


def strip_frame(request: PlanRequest, history: History) -> Stripped:
    """Strip every text that belongs to no turn, where its channel strips.

    Refuses hidden_characters where nothing of the question would be left.
    """
    strips = stripped_channels(request.options)
    if not strips:
        return Stripped(request, history)
    first = next((one for one in history.open_turn.messages if one.role == "user" and one.accepted), None)
    if "user" in strips and first is not None and not (strip_hidden(first.words()) or first.has_media):
        raise RefusalSignal("hidden_characters", f"turn {history.open_turn.id}: the question is nothing else")
    strip = _Strip(strips)
    asked = request.request
    schema = request.output_schema
    if schema is not None:
        schema = replace(schema, schema=strip.json(f"schema/{schema.id}", "policy", schema.schema))
    request = replace(
        request,
        policy=strip.items("policy", "policy", request.policy),
        data_scope=strip.items("scope", "policy", request.data_scope),
        output_schema=schema,
        tools=tuple(
            replace(one, declaration=strip.json(f"tool/{one.id}", "tools", one.declaration)) for one in request.tools
        ),
        preferences=strip.items("preference", "user", request.preferences),
        request=replace(asked, required_parameters=strip.items("parameter", "user", asked.required_parameters)),
        passages=tuple(map(strip.passage, request.passages)),
    )  # fmt: skip
    constraints = tuple(
        replace(one, text=strip.text(f"constraint/{one.id}", "policy", one.text)) if one.text else one
        for one in history.constraints
    )
    summaries = tuple(
        replace(one, summary_text=strip.text(f"summary/{one.id}", "summary", one.summary_text))
        for one in history.summaries
    )
    return Stripped(request, replace(history, constraints=constraints, summaries=summaries), tuple(strip.found))


class _Strip:
    def __init__(self, channels: frozenset[str]) -> None:
        self.channels = channels
        self.found: list[Found] = []

    def text(self, item: str, channel: str, text: str, form: str = "") -> str:
        count = count_hidden(text) if channel in self.channels else 0
        if not count:
            return text
        self.found.append(Found(item, channel, count, stripped=True, form=form))
        return strip_hidden(text)

    def passage(self, one: Passage) -> Passage:
        item = f"passage/{one.citation_id}"
        forms = tuple(self.text(item, "passage", text, name) for name, text in short_texts(one.short_forms))
        return replace(one, text=self.text(item, "passage", one.text), short_forms=forms)

    def items(self, kind: str, channel: str, items: tuple[TextItem, ...]) -> tuple[TextItem, ...]:
        return tuple(replace(one, text=self.text(f"{kind}/{one.id}", channel, one.text)) for one in items)

    def json(self, item: str, channel: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(item, channel, value)
        if isinstance(value, Mapping):
            names = [strip_hidden(key) for key in value]
            if channel in self.channels and len(set(names)) == len(names):
                names = [self.text(item, channel, key) for key in value]
            else:
                names = list(value)
            pairs = zip(names, value.values(), strict=True)
            return {key: self.json(item, channel, inner) for key, inner in pairs}
        if isinstance(value, list | tuple):
            return [self.json(item, channel, inner) for inner in value]
        return value
