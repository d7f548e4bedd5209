"""sentencepiece models: plain stretches by the library, control pieces by look-up (facts-bundles.md fact 1).

The library puts its prefix space before every stretch it is given; that is the rule `each_stretch`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import sentencepiece

from planner.bundles.charsmap import charsmap_of, growth
from planner.bundles.foreign import guarded
from planner.bundles.loaded import AddedText, Loaded, check_sizes
from planner.bundles.protobuf import Damaged
from planner.bundles.spm_proto import (
    BYTE,
    CONTROL,
    UNKNOWN,
    USER_DEFINED,
    ModelFacts,
    read_model,
    read_offsets,
)
from planner.bundles.stretches import ControlSplitter, RangedEncoded, characters_of_bytes
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault


def _processor(data: bytes) -> Any:
    return guarded(
        lambda: sentencepiece.SentencePieceProcessor(model_proto=data), "the sentencepiece model did not load"
    )


class SentencePieceEngine:
    """The Engine port over a sentencepiece model; safe to share between threads."""

    def __init__(self, data: bytes, facts: ModelFacts, control_tokens: Sequence[ControlToken]) -> None:
        """Load the model with the user-defined pieces among the control tokens made control pieces."""
        self.vocab_size = len(facts.pieces)
        self._data = data
        self._native = _processor(_switched(data, facts, control_tokens))
        self._controls = ControlSplitter({token.text: token.id for token in control_tokens})
        # The oracle's way: what the file calls control is split, user-defined pieces are the library's.
        self._file_controls = ControlSplitter(
            {piece.text: index for index, piece in enumerate(facts.pieces) if piece.type == CONTROL}
        )
        self._parsing: Any = None
        self._lock = threading.Lock()

    def encode(self, text: str) -> RangedEncoded:
        """Encode one stretch as ordinary text. Raises tokenizer_failed."""
        return RangedEncoded(self.encode_ids(text), len(text), partial(self._ranges, text, self._native))

    def encode_ids(self, text: str) -> list[int]:
        """Return the ids alone."""
        return self._encode(self._native, text)

    def encode_parsed(self, text: str) -> list[int]:
        """Encode with the file's control pieces split out of the text, its user-defined pieces matched."""
        native = self._untouched()
        return self._file_controls.encode(text, lambda stretch: self._encode(native, stretch))

    def encode_parsed_spans(self, text: str) -> RangedEncoded:
        """Encode as `encode_parsed`, with borders."""
        native = self._untouched()

        def stretch(piece: str) -> tuple[list[int], list[int], list[int]]:
            return self._encode(native, piece), *self._ranges(piece, native)

        return self._file_controls.encode_ranges(text, stretch)

    def _untouched(self) -> Any:
        with self._lock:
            if self._parsing is None:
                self._parsing = _processor(self._data)
            return self._parsing

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, stretch by stretch between control tokens, which are written out."""
        return self._controls.decode(
            ids,
            lambda stretch: str(guarded(lambda: self._native.decode(stretch), "ids could not be decoded")),
        )

    @staticmethod
    def _encode(native: Any, text: str) -> list[int]:
        ids: list[int] = guarded(lambda: native.encode(text, out_type=int), "the tokenizer failed on a text")
        return ids

    @staticmethod
    def _ranges(text: str, native: Any) -> tuple[list[int], list[int]]:
        # The serialized form needs no protobuf package and is the same in every version of the library.
        data: bytes = guarded(
            lambda: native.encode(text, out_type="serialized_proto"), "the tokenizer failed on a text"
        )
        pairs = read_offsets(data)
        begins = characters_of_bytes(text, [begin for begin, _ in pairs])
        return begins, characters_of_bytes(text, [end for _, end in pairs])


def _switched(data: bytes, facts: ModelFacts, control_tokens: Sequence[ControlToken]) -> bytes:
    # One byte per piece: a user-defined piece is matched in any text, a control piece in none.
    changed = bytearray(data)
    for token in control_tokens:
        piece = facts.pieces[token.id]
        if piece.type == USER_DEFINED and piece.type_at is not None:
            changed[piece.type_at] = CONTROL
    return bytes(changed)


def load_sentencepiece(data: bytes, name: str) -> Loaded:
    """Load a sentencepiece model and describe it. Raises bundle_unsafe, tokenizer_failed."""
    facts = read_model(data)
    native = _processor(data)
    if native.get_piece_size() != len(facts.pieces):
        raise PlannerFault("bundle_unsafe", f"{name} was read differently by two readers")
    by_text = {piece.text: index for index, piece in enumerate(facts.pieces)}
    if len(by_text) != len(facts.pieces):
        raise PlannerFault("bundle_unsafe", f"{name} holds a piece twice")
    added = tuple(
        AddedText(piece.text, index, special=piece.type == CONTROL)
        for index, piece in enumerate(facts.pieces)
        if piece.type in (CONTROL, USER_DEFINED)
    )
    longest = max(len(piece.text.encode()) for piece in facts.pieces)
    check_sizes(len(facts.pieces), len(added), longest)
    named = {"bos_token": native.bos_id(), "eos_token": native.eos_id(), "pad_token": native.pad_id()}
    named["unk_token"] = native.unk_id()
    return Loaded(
        tokenizer_format="sentencepiece",
        vocabulary_size=len(facts.pieces),
        added=added,
        lookup=by_text.get,
        make_engine=lambda controls: SentencePieceEngine(data, facts, controls),
        prefix_space=_prefix_rule(facts),
        longest_token_bytes=longest if _bounded(facts) else None,
        variables={key: facts.pieces[index].text for key, index in named.items() if index >= 0},
        warnings=_lossy(facts),
        forms=("space_mark", "charsmap") if facts.normalizer_rules else ("space_mark",),
        growth=partial(_growth, data) if facts.normalizer_rules else None,
    )


def _growth(data: bytes) -> int:
    try:
        return growth(charsmap_of(data))
    except Damaged:
        raise PlannerFault("bundle_unsafe", "the normaliser's rules are damaged") from None


def _prefix_rule(facts: ModelFacts) -> str | None:
    if not facts.adds_prefix:
        return None
    return "suffix_each_stretch" if facts.prefix_is_suffix else "each_stretch"


def _bounded(facts: ModelFacts) -> bool:
    """Tell whether each token stands for at most its own bytes of input."""
    all_bytes = sum(piece.type == BYTE for piece in facts.pieces) == 256
    return facts.byte_fallback and all_bytes and not facts.normalizer_rules and not facts.removes_spaces


def _lossy(facts: ModelFacts) -> tuple[str, ...]:
    unknown = any(piece.type == UNKNOWN for piece in facts.pieces)
    if unknown and not facts.byte_fallback:
        return ("the tokenizer has no byte fallback: letters it does not know are lost",)
    return ()
