"""Put a selection into the shape its template takes, every string owned (design.md §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.encoding.tracked import concat
from planner.steps.frame_blocks import citation_area, conflict_block, state_block
from planner.steps.frame_fixed import FixedParts
from planner.steps.frame_turn import FramedTurn, Place, frame_turn
from planner.steps.framing import Framing
from planner.steps.hidden import Found
from planner.values.forms import Shown, with_forms
from planner.values.prompt import Leaf, TemplateInputs
from planner.values.reasons import RefusalSignal
from planner.values.rung import Layered, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Framed:
    """Template inputs with what framing did: leaves left out by concession, shapes per turn, notes.

    `noted` are those of the turns that a plan says something of (`FramedTurn.noted`).
    """

    inputs: TemplateInputs
    omitted: tuple[Leaf, ...] = field(repr=False)
    turns: tuple[tuple[str, FramedTurn], ...] = field(repr=False)
    noted: tuple[tuple[str, FramedTurn], ...] = field(repr=False)
    used: Mapping[str, tuple[str, ...]]
    aliased: int
    flags: frozenset[str]
    neighbours: Mapping[str, str]
    hidden: tuple[Found, ...] = ()


class Framer:
    """Frames selections of one request; turns, policy and tools are framed once and remembered."""

    def __init__(
        self,
        layered: Layered,
        framing: Framing,
        options: Mapping[str, Any],
        now: str | None,
        turns: dict[str, FramedTurn],
        fixed: FixedParts,
    ) -> None:
        """Keep what does not change between rungs; `turns` and `fixed` are stores that may outlive it."""
        self.layered = layered
        self.framing = framing
        self.options = options
        self.now = now
        fixed.take(layered, framing)
        self._fixed = fixed
        self.system = fixed.system
        self.tools = fixed.tools
        self._open: FramedTurn | None = None
        self.turns = turns

    def fixed_key(self) -> tuple[Any, ...]:
        """Return what the system message and the tools were framed from."""
        return self._fixed.system_of, self._fixed.tools_of

    def with_layered(self, layered: Layered) -> Framer:
        """Return a framer of another layering that shares the framed turns."""
        return Framer(layered, self.framing, self.options, self.now, self.turns, self._fixed)

    def measuring(self, layered: Layered) -> Framer:
        """Return a framer of another layering that names every message an item of its own, and remembers nothing."""
        return Framer(layered, replace(self.framing, by_message=True), self.options, self.now, {}, self._fixed)

    def turn(self, turn: Turn, shown: Shown = ()) -> FramedTurn:
        """Frame a turn of the history, once, and once more for the shorter forms it was last shown in."""
        key = f"{turn.id} short" if shown else turn.id  # no id holds a space
        known = self.turns.get(key)
        if known is None or (shown and known.shown != shown):
            place = Place(f"turn/{turn.id}", "history")
            known = self.turns[key] = frame_turn(with_forms(turn, shown), place, self.framing, shown)
        return known

    def open_turn(self, shown: Shown = ()) -> FramedTurn:
        """Frame the request's own turn, once for the forms it is shown in."""
        if self._open is None or self._open.shown != shown:
            turn = self.layered.open_turn
            request_id = self.layered.request.id or turn.id
            place = Place(f"turn/{turn.id}", "history", "open_turn", f"request/{request_id}")
            self._open = frame_turn(with_forms(turn, shown), place, self.framing, shown)
        return self._open

    def frame(self, selection: Selection) -> Framed:
        """Return the inputs of one rung."""
        messages: list[dict[str, Any]] = []
        leaves: list[Leaf] = []
        parts: list[tuple[str, FramedTurn]] = []
        if self.system is not None:
            messages.append(self.system[0])
            leaves.extend(self.system[1])
        leaves.extend(self.tools[1])
        waiting, forms = _Waiting(selection), selection.forms
        for entry in selection.history:
            if isinstance(entry, SummaryRecord):
                waiting.summaries.append(entry)
                continue
            framed = self.turn(entry, forms.get(f"turn/{entry.id}", ()) if forms else ())
            parts.append((entry.id, framed))
            _extend(messages, leaves, framed, waiting.block(framed), self.framing)
        framed = self.open_turn(forms.get(f"turn/{self.layered.open_turn.id}", ()))
        parts.append((self.layered.open_turn.id, framed))
        cited = [*citation_area(selection.passages), *conflict_block(selection.conflicts)]
        front = [*waiting.block(framed), *cited, *self._lines()]
        _extend(messages, leaves, framed, front, self.framing)
        joined = _join_same_role(messages, parts) if self.framing.applies("join_same_role") else {}
        noted = tuple([pair for pair in parts if pair[1].noted])
        return Framed(
            inputs=TemplateInputs(
                messages=messages, tools=self.tools[0],
                options=self.options, leaves=leaves, now=self.now,
            ),
            omitted=tuple(leaf for _, part in parts for leaf in part.omitted),
            turns=tuple(parts),
            noted=noted,
            used=_used(noted, joined),
            aliased=_aliased(noted),
            flags=frozenset().union(*(part.flags for _, part in noted)),
            neighbours={} if joined else _neighbours(parts),
            hidden=self._hidden(noted),
        )  # fmt: skip

    def describe(self, selection: Selection, end: Framed) -> Framed:
        """Return what framing a selection says about its turns, over the inputs of its rendered end.

        Every entry is a turn in its longest form and was framed before, as one whose ids are known was.
        """
        known = self.turns
        parts = [(entry.id, known[entry.id]) for entry in selection.history]
        parts.append((self.layered.open_turn.id, self.open_turn()))
        noted = tuple([pair for pair in parts if pair[1].noted])
        return Framed(
            inputs=end.inputs,
            omitted=(),
            turns=tuple(parts),
            noted=noted,
            used=_used(noted, {}),
            aliased=_aliased(noted),
            flags=frozenset().union(*(part.flags for _, part in noted)),
            neighbours={},
            hidden=self._hidden(noted),
        )

    def _hidden(self, parts: Sequence[tuple[str, FramedTurn]]) -> tuple[Found, ...]:
        fixed = (*self._fixed.system_hidden, *self._fixed.tools_hidden)
        return (*fixed, *(found for _, part in parts for found in part.hidden))

    def _lines(self) -> list[str | Leaf]:
        out: list[str | Leaf] = []
        for kind, items in (
            ("preference", self.layered.preferences),
            ("parameter", self.layered.request.required_parameters),
        ):
            for item in items:
                out += [f"{kind}: ", Leaf(
                    item=f"{kind}/{item.id}", section="request", kind="user_text", text=item.text, role="user",
                    turn=self.layered.open_turn.id,
                ), "\n"]  # fmt: skip
        return out


class _Waiting:
    """What waits for the next user message: the head of the history, and summaries since the last one."""

    def __init__(self, selection: Selection) -> None:
        self.summaries: list[SummaryRecord] = []
        self.constraints, self.notice = selection.constraints, selection.notice
        self.first = True

    def block(self, framed: FramedTurn) -> list[str | Leaf]:
        """Return the state block of a turn, if anything waits and it has a user message to carry it."""
        if not (self.summaries or self.constraints or self.notice):
            return []
        if not any(message["role"] == "user" for message in framed.messages):
            return []
        out = state_block(self.summaries, first=self.first, constraints=self.constraints, notice=self.notice)
        self.summaries, self.constraints, self.notice, self.first = [], (), False, False
        return out


def _extend(
    messages: list[dict[str, Any]],
    leaves: list[Leaf],
    framed: FramedTurn,
    front: Sequence[str | Leaf],
    framing: Framing,
) -> None:
    if not front:
        messages.extend(framed.messages)
        leaves.extend(framed.leaves)
        return
    # The first user message of the turn carries the block; layer made sure that there is one.
    carrier = next(index for index, message in enumerate(framed.messages) if message["role"] == "user")
    leaves.extend(piece for piece in front if isinstance(piece, Leaf))
    text = concat([framing.wrap(piece) if isinstance(piece, Leaf) else piece for piece in front])
    own = framed.messages[carrier]["content"]
    content: Any = [{"type": "text", "text": text + own[0]["text"]}] if isinstance(own, list) else text + own
    messages.extend(framed.messages[:carrier])
    messages.append({**framed.messages[carrier], "content": content})
    messages.extend(framed.messages[carrier + 1 :])
    leaves.extend(framed.leaves)


def _join_same_role(
    messages: list[dict[str, Any]], parts: Sequence[tuple[str, FramedTurn]]
) -> dict[str, tuple[str, ...]]:
    """Join neighbouring user or assistant messages by two newlines; return the message ids it touched."""
    ids = _message_ids(messages, parts)
    out: list[dict[str, Any]] = []
    touched: list[str] = []
    for index, message in enumerate(messages):
        last = out[-1] if out else None
        if (
            last is not None
            and last["role"] == message["role"]
            and message["role"] in ("user", "assistant")
            and not last.get("tool_calls")
            and not message.get("tool_calls")
        ):
            out[-1] = {**last, **message, "content": _joined_content(last["content"], message["content"])}
            touched += [ids[index - 1], ids[index]]
        else:
            out.append(message)
    messages[:] = out
    found = tuple(dict.fromkeys(entry for entry in touched if entry))
    return {"join_same_role": found} if touched else {}


def _joined_content(first: Any, second: Any) -> Any:
    if isinstance(first, list):
        return [{"type": "text", "text": _joined_content(first[0]["text"], second[0]["text"])}]
    if not second:
        return first
    return first + "\n\n" + second if first else second


def _message_ids(messages: Sequence[Any], parts: Sequence[tuple[str, FramedTurn]]) -> list[str]:
    ids = [message_id for _, part in parts for message_id in part.message_ids]
    return [""] * (len(messages) - len(ids)) + ids


def _neighbours(parts: Sequence[tuple[str, FramedTurn]]) -> dict[str, str]:
    """Map a role that stands twice in a row to the turn of the second message, oldest first."""
    found: dict[str, str] = {}
    last = ""
    for turn_id, part in parts:
        for message in part.messages:
            role = message["role"]
            if role == last and role in ("user", "assistant"):
                found.setdefault(role, turn_id)
            last = role
    return found


def _used(parts: Sequence[tuple[str, FramedTurn]], joined: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, list[str]] = {}
    for _, part in parts:
        for name, ids in part.used.items():
            out.setdefault(name, []).extend(ids)
    for name, ids in joined.items():
        out.setdefault(name, []).extend(ids)
    return {name: tuple(ids) for name, ids in out.items()}


def _aliased(parts: Sequence[tuple[str, FramedTurn]]) -> int:
    """Count the call ids shown as another. Refuses template_refuses_shape where two would be shown alike (D05)."""
    shown: dict[str, str] = {}
    for turn_id, part in parts:
        for call_id, alias in part.aliases.items():
            if shown.setdefault(alias, call_id) != call_id:
                raise RefusalSignal("template_refuses_shape", f"turn {turn_id}: two call ids have one short form")
    return sum(alias != call_id for alias, call_id in shown.items())
