"""Ids by kitoken, several times faster than `tokenizers`; decoding and the oracle's way by the exact engine.

It is never the only engine: it is made for a bundle whose exact engine it was compared with (fast_admission.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import kitoken

from planner.bundles.foreign import guarded
from planner.bundles.stretches import ByteEncoded
from planner.values.bundle import ControlToken, Encoded, Engine
from planner.values.reasons import PlannerFault

_NFC = [{"Unicode": {"scheme": "NFC"}}]
# The splitting rule of a byte-level tokenizer that states none of its own, and what kitoken takes for it.
_BYTE_LEVEL = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_BYTE_LEVEL_TAKEN = r"'(?:[sdmt]|ll|ve|re)|\s?\p{L}+|\s?\p{N}+|\s?[^\s\p{L}\p{N}]+"


def pack(tokenizer_json: bytes, control_tokens: Sequence[ControlToken]) -> tuple[bytes, bool]:
    """Return kitoken's own form of a tokenizer without its control tokens, and whether text must be composed first.

    A control string is then ordinary text. NFC is left to the exact library's tables, which are older than
    kitoken's (facts-encoding.md §6). Raises engine_not_admitted where kitoken cannot take the file.
    """
    try:
        native = guarded(lambda: kitoken.Kitoken.from_tokenizers(tokenizer_json), "")
        definition: dict[str, Any] = native.definition()
        controls = {token.text.encode() for token in control_tokens}
        # The unknown token stands for what nothing else does, so it stays; it is no more looked for in text.
        kept = [
            one for one in definition["specials"] if one["kind"] == "Unknown" or bytes(one["bytes"]) not in controls
        ]
        for one in kept:
            one["extract"] = one["extract"] and bytes(one["bytes"]) not in controls
        definition["specials"] = kept
        config = definition["config"]
        composes: bool = config["normalization"] == _NFC
        if composes:
            config["normalization"] = []
        for rule in config["split"]:
            pattern = rule.get("Pattern", {}).get("pattern", {})
            if pattern.get("Regex") == _BYTE_LEVEL_TAKEN:
                pattern["Regex"] = _BYTE_LEVEL
        guarded(lambda: native.set_definition(definition), "")
        return bytes(guarded(native.to_bytes, "")), composes
    except (PlannerFault, KeyError, TypeError):
        raise PlannerFault("engine_not_admitted", "the fast engine cannot take the tokenizer file") from None


class FastEngine:
    """The Engine port: plain stretches by kitoken, all else by the exact engine, loaded where it is asked for."""

    def __init__(
        self,
        packed: bytes,
        vocab_size: int,
        exact: Callable[[], Engine],
        *,
        composes: bool = False,
        found_first: Collection[str] = (),
    ) -> None:
        """Take kitoken's form of the tokenizer.

        composes     text is composed (NFC) before it is encoded
        found_first  added tokens of ordinary text that the exact library finds by rules of its own; text that
                     holds one goes to the exact engine
        Raises engine_not_admitted where the form does not load.
        """
        self.vocab_size = vocab_size
        self.decodes = True
        self._exact = exact
        self._composes = composes
        found = "|".join(map(re.escape, sorted(filter(None, found_first))))
        self._found_first = re.compile(found) if found else None
        self._pieces: dict[int, bytes] = {}
        try:
            self._native = guarded(lambda: kitoken.Kitoken(packed), "")
        except PlannerFault:
            raise PlannerFault("engine_not_admitted", "the fast engine's form of the tokenizer does not load") from None

    def encode(self, text: str) -> Encoded:
        """Encode one stretch as ordinary text. Raises tokenizer_failed."""
        return _Bordered(self.encode_ids(text), text, self._pieces_of, self._exact)

    def encode_ids(self, text: str) -> list[int]:
        """Return the ids alone."""
        plain = text
        if self._composes and not text.isascii():
            from tokenizers import normalizers

            plain = guarded(lambda: normalizers.NFC().normalize_str(text), "the tokenizer failed on a text")
        if self._found_first is not None and self._found_first.search(text):
            return list(self._exact().encode(text).ids)
        ids: list[int] = guarded(lambda: self._native.encode(plain), "the tokenizer failed on a text")
        return ids

    def _pieces_of(self, ids: Sequence[int]) -> list[bytes]:
        try:
            return list(map(self._pieces.__getitem__, ids))
        except KeyError:
            return list(map(self._piece, ids))

    def _piece(self, index: int) -> bytes:
        known = self._pieces.get(index)
        if known is None:
            known = self._pieces[index] = bytes(guarded(lambda: self._native.decode([index]), "an id has no text"))
        return known

    def entries(self) -> Iterator[str]:
        """Yield the text of every entry of the vocabulary that is a text by itself."""
        for index in range(self.vocab_size):
            with suppress(PlannerFault, UnicodeDecodeError):
                yield self._piece(index).decode("utf-8")

    def encode_parsed(self, text: str) -> Sequence[int]:
        """Encode as the tokenizer file does on its own, by the exact engine."""
        return self._exact().encode_parsed(text)

    def encode_parsed_spans(self, text: str) -> Encoded:
        """Encode as `encode_parsed`, with borders."""
        return self._exact().encode_parsed_spans(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, by the exact engine."""
        return self._exact().decode(ids)

    def forget_oracle(self) -> None:
        """Let the exact engine go of its second tokenizer."""
        forget = getattr(self._exact(), "forget_oracle", None)
        if forget is not None:
            forget()


class _Bordered:
    """One encoded stretch. Where the tokens' own bytes are the text, they give the borders; else the exact engine."""

    __slots__ = ("_encoded", "_exact", "_pieces_of", "_text", "ids")

    def __init__(
        self,
        ids: list[int],
        text: str,
        pieces_of: Callable[[Sequence[int]], list[bytes]],
        exact: Callable[[], Engine],
    ) -> None:
        self.ids = ids
        self._text = text
        self._pieces_of = pieces_of
        self._exact = exact
        self._encoded: Encoded | None = None

    def token_at(self, char: int) -> tuple[int, int]:
        """Return (index, start) of the first token that reaches beyond `char` (see the Encoded port)."""
        if self._encoded is None:
            self._encoded = self._measured()
        return self._encoded.token_at(char)

    def _measured(self) -> Encoded:
        pieces = self._pieces_of(self.ids)
        if b"".join(pieces) == self._text.encode():
            return ByteEncoded(self.ids, self._text, lambda: map(len, pieces))
        exact = self._exact().encode(self._text)
        if list(exact.ids) != self.ids:
            raise PlannerFault("engine_not_admitted", "the fast engine gave other ids for a text of this call")
        return exact
