"""What a fingerprint sees: every field of what is summarised, in one spelling, in any order (R79..R82, X8, X9)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.fingerprint import SourceChain, fingerprint, protected_fingerprint
from planner.values.turn import Message, MustPreserve, OpenItem, Part, ToolCall, ToolResult, Turn
from tests.compaction.chats import conversations, protected, turn, with_message

FULL = Turn(
    "t1", 10, "completed",
    messages=(
        Message(
            "user", id="u1", parts=(Part("text", "Paint it."),), source="form", protection_reason="audit-evidence",
            constraint_ids=("C1",), citation_ids=("src-1",), sequence=10, version=2,
        ),
        Message(
            "assistant", id="a1", text="Done.", reasoning="Think.", tool_calls=(ToolCall("k1", "look_up", {"q": 1}),),
        ),
        Message("tool", id="r1", tool_result=ToolResult("k1", "found", ("f",))),
    ),
    must_preserve=(MustPreserve("C1", "Blue."),), supersedes=("C0",), open_items=(OpenItem("i1", "pending"),),
    material="chat",
)  # fmt: skip
CLASSES = (Turn, Message, ToolCall, ToolResult, Part, MustPreserve, OpenItem)

# Fields for which adding a letter makes no other value, and fields that are absent in the example.
OTHER: dict[tuple[type, str], Any] = {
    (Turn, "state"): "open",
    (Turn, "material"): "code",
    (Message, "role"): "developer",
    (Message, "accepted"): False,
    (Message, "protection_reason"): "active-constraint",
    (Part, "type"): "image",
    (OpenItem, "status"): "blocked",
    (ToolCall, "arguments"): {"q": 2},
}
MORE: dict[str, Any] = {
    "must_preserve": (MustPreserve("C7"),), "open_items": (OpenItem("i7", "pending"),), "parts": (Part("text", "x"),),
    "tool_calls": (ToolCall("k7", "look_up", {}),), "tool_result": ToolResult("k7", "x"), "sequence": 77,
}  # fmt: skip


def other(owner: Any, name: str) -> Any:
    """Return another value of a field."""
    value = getattr(owner, name)
    if (type(owner), name) in OTHER and value != OTHER[type(owner), name]:
        return OTHER[type(owner), name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return value[:-1] if value else MORE.get(name, ("x",))
    if value is None:
        return MORE.get(name, "x")
    raise AssertionError(f"no other value for {name}")


def changes(value: Any, path: str = "turn") -> Iterator[tuple[str, type, Any]]:
    """Yield (path, class, changed copy) for every field of a value and of every value inside it."""
    for entry in fields(value):
        mine = getattr(value, entry.name)
        here = f"{path}.{entry.name}"
        if not (isinstance(mine, tuple) and mine and is_dataclass(mine[0])) and not is_dataclass(mine):
            yield here, type(value), replace(value, **{entry.name: other(value, entry.name)})
        elif is_dataclass(mine):
            for inner, kind, changed in changes(mine, here):
                yield inner, kind, replace(value, **{entry.name: changed})
        else:
            yield here, type(value), replace(value, **{entry.name: mine[:-1]})
            for index, one in enumerate(mine):
                for inner, kind, changed in changes(one, f"{here}[{index}]"):
                    yield inner, kind, replace(value, **{entry.name: (*mine[:index], changed, *mine[index + 1 :])})


ALL_CHANGES = tuple(changes(FULL))


def test_the_example_reaches_every_field_of_every_class() -> None:
    """Every dataclass field of what a turn is made of is changed by this test, new ones too."""
    reached = {(kind, path.rpartition(".")[2].partition("[")[0]) for path, kind, _ in ALL_CHANGES}
    assert {(kind, entry.name) for kind in CLASSES for entry in fields(kind)} == reached


@pytest.mark.parametrize(("path", "changed"), [(path, changed) for path, _, changed in ALL_CHANGES])
def test_R79_fingerprint_covers_all_summarised_fields(path: str, changed: Turn) -> None:
    """Each single change gives another fingerprint."""
    assert fingerprint((FULL,)) != fingerprint((changed,)), path


def test_order_of_messages_and_turns_is_in_the_fingerprint() -> None:
    """Two messages that change places, and two turns that change sequences, are another source."""
    first, second = turn(1), turn(2)
    swapped = replace(first, messages=(
        replace(first.messages[0], sequence=11), replace(first.messages[1], sequence=10),
    ))  # fmt: skip
    assert fingerprint((first, second)) != fingerprint((swapped, second))
    assert fingerprint((first, second)) != fingerprint((replace(first, sequence=20), replace(second, sequence=10)))


def test_an_edit_back_to_the_same_words_is_seen() -> None:
    """The version counts, so a text that was changed and changed back is no longer the one that was read."""
    assert fingerprint((turn(1),)) != fingerprint((with_message(turn(1), 0, version=3),))


def test_R80_fingerprint_canonical_serialisation() -> None:
    """The digest is that of plain JSON without spaces in field order, chained over turns; worked out here by hand."""
    simple = Turn("t1", 10, "completed", (Message("user", id="u1", text="Hé.", sequence=10),))
    body = {
        "id": "t1", "sequence": 10, "state": "completed",
        "messages": [{"role": "user", "id": "u1", "text": "Hé.", "accepted": True, "sequence": 10, "version": 1}],
    }  # fmt: skip
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    chained = hashlib.sha256(hashlib.sha256(b"fp1").digest() + hashlib.sha256(text).digest())
    assert chained.hexdigest() == fingerprint((simple,))


def test_fields_cannot_run_into_each_other() -> None:
    """A letter that moves over the border of two fields or two messages makes another fingerprint."""
    split = (with_message(with_message(turn(1), 0, text="ab"), 1, text="c"),)
    moved = (with_message(with_message(turn(1), 0, text="a"), 1, text="bc"),)
    assert fingerprint(split) != fingerprint(moved)
    two = replace(turn(1), must_preserve=(MustPreserve("C1", "a"), MustPreserve("C2", "b")))
    one = replace(turn(1), must_preserve=(MustPreserve("C1", "aC2b"),))
    assert fingerprint((two,)) != fingerprint((one,))


@given(conversations(), st.randoms(use_true_random=False))
def test_R81_fingerprint_reproducible(turns: tuple[Turn, ...], chance: random.Random) -> None:
    """X8: any order of turns and of the messages in them gives the same fingerprint, run after run."""
    shuffled = list(turns)
    chance.shuffle(shuffled)
    mixed = []
    for entry in shuffled:
        messages = list(entry.messages)
        chance.shuffle(messages)
        mixed.append(replace(entry, messages=tuple(messages)))
    assert fingerprint(turns) == fingerprint(mixed)
    assert protected_fingerprint(turns) == protected_fingerprint(mixed)


def test_a10_release_same_input_same_fingerprint() -> None:
    """The fingerprint of a fixed conversation is written down: another process or platform must find it too."""
    assert "7a3289fd2ad39ddf4a302c739396202c7987bd303b0fb40a9f6742cd4ad2ae2b" == fingerprint((FULL, turn(2)))


@given(conversations(), st.data())
def test_R82_incremental_fingerprint_equals_full(turns: tuple[Turn, ...], data: st.DataObject) -> None:
    """A chain that takes turn after turn has the full fingerprint at every step."""
    chain = SourceChain()
    for count, entry in enumerate(turns, 1):
        chain.add(entry)
        assert fingerprint(turns[:count]) == chain.value()


def test_R83_fingerprint_is_not_authentication() -> None:
    """No key goes in: whoever can write the ledger computes a matching fingerprint, and the module says so."""
    from planner.values import fingerprint as module

    assert "no authentication" in (module.__doc__ or "")
    forged = with_message(turn(1), 0, text="Forged.")
    assert fingerprint((forged,)) == fingerprint((with_message(turn(1), 0, text="Forged."),))


def test_the_protected_set_is_compared_by_message_and_reason() -> None:
    """X10: another message, another reason and no protection at all are three other sets; words do not matter."""
    base = protected_fingerprint((protected(turn(1)), turn(2)))
    assert base != protected_fingerprint((turn(1), turn(2)))
    assert base != protected_fingerprint((turn(1), protected(turn(2))))
    assert base != protected_fingerprint((protected(turn(1), "audit-evidence"), turn(2)))
    assert base == protected_fingerprint((with_message(protected(turn(1)), 1, text="Other."), turn(2)))
