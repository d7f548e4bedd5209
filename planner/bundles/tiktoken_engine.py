"""Byte ranks through the `tiktoken` library: what tekken and tiktoken text files have in common."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from planner.bundles.foreign import guarded
from planner.bundles.loaded import MAX_TOKEN_BYTES
from planner.bundles.stretches import ByteEncoded, ControlSplitter, RangedEncoded, characters_of_bytes
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault


def rank_bytes(text: str | bytes, name: str) -> bytes:
    """Decode one rank's base64. Raises bundle_unsafe."""
    try:
        token = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PlannerFault("bundle_unsafe", f"{name} holds a token that is no base64") from None
    if not 0 < len(token) <= MAX_TOKEN_BYTES:
        raise PlannerFault("bundle_unsafe", f"{name} holds a token of 0 or more than {MAX_TOKEN_BYTES} bytes")
    return token


def check_ranks(ranks: Mapping[bytes, int], listed: int, name: str) -> None:
    """Refuse ranks that are not 0..n-1, each once, with every byte among them. Raises bundle_unsafe."""
    if len(ranks) != listed or set(ranks.values()) != set(range(listed)):
        raise PlannerFault("bundle_unsafe", f"{name} gives a rank twice or leaves one out")
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise PlannerFault("bundle_unsafe", f"{name} does not cover every byte")


class TiktokenEngine:
    """The Engine port over byte ranks; safe to share between threads.

    offset   added to every rank to give its id (tekken keeps the first ids for control tokens)
    added    every token matched as a whole, by text; those that are no control token stay matched in text
    """

    def __init__(
        self,
        ranks: Mapping[bytes, int],
        pattern: str,
        *,
        offset: int,
        added: Mapping[str, int],
        control_tokens: Sequence[ControlToken],
        file_controls: Mapping[str, int],
    ) -> None:
        """Build the encoder. Raises environment where tiktoken is absent, tokenizer_failed."""
        try:
            import tiktoken
        except ImportError:
            raise PlannerFault(
                "environment", "this format needs tiktoken; run: pip install 'context-planner[mistral]'"
            ) from None
        self.vocab_size = len(ranks) + len(added)
        self._offset = offset
        controls = {token.text: token.id for token in control_tokens}
        ordinary = {text: index - offset for text, index in added.items() if text not in controls}
        self._ordinary = frozenset(ordinary)
        self._encoding: Any = guarded(
            lambda: tiktoken.Encoding("bundle", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens=ordinary),
            "the ranks or the splitting rule did not load",
        )
        self._controls = ControlSplitter(controls)
        self._file_controls = ControlSplitter(file_controls)

    def encode(self, text: str) -> ByteEncoded:
        """Encode one stretch as ordinary text. Raises tokenizer_failed."""
        ids = self.encode_ids(text)
        return ByteEncoded(ids, text, partial(self._lengths, ids))

    def encode_ids(self, text: str) -> list[int]:
        """Return the ids alone."""
        ranks: list[int] = guarded(
            lambda: self._encoding.encode(text, allowed_special=self._ordinary, disallowed_special=()),
            "the tokenizer failed on a text",
        )
        return [rank + self._offset for rank in ranks] if self._offset else ranks

    def encode_parsed(self, text: str) -> list[int]:
        """Encode with the file's control tokens split out of the text and looked up."""
        return self._file_controls.encode(text, self.encode_ids)

    def encode_parsed_spans(self, text: str) -> RangedEncoded:
        """Encode as `encode_parsed`, with borders."""

        def stretch(piece: str) -> tuple[list[int], list[int], list[int]]:
            ids = self.encode_ids(piece)
            return ids, *self._ranges(piece, ids)

        return self._file_controls.encode_ranges(text, stretch)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens written out."""
        return self._controls.decode(ids, self._decode)

    def _decode(self, ids: list[int]) -> str:
        ranks = [index - self._offset for index in ids]
        return guarded(lambda: str(self._encoding.decode(ranks)), "ids could not be decoded")

    def _ranges(self, text: str, ids: list[int]) -> tuple[list[int], list[int]]:
        borders = [0, *accumulate(self._lengths(ids))]
        begins = characters_of_bytes(text, borders[:-1])
        return begins, characters_of_bytes(text, borders[1:], upward=True)

    def _lengths(self, ids: Sequence[int]) -> list[int]:
        return [len(self._encoding.decode_single_token_bytes(index - self._offset)) for index in ids]
