"""What a summary was made from, as digests: any change of a covered field gives another one (R79..R82, X8..X10).

A fingerprint finds changes. It is no authentication: whoever can write the ledger can write a matching one (R83).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from planner.values.digest import canonical, digest, turn_digest
from planner.values.turn import Message, Turn

FINGERPRINT_VERSION = "fp1"


def source_messages(turn: Turn) -> tuple[Message, ...]:
    """Return what of a turn is summarised: its accepted messages, each with its sequence, in that order (X63)."""
    placed = (
        replace(message, sequence=turn.sequence_of(index))
        for index, message in enumerate(turn.messages)
        if message.accepted
    )
    return tuple(sorted(placed, key=lambda message: message.sequence or 0))


class SourceChain:
    """The fingerprint of a run, one turn after the other; equals `fingerprint` of the same turns (R82)."""

    def __init__(self) -> None:
        """Start with no turn."""
        self._value = hashlib.sha256(FINGERPRINT_VERSION.encode()).digest()

    def add(self, turn: Turn) -> None:
        """Take the next turn by sequence."""
        shown = replace(turn, messages=source_messages(turn))
        self._value = hashlib.sha256(self._value + turn_digest(shown)).digest()

    def value(self) -> str:
        """Return the fingerprint so far, in hex."""
        return self._value.hex()


def fingerprint(turns: Iterable[Turn]) -> str:
    """Return the digest over every field of the turns and of their accepted messages, whatever order they come in.

    Every field of `Turn` and `Message` is in it, the version and the protection too (X9).
    """
    chain = SourceChain()
    for turn in sorted(turns, key=lambda turn: turn.sequence):
        chain.add(turn)
    return chain.value()


def protected_fingerprint(turns: Iterable[Turn]) -> str:
    """Return the digest of which messages of these turns are protected and why (R119, X10)."""
    marked = [
        (turn.sequence_of(index), message.id, message.protection_reason)
        for turn in turns
        for index, message in enumerate(turn.messages)
        if message.protection_reason is not None
    ]
    return digest(canonical(sorted(marked, key=lambda entry: entry[0])))
