"""GGUF tokenizer model `llama`: scores, through sentencepiece, which is given the same pieces as a model.

Whole tokens are cut out first, longest first; the runtime then puts a space before each stretch between two of
them, unless the file says no, and that is what the library does with each text it is given.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import sentencepiece

from planner.bundles.foreign import guarded
from planner.bundles.gguf_vocab import BYTE, CONTROL, NORMAL, UNKNOWN, GgufVocabulary
from planner.bundles.loaded import Loaded, check_sizes
from planner.bundles.spm_proto import read_offsets
from planner.bundles.stretches import ControlSplitter, RangedEncoded, characters_of_bytes
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault

_BPE = 2
_IDENTITY = b"identity"


def write_model(vocabulary: GgufVocabulary, controls: Collection[int] = ()) -> bytes:
    """Return a sentencepiece model of the same pieces and scores; no piece of `controls` comes out of text.

    Control tokens are control pieces in it, which no text becomes; user-defined ones are cut out of the text
    before it sees one, and may still arise from merges, as in the runtime.
    """
    out = bytearray()
    for index, (text, kind) in enumerate(zip(vocabulary.texts, vocabulary.kinds, strict=True)):
        if index == vocabulary.unknown_id:
            kind_here = UNKNOWN
        elif kind == BYTE:
            kind_here = BYTE
        else:
            kind_here = CONTROL if kind in (UNKNOWN, CONTROL) or index in controls else NORMAL
        piece = _bytes(1, text.encode()) + b"\x15" + struct.pack("<f", vocabulary.scores[index])
        out += _bytes(1, piece + _number(3, kind_here))
    trainer = _number(3, _BPE) + _number(4, len(vocabulary.texts)) + _number(35, 1)
    trainer += _number(40, vocabulary.unknown_id or 0)
    # Absent begin, end and padding ids; a negative number is written as ten bytes.
    trainer += b"".join(_number(field, (1 << 64) - 1) for field in (41, 42, 43))
    normalizer = _bytes(1, _IDENTITY) + _number(3, int(vocabulary.space_prefix)) + _number(4, 0) + _number(5, 1)
    return bytes(out + _bytes(2, trainer) + _bytes(3, normalizer))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class GgufSpmEngine:
    """The Engine port over scores; safe to share between threads."""

    def __init__(self, vocabulary: GgufVocabulary, control_tokens: Sequence[ControlToken]) -> None:
        """Build the model with the control tokens switched off. Raises tokenizer_failed."""
        self.vocab_size = len(vocabulary.texts)
        data = write_model(vocabulary, {token.id for token in control_tokens})
        self._native = guarded(
            lambda: sentencepiece.SentencePieceProcessor(model_proto=data), "GGUF: the scores make no tokenizer"
        )
        if self._native.get_piece_size() != self.vocab_size:
            raise PlannerFault("tokenizer_failed", "GGUF: the scores make another vocabulary")
        off = {token.text for token in control_tokens}
        added = vocabulary.added()
        swallowing = frozenset(token.text for token in added if token.rstrip)
        matched = {token.text: token.id for token in added}
        self._texts = ControlSplitter({text: index for text, index in matched.items() if text not in off}, swallowing)
        self._parsed = ControlSplitter(matched, swallowing)
        # Pieces with a written-out space are the library's to decode, as those that arise from merges.
        written = {token.text: token.id for token in added if token.special or "▁" not in token.text}
        self._written = ControlSplitter(written | {token.text: token.id for token in control_tokens})

    def encode(self, text: str) -> RangedEncoded:
        """Encode one stretch as ordinary text. Raises tokenizer_failed."""
        if not self._texts.cuts(text):
            return RangedEncoded(self._encode(text), len(text), partial(self._ranges, text))
        return self._texts.encode_ranges(text, self._stretch)

    def encode_ids(self, text: str) -> list[int]:
        """Return the ids alone."""
        return self._texts.encode(text, self._encode)

    def encode_parsed(self, text: str) -> list[int]:
        """Encode as the file does, its control tokens matched."""
        return self._parsed.encode(text, self._encode)

    def encode_parsed_spans(self, text: str) -> RangedEncoded:
        """Encode as `encode_parsed`, with borders."""
        return self._parsed.encode_ranges(text, self._stretch)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, stretch by stretch between whole tokens, which are written out."""
        return self._written.decode(
            ids, lambda stretch: str(guarded(lambda: self._native.decode(stretch), "ids could not be decoded"))
        )

    def _stretch(self, text: str) -> tuple[list[int], list[int], list[int]]:
        return self._encode(text), *self._ranges(text)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = guarded(lambda: self._native.encode(text, out_type=int), "the tokenizer failed on a text")
        return ids

    def _ranges(self, text: str) -> tuple[list[int], list[int]]:
        data: Any = guarded(
            lambda: self._native.encode(text, out_type="serialized_proto"), "the tokenizer failed on a text"
        )
        pairs = read_offsets(data)
        begins = characters_of_bytes(text, [begin for begin, _ in pairs])
        return begins, characters_of_bytes(text, [end for _, end in pairs])


def load_gguf_spm(vocabulary: GgufVocabulary) -> Loaded:
    """Describe the tokenizer of scores. Raises format_not_supported, bundle_unsafe, tokenizer_failed."""
    texts, kinds = vocabulary.texts, vocabulary.kinds
    if {texts[index] for index in _of_kind(kinds, BYTE)} != {f"<0x{byte:02X}>" for byte in range(256)}:
        raise PlannerFault("format_not_supported", "GGUF tokenizer model 'llama' without its 256 byte tokens")
    added = vocabulary.added()
    longest = max(len(text.encode()) for text in texts)
    check_sizes(len(texts), len(added), longest)
    lookup = {text: index for index, text in enumerate(texts)}
    return Loaded(
        tokenizer_format="gguf",
        vocabulary_size=len(texts),
        added=added,
        lookup=lookup.get,
        make_engine=lambda controls: GgufSpmEngine(vocabulary, controls),
        prefix_space="each_stretch" if vocabulary.space_prefix else None,
        longest_token_bytes=None if any(token.rstrip for token in added) else longest,
        variables=vocabulary.variables,
        forms=("space_mark",),
    )


def _of_kind(kinds: Iterable[int], wanted: int) -> Iterator[int]:
    return (index for index, kind in enumerate(kinds) if kind == wanted)
