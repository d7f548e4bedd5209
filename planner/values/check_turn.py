"""Rules of one turn: shape of its messages, and every result with its call (R47, X2, X63)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from planner.values.field_rules import ID_RULE, check_forms, invalid, is_id, is_whole, json_problem, text_problem
from planner.values.turn import (
    Material,
    Message,
    MustPreserve,
    OpenItem,
    Part,
    ProtectionReason,
    Role,
    ToolCall,
    ToolResult,
    Turn,
    TurnState,
)

# Tuples, not sets: a value that cannot be hashed must be refused, not crash.
_ROLES = get_args(Role)
_STATES = get_args(TurnState)
_REASONS = (None, *get_args(ProtectionReason))
_MATERIALS = (None, *get_args(Material))
_PARTS = {"text": frozenset(), "image": frozenset({"widthPx", "heightPx"}), "audio": frozenset({"durationMs"})}
_STATUSES = ("pending", "blocked", "done")


def check_turn(turn: Turn, path: str, message_ids: set[str] | None = None) -> None:
    """Check one turn; an open one may lack messages here, the request says whether it brings the first.

    path         JSON path of the turn, the beginning of every detail.
    message_ids  ids of messages seen before, to which this turn's are added once all of it is in order.
    Raises RefusalSignal `invalid-input`.
    """
    if type(turn) is not Turn:
        invalid(path, "expected a Turn")
    if not is_id(turn.id):
        invalid(f"{path}.id", ID_RULE)
    if not is_whole(turn.sequence):
        invalid(f"{path}.sequence", "expected a whole number, 0 or more")
    if turn.state not in _STATES:
        invalid(f"{path}.state", "is not one of the states of a turn")
    if type(turn.messages) is not tuple:
        invalid(f"{path}.messages", "expected a tuple")
    if not turn.messages and turn.state == "completed":
        invalid(f"{path}.messages", "is empty")
    own_ids: set[str] = set()
    for index, message in enumerate(turn.messages):
        _check_message(message, path, index)
        if message.id is not None:
            if message.id in own_ids or (message_ids is not None and message.id in message_ids):
                invalid(f"{path}.messages[{index}].id", "is used by another message")
            own_ids.add(message.id)
    _check_pairs(turn, path)
    if turn.must_preserve != () or turn.supersedes != () or turn.open_items != () or turn.material is not None:
        _check_relations(turn, path)
    if message_ids is not None:
        message_ids |= own_ids


def _check_relations(turn: Turn, path: str) -> None:
    """Check marks, withdrawals and items of a turn, each named once in it, and its material."""
    for name, entries, kind in (
        ("mustPreserve", turn.must_preserve, MustPreserve),
        ("supersedes", turn.supersedes, str),
        ("openItems", turn.open_items, OpenItem),
    ):
        if type(entries) is not tuple:
            invalid(f"{path}.{name}", "expected a tuple")
        for index, entry in enumerate(entries):
            if type(entry) is not kind:
                invalid(f"{path}.{name}[{index}]", f"expected a {kind.__name__}")
    for index, mark in enumerate(turn.must_preserve):
        _check_own(mark.constraint_id, [one.constraint_id for one in turn.must_preserve[:index]],
                   f"{path}.mustPreserve[{index}].constraintId")  # fmt: skip
        if mark.text is not None:
            problem = text_problem(mark.text) or (None if mark.text.strip() else "is blank")
            if problem:
                invalid(f"{path}.mustPreserve[{index}].text", problem)
    for index, name in enumerate(turn.supersedes):
        _check_own(name, turn.supersedes[:index], f"{path}.supersedes[{index}]")
    for index, item in enumerate(turn.open_items):
        _check_own(item.id, [one.id for one in turn.open_items[:index]], f"{path}.openItems[{index}].id")
        if item.status not in _STATUSES:
            invalid(f"{path}.openItems[{index}].status", "is not one of the states of an item")
    if turn.material not in _MATERIALS:
        invalid(f"{path}.material", "is not one of the materials")


def _check_own(value: str, before: Sequence[str], path: str) -> None:
    if not is_id(value):
        invalid(path, ID_RULE)
    if value in before:
        invalid(path, "is used twice")


def _check_message(message: Message, turn_path: str, index: int) -> None:
    if type(message) is not Message:
        invalid(f"{turn_path}.messages[{index}]", "expected a Message")
    plain = message.tool_calls == () and message.parts == () and message.tool_result is None
    if plain and (message.role == "user" or message.role == "assistant"):  # noqa: PLR1714 - the hot path
        # Most messages are one plain text: two tests instead of a dozen.
        if message.text is not None and text_problem(message.text):
            invalid(f"{turn_path}.messages[{index}].text", text_problem(message.text) or "")
    else:
        _check_content(message, f"{turn_path}.messages[{index}]")
    _check_marks(message, turn_path, index)


def _check_content(message: Message, path: str) -> None:
    role = message.role
    if role not in _ROLES:
        invalid(f"{path}.role", "is not one of the roles")
    if type(message.parts) is not tuple or type(message.tool_calls) is not tuple:
        invalid(path, "expected tuples of parts and calls")
    if message.text is not None and message.parts:
        invalid(f"{path}.parts", "stand beside a text")
    if message.tool_calls and role != "assistant":
        invalid(f"{path}.toolCalls", "only an assistant message may call a tool")
    if (message.tool_result is not None) != (role == "tool"):
        invalid(f"{path}.toolResult", "belongs to role tool, and role tool needs it")
    if message.tool_result is not None:
        if message.text is not None or message.parts:
            invalid(f"{path}.text", "a tool message holds its words in toolResult only")
        _check_result(message.tool_result, f"{path}.toolResult")
    problem = text_problem(message.text) if message.text is not None else None
    if problem:
        invalid(f"{path}.text", problem)
    _check_parts(message, path)
    for index, call in enumerate(message.tool_calls):
        _check_call(call, f"{path}.toolCalls[{index}]")


def _check_parts(message: Message, path: str) -> None:
    own_ids: set[str] = set()
    for index, part in enumerate(message.parts):
        where = f"{path}.parts[{index}]"
        if type(part) is not Part or part.type not in tuple(_PARTS):
            invalid(f"{where}.type", "is not one of the types of a part")
        sizes = {"widthPx": part.width_px, "heightPx": part.height_px, "durationMs": part.duration_ms}
        given = {name for name, size in sizes.items() if size is not None}
        for name in sorted(given - _PARTS[part.type]):
            invalid(f"{where}.{name}", "belongs to another type of part")
        for name in sorted(given):
            if not is_whole(sizes[name], 1):
                invalid(f"{where}.{name}", "expected a whole number, 1 or more")
        if len(given) == 1 and part.type == "image":
            invalid(where, "an image has both widthPx and heightPx, or neither")
        if part.type == "text":
            problem = text_problem(part.text) or (None if part.id is None else "has no id of its own")
        else:
            problem = None if part.text is None else "only a text part has one"
            if not is_id(part.id) or part.id in own_ids:
                invalid(f"{where}.id", ID_RULE if not is_id(part.id) else "is used by another part")
            if message.role != "user":
                invalid(f"{where}.type", "only a user message holds it")
            own_ids.add(str(part.id))
        if problem:
            invalid(f"{where}.text", problem)


def _check_result(result: ToolResult, path: str) -> None:
    if type(result) is not ToolResult:
        invalid(path, "expected a ToolResult")
    if not is_id(result.call_id):
        invalid(f"{path}.callId", ID_RULE)
    problem = text_problem(result.text)
    if problem:
        invalid(f"{path}.text", problem)
    if result.short_forms != ():
        check_forms(result.short_forms, path)


def _check_call(call: ToolCall, path: str) -> None:
    if type(call) is not ToolCall:
        invalid(path, "expected a ToolCall")
    if not is_id(call.id):
        invalid(f"{path}.id", ID_RULE)
    if not is_id(call.name):
        invalid(f"{path}.name", ID_RULE)
    if type(call.arguments) not in (dict, str):
        invalid(f"{path}.arguments", "expected an object or a string")
    problem = json_problem(call.arguments)
    if problem:
        invalid(f"{path}.arguments", problem)


def _check_marks(message: Message, turn_path: str, index: int) -> None:
    """Check what stands beside the words: id, source, reasoning, protection, acceptance."""
    if message.id is not None and not is_id(message.id):
        invalid(f"{turn_path}.messages[{index}].id", ID_RULE)
    if message.source is not None and not is_id(message.source):
        invalid(f"{turn_path}.messages[{index}].source", ID_RULE)
    if message.reasoning is not None:
        problem = text_problem(message.reasoning)
        if problem or message.role != "assistant":
            invalid(f"{turn_path}.messages[{index}].reasoning", problem or "belongs to role assistant only")
    if message.protection_reason not in _REASONS:
        invalid(f"{turn_path}.messages[{index}].protectionReason", "is not one of the reasons")
    if message.accepted is not True and (message.accepted is not False or message.role not in ("assistant", "tool")):
        invalid(f"{turn_path}.messages[{index}].accepted", "only an assistant or tool message may be unaccepted")
    if message.sequence is not None and not is_whole(message.sequence):
        invalid(f"{turn_path}.messages[{index}].sequence", "expected a whole number, 0 or more")
    if message.version != 1 and not is_whole(message.version, 1):
        invalid(f"{turn_path}.messages[{index}].version", "expected a whole number, 1 or more")
    for name, ids in (("constraintIds", message.constraint_ids), ("citationIds", message.citation_ids)):
        if ids != () and not (type(ids) is tuple and all(map(is_id, ids))):
            invalid(f"{turn_path}.messages[{index}].{name}", ID_RULE)


def _check_pairs(turn: Turn, path: str) -> None:
    """Refuse a result without its call, a second result, two waiting calls of one id, and a call left open.

    An id may come again once its call is answered: recorded agents do that, and the pairs stay plain.
    Candidates that were not chosen are never rendered, so they take no part (X63). A call may lack its
    result while its turn is open, and in a turn that is never rendered.
    """
    waiting: dict[str, str] = {}
    answered = spoken = False
    for index, message in enumerate(turn.messages):
        if message.role == "assistant":
            spoken, answered = True, answered or message.accepted
        if not message.accepted:
            continue
        for number, call in enumerate(message.tool_calls):
            if call.id in waiting:
                invalid(f"{path}.messages[{index}].toolCalls[{number}].id", "is used by a call that still waits")
            waiting[call.id] = f"{path}.messages[{index}].toolCalls[{number}]"
        if message.tool_result is not None and waiting.pop(message.tool_result.call_id, None) is None:
            invalid(
                f"{path}.messages[{index}].toolResult.callId",
                "names no call before it that waits for a result",
            )
    if turn.state != "completed":
        return
    if waiting:
        invalid(next(iter(waiting.values())), "has no result, and its turn is completed")
    if spoken and not answered:
        invalid(path, "is completed, and none of its answers is accepted")
