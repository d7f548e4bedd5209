"""What stands around one more turn, summary or passage: two plans compared, once by ids and once by bytes (M6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.encoding.encoder import Encoder
from planner.gate.limits import Planning
from planner.steps.frame_blocks import citation_area, state_frame
from planner.values.budget import TurnFraming
from planner.values.passage import Passage
from planner.values.plan import Refusal
from planner.values.prompt import Counters, Leaf
from planner.values.request import CurrentRequest, PlanRequest, Tool
from planner.values.text_bound import TextBound
from planner.values.turn import Message, ToolCall, ToolResult, Turn

_TEXTS = ("?", "Yes, of course.", "7 of 12", "好的。", "été", '{"a": 1}', "line\nline", "a < b & 'c' \\ \"d\"")
"""The first is the plain one; the others find templates that write a text otherwise than it is."""
_TOOL = Tool("t", {"type": "function", "function": {
    "name": "t", "description": "t", "parameters": {"type": "object", "properties": {}},
}})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sized:
    """Sizes of texts by themselves and of whole prompts on one bundle."""

    encoder: Encoder
    bound: TextBound

    def alone(self, text: str) -> int:
        """Return the exact tokens of a text by itself."""
        return self.encoder.alone(text, Counters())

    def proven(self, prompt: str) -> int | None:
        """Return an upper bound of a prompt: its control tokens, and the bytes of what stands between them."""
        if not self.bound.proven:
            return None
        total = at = 0
        for hit in self.encoder.guards.find(prompt):
            total += 1 + self.bound.most_tokens(prompt[at : hit.start])
            at = hit.stop
        return total + self.bound.most_tokens(prompt[at:])


Piece = tuple[PlanRequest, Sequence[str]]
"""A request with one more piece in it, and the texts of that piece."""


def framings(request: PlanRequest, plan: Planning, sized: Sized) -> Iterator[TurnFraming]:
    """Give the framing of each kind: a turn, a turn with a call, a summary, the citation area, one passage more."""
    with_tool = request if request.tools else replace(request, tools=(_TOOL,))
    for kind, base, pieces in (
        ("userTurn", request, [_turn(request, text) for text in _TEXTS]),
        ("toolTurn", with_tool, [_tool_turn(with_tool, text) for text in _TEXTS]),
        ("summaryBlock", request, [_summary(request, text) for text in _TEXTS]),
        ("citationArea", request, [_cited(request, (text,)) for text in _TEXTS]),
        ("passage", _cited(request, ("?",))[0], [_next_cited(request, text) for text in _TEXTS]),
    ):
        yield _framing(kind, base, pieces, plan, sized)


def _framing(kind: str, base: PlanRequest, pieces: Sequence[Piece], plan: Planning, sized: Sized) -> TurnFraming:
    before = plan(base)
    if isinstance(before, Refusal):
        return TurnFraming(kind, None, None, before.reason)
    measured, proven, rewritten = 0, 0, False
    floor = sized.proven(before.prompt or "")
    for request, texts in pieces:
        answer = plan(request)
        if isinstance(answer, Refusal):
            return TurnFraming(kind, None, None, answer.reason)
        measured = max(measured, len(answer.ids) - len(before.ids) - sum(map(sized.alone, texts)))
        top = sized.proven(answer.prompt or "")
        if floor is not None and top is not None:
            around = top - floor - sum(map(sized.bound.most_tokens, texts))
            rewritten = rewritten or (request is not pieces[0][0] and around > proven)
            proven = max(proven, around)
    # Texts bound by themselves bring their prefix with them; one is allowed again for each place they are cut at.
    allowed = sized.bound.prefix_tokens * (len(pieces[0][1]) + 1)
    if rewritten:
        return TurnFraming(kind, measured, None, "template_rewrites_text")
    return TurnFraming(kind, measured, None if floor is None else proven + allowed)


def _turn(request: PlanRequest, text: str) -> Piece:
    messages = (Message("user", "m1", text), Message("assistant", "m2", text))
    return replace(request, turns=(Turn("t1", 1, "completed", messages),)), (text, text)


def _tool_turn(request: PlanRequest, text: str) -> Piece:
    declaration = request.tools[0].declaration
    name = str(declaration.get("function", declaration).get("name"))
    messages = (
        Message("user", "m1", text),
        Message("assistant", "m2", tool_calls=(ToolCall("call00001", name, {}),)),
        Message("tool", "m3", tool_result=ToolResult("call00001", text)),
        Message("assistant", "m4", text),
    )
    return replace(request, turns=(Turn("t1", 1, "completed", messages),)), (text, text, text)


def _summary(request: PlanRequest, text: str) -> Piece:
    opened, closed = state_frame()
    return _asking(request, f"{opened}turns 1000 to 9999:\n{text}\n{closed}"), (text,)


def _cited(request: PlanRequest, texts: Sequence[str]) -> Piece:
    # The blocks stand in front of the question's text, so the same text gives the same ids.
    area = citation_area([Passage(f"citation-{place}", text) for place, text in enumerate(texts)])
    spelled = "".join(piece.text if isinstance(piece, Leaf) else piece for piece in area)
    return _asking(request, spelled), texts


def _next_cited(request: PlanRequest, text: str) -> Piece:
    return _cited(request, ("?", text))[0], (text,)


def _asking(request: PlanRequest, front: str) -> PlanRequest:
    return replace(request, request=CurrentRequest("q", text=front + "?"))
