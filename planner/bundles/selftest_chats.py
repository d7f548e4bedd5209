"""The part of the self-test that renders: small chats of our own through the bundle's template.

Each chat holds only what the measured profile says the template carries. Clean ones are encoded by all ways
that must agree; dirty ones spell a control token in every text and are compared with an inert twin.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from planner.bundles.bundle import FolderBundle
from planner.bundles.selftest import FULL_CHATS, SHORT_CHATS, SHORT_DIRTY, SPLIT, SelfTestCheck, spread
from planner.encoding.encoder import Encoder, Encoding
from planner.encoding.skeleton import control_ids, inert_wrap
from planner.encoding.tracked import own
from planner.encoding.whole import encode_whole
from planner.steps.frame import Framed, Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.framing import Framing, Wrap
from planner.steps.layer import layer
from planner.steps.recall import recall
from planner.values.bundle import ControlToken
from planner.values.profile import TemplateProfile
from planner.values.prompt import Counters
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.rung import Layered, Selection
from planner.values.turn import Message, ToolCall, ToolResult, Turn

SEED = 20261130
REFUSED = "template_rejected"
_FRAGMENTS = (
    "The ferry leaves at 7:45", "is it raining", "第三个房间还空着", "请再核对一次。", "x = [1, 2, 3]",
    "def add(a, b):\n    return a + b", "  two  spaces", "\n\n- one\n- two", "\tindented", "Größe: 3 µm",
    "{\"a\": \"b\"}", "it's 12,345.67", "e\u0301te\u0301", "👩‍👧 🙂", "…", "C:\\new\\table", "<b>bold</b>",
    "| a | b |", "Ω ≈ 3", "\r\n", "K", "don't", "[x]", "السلام", "นี่คือ", "नमस्ते",
)  # fmt: skip
_TOOLS = (
    Tool("find_room", {"type": "function", "function": {
        "name": "find_room", "description": "Find a free room, 例如 305.",
        "parameters": {"type": "object", "properties": {
            "floor": {"type": "integer", "description": "which floor"},
            "name": {"type": "string", "description": "part of its name"}}, "required": ["floor"]}}}),
    Tool("cancel", {"type": "function", "function": {
        "name": "cancel", "description": "Cancel a booking.",
        "parameters": {"type": "object", "properties": {
            "id": {"type": "string", "description": "the booking's id"}}, "required": ["id"]}}}),
)  # fmt: skip


@dataclass
class _Writer:
    """Writes texts that spell neither a control token nor a string the template parses."""

    forbidden: Sequence[str]
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - a repeatable choice
    written: int = 0

    def spelling(self, token: ControlToken) -> str:
        """Return a text that holds a control token and is no other text: some templates compare them."""
        self.written += 1
        return f"plain {token.text} words {self.written}"

    def text(self) -> str:
        """Return the next clean text."""
        while True:
            self.written += 1
            pieces = [f"n{self.written}", *self.rng.choices(_FRAGMENTS, k=self.rng.randint(1, 4))]
            self.rng.shuffle(pieces)
            text = self.rng.choice((" ", "", "\n")).join(pieces)
            if not any(mark in text for mark in self.forbidden):
                return text


def chat_checks(bundle: FolderBundle, *, full: bool) -> list[SelfTestCheck]:
    """Run the rendered checks. Raises what the bundle's profile and engine raise."""
    return _ChatTest(bundle).run(full=full)


class _ChatTest:
    def __init__(self, bundle: FolderBundle) -> None:
        self.bundle = bundle
        self.profile = bundle.profile
        self.encoder = Encoder(bundle)
        self.counters = Counters()
        controls = [token.text for token in bundle.manifest.control_tokens]
        parsed = [one for entry in self.profile.parsed_strings for one in (entry.opener, entry.closer) if one]
        # Single characters and blanks would leave nothing to write; a text that spells one is not clean.
        self.writer = _Writer([mark for mark in (*controls, *parsed) if len(mark.strip()) > 1])
        self.broken: dict[str, int] = {}

    def run(self, *, full: bool) -> list[SelfTestCheck]:
        chats = FULL_CHATS if full else SHORT_CHATS
        rendered = sum(self._clean(number) for number in range(chats))
        controls = self.bundle.manifest.control_tokens
        chosen = controls if full else spread(controls, SHORT_DIRTY)
        compared = sum(self._dirty(token) for token in chosen)
        rows = (
            ("small chats render", chats, True),
            ("owners change no character of a render", rendered, True),
            (SPLIT, rendered, True),
            ("every text is found in its render", rendered, False),
            ("sizes of turns add up", rendered, False),
            ("content forges no control id", compared, True),
        )
        return [
            SelfTestCheck(
                name, not self.broken.get(name), count,
                f"{self.broken[name]} of {count}" if self.broken.get(name) else "", required,
                "tokenizer_failed" if name == SPLIT else REFUSED,
            )
            for name, count, required in rows
        ]  # fmt: skip

    def _fail(self, name: str) -> None:
        self.broken[name] = self.broken.get(name, 0) + 1

    def _clean(self, number: int) -> bool:
        layered = self._chat(number, None)
        selection = Selection(history=tuple(layered.history.turns))
        framed, encoding = self._encode(layered, selection, own)
        if encoding is None or encoding.rendered is None or encoding.assembled is None:
            self._fail("small chats render")
            return False
        if self.encoder.plain(framed.inputs, self.counters) != encoding.rendered.text:
            self._fail("owners change no character of a render")
        if encode_whole(self.bundle, framed.inputs) != encoding.assembled.ids:
            self._fail(SPLIT)
        if encoding.lost or encoding.ambiguous:
            self._fail("every text is found in its render")
        if not self._adds_up(layered, selection):
            self._fail("sizes of turns add up")
        return True

    def _adds_up(self, layered: Layered, selection: Selection) -> bool:
        """Compare the size of the oldest turn with what leaving it out saves; a policy may be folded into it."""
        layered = replace(layered, policy=())
        _, encoding = self._encode(layered, selection, own)
        shorter = Selection(history=selection.history[1:])
        _, rest = self._encode(layered, shorter, own)
        if encoding is None or rest is None or encoding.assembled is None or rest.assembled is None:
            return False
        assembled = encoding.assembled
        first, second = (f"turn/{turn.id}" for turn in selection.history[:2])
        if first not in assembled.starts or second not in assembled.starts:
            return False
        saved = len(assembled.ids) - len(rest.assembled.ids)
        return saved == assembled.starts[second] - assembled.starts[first]

    def _dirty(self, token: ControlToken) -> bool:
        """Spell a control token in every text and compare with an inert twin; False where neither renders."""
        layered = self._chat(0, token)
        selection = Selection(history=tuple(layered.history.turns))
        try:
            _, encoding = self._encode(layered, selection, own, signals=True)
            _, twin = self._encode(layered, selection, inert_wrap(self.profile), signals=True)
        except RefusalSignal:
            self._fail("content forges no control id")
            return True
        if encoding is None or twin is None or encoding.assembled is None or twin.assembled is None:
            return False
        if encoding.assembled.obeyed is not None:  # a plan with it is refused, so nothing is forged
            return True
        guards = self.encoder.guards
        if control_ids(encoding.assembled.ids, guards) != control_ids(twin.assembled.ids, guards):
            self._fail("content forges no control id")
        return True

    def _encode(
        self, layered: Layered, selection: Selection, wrap: Wrap, *, signals: bool = False
    ) -> tuple[Framed, Encoding | None]:
        framing = Framing(self.profile, frozenset(self.bundle.manifest.concessions), wrap)
        framed = Framer(layered, framing, {}, None, {}, FixedParts()).frame(selection)
        inputs = framed.inputs if wrap is own else replace(framed.inputs, leaves=())
        try:
            return framed, self.encoder.certified(inputs, self.counters)
        except RefusalSignal:
            if signals:
                raise
            return framed, None

    def _chat(self, number: int, planted: ControlToken | None) -> Layered:
        words = self.writer.text if planted is None else partial(self.writer.spelling, planted)
        profile = self.profile
        calls = _carries_calls(profile)
        turns = tuple(
            _turn(index, words, calls=calls and index % 2 == number % 2, thought=profile.reasoning == "passed")
            for index in range(1, 4)
        )
        request = PlanRequest(
            model_bundle_id=self.bundle.manifest.id,
            request=CurrentRequest(id="q", text=words()),
            policy=(TextItem("rule", words()),) if profile.system == "kept" else (),
            tools=_TOOLS if calls else (),
            turns=turns,
        )
        return layer(request, recall(request))


def _carries_calls(profile: TemplateProfile) -> bool:
    return {profile.tools, profile.tool_call, profile.tool_result} == {"kept"}


def _turn(index: int, say: Callable[[], str], *, calls: bool, thought: bool) -> Turn:
    messages = [Message("user", f"u{index}", say())]
    if calls:
        call = ToolCall(f"call{index:05d}", "find_room", {"floor": index, "name": say()})
        messages.append(Message("assistant", f"c{index}", tool_calls=(call,)))
        messages.append(Message("tool", f"r{index}", tool_result=ToolResult(call.id, say())))
    reasoning = say() if thought and index == 2 else None
    messages.append(Message("assistant", f"a{index}", say(), reasoning=reasoning))
    return Turn(f"t{index}", 10 * index, "completed", tuple(messages))
