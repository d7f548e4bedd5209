"""tokenizer.json through the `tokenizers` library: the Engine, with control tokens switched off in place.

Every guard token is flagged special on the loaded object and special tokens are then encoded as text, so no
content can become a control id; ids and vocabulary stay as they are (design.md §4.4).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

from planner.bundles.foreign import guarded
from planner.bundles.loaded import Loaded
from planner.bundles.tokenizer_traits import composes, describe
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault


def load_tokenizer(data: bytes) -> Tokenizer:
    """Parse tokenizer.json bytes. Raises tokenizer_failed."""
    return guarded(lambda: Tokenizer.from_buffer(data), "tokenizer.json did not load")


def switch_off_cuts(tokenizer: Tokenizer) -> None:
    """Switch saved truncation and padding off and make sure of it: a prompt would be cut silently."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        raise PlannerFault("tokenizer_failed", "truncation or padding could not be switched off")


class TokenizersEncoded:
    """One encoded stretch; offsets are asked for only where a border is measured."""

    __slots__ = ("_characters", "_composes", "_encoding", "_ids", "_ranges")

    def __init__(self, encoding: Any, characters: int, composes: bool) -> None:
        """Keep the library's encoding of a text of so many characters."""
        self._encoding = encoding
        self._characters = characters
        self._composes = composes
        self._ids: list[int] | None = None
        self._ranges: list[tuple[int, int]] | None = None

    @property
    def ids(self) -> list[int]:
        """Token ids in order."""
        if self._ids is None:
            self._ids = self._encoding.ids
        return self._ids

    def token_at(self, char: int) -> tuple[int, int]:
        """Return (index, start) of the first token that reaches beyond `char` (see the Encoded port)."""
        if char >= self._characters:
            return len(self.ids), char
        index = self._encoding.char_to_token(char)
        if index is None:
            return self._after_vanished(char)
        start, _ = self._encoding.token_to_chars(index)
        return index, start

    def _after_vanished(self, char: int) -> tuple[int, int]:
        # The normalizer removed this character or composed it into the one before.
        if self._ranges is None:
            self._ranges = self._encoding.offsets
        ranges = self._ranges
        index = next((i for i, (_, stop) in enumerate(ranges) if stop > char), len(ranges))
        if self._composes and index > 0:
            # A composed token straddles: its characters stand on both sides of the border.
            stop = ranges[index - 1][1]
            first = next(i for i, (_, other) in enumerate(ranges) if other >= stop)
            return first, ranges[first][0]
        return (index, ranges[index][0]) if index < len(ranges) else (index, char)


class TokenizersEngine:
    """The Engine port over `tokenizers`; safe to share between threads once made."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        control_tokens: Sequence[ControlToken],
        reload: Callable[[], Tokenizer],
    ) -> None:
        """Take over a freshly loaded tokenizer and switch its control tokens off.

        reload  gives the file's tokenizer again, untouched, for `encode_parsed`.
        Raises  bundle_mismatch where a control token has another id in the file.
        """
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self._tokenizer = tokenizer
        self._reload = reload
        self._control_ids = frozenset(token.id for token in control_tokens)
        self._composes = composes(tokenizer)
        self.decodes = tokenizer.decoder is not None
        self._parsing: Tokenizer | None = None
        self._untrimmed = False
        self._lock = threading.Lock()
        switch_off_cuts(tokenizer)
        # Without added ids a post-processor only trims offsets, and a trimmed one hides a straddling space.
        tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
        self._flag(control_tokens)

    @classmethod
    def from_bytes(cls, data: bytes, control_tokens: Sequence[ControlToken] = ()) -> TokenizersEngine:
        """Load tokenizer.json bytes; without names the control tokens are those flagged special."""
        tokenizer = load_tokenizer(data)
        chosen = tuple(control_tokens) or tuple(
            ControlToken(token.content, index, token.lstrip, token.rstrip)
            for index, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        )
        return cls(tokenizer, chosen, lambda: load_tokenizer(data))

    def _flag(self, control_tokens: Sequence[ControlToken]) -> None:
        tokenizer = self._tokenizer
        added = tokenizer.get_added_tokens_decoder()
        flags = []
        for token in control_tokens:
            if tokenizer.token_to_id(token.text) != token.id:
                raise PlannerFault("bundle_mismatch", f"control token {token.id} has another id in the file")
            old = added.get(token.id)
            if old is None or not old.special:
                flags.append(_special_twin(token.text, old))
        if flags:
            guarded(lambda: tokenizer.add_special_tokens(flags), "control tokens could not be flagged")
        unchanged = tokenizer.get_vocab_size(with_added_tokens=True) == self.vocab_size
        if not unchanged or any(tokenizer.token_to_id(token.text) != token.id for token in control_tokens):
            raise PlannerFault("tokenizer_failed", "flagging the control tokens changed an id")
        tokenizer.encode_special_tokens = True

    def encode(self, text: str) -> TokenizersEncoded:
        """Encode one stretch as ordinary text. Raises tokenizer_failed."""
        return TokenizersEncoded(self._encode(self._tokenizer, text), len(text), self._composes)

    def encode_ids(self, text: str) -> list[int]:
        """Return the ids alone."""
        ids: list[int] = self._encode(self._tokenizer, text).ids
        return ids

    def encode_parsed(self, text: str) -> list[int]:
        """Encode as the untouched file does, control strings parsed; loads it a second time at first use."""
        ids: list[int] = self._encode(self._untouched(), text).ids
        return ids

    def encode_parsed_spans(self, text: str) -> TokenizersEncoded:
        """Encode as `encode_parsed`, with borders that no saved post-processor has trimmed."""
        encoding = self._encode(self._untouched(untrimmed=True), text)
        return TokenizersEncoded(encoding, len(text), self._composes)

    def _untouched(self, *, untrimmed: bool = False) -> Tokenizer:
        with self._lock:
            if self._parsing is None:
                self._parsing = self._reload()
                switch_off_cuts(self._parsing)
            if untrimmed and not self._untrimmed:
                _keep_offsets(self._parsing)
                self._untrimmed = True
            return self._parsing

    def forget_oracle(self) -> None:
        """Let go of the untouched second tokenizer; it is loaded again where it is asked for."""
        with self._lock:
            self._parsing, self._untrimmed = None, False

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, stretch by stretch between control tokens, which are written out.

        A prefix space that the tokenizer puts before each stretch is taken away from each stretch again.
        """
        pieces: list[str] = []
        stretch: list[int] = []
        for index in ids:
            if index in self._control_ids:
                pieces.append(self._decode(stretch))
                pieces.append(self._tokenizer.id_to_token(index) or "")
                stretch = []
            else:
                stretch.append(index)
        pieces.append(self._decode(stretch))
        return "".join(pieces)

    def _decode(self, ids: list[int]) -> str:
        if not ids:
            return ""
        return guarded(lambda: self._tokenizer.decode(ids, skip_special_tokens=False), "ids could not be decoded")

    @staticmethod
    def _encode(tokenizer: Tokenizer, text: str) -> Any:
        return guarded(lambda: tokenizer.encode(text, add_special_tokens=False), "the tokenizer failed on a text")


def _keep_offsets(tokenizer: Tokenizer) -> None:
    # Without added ids a post-processor only trims offsets, and a trimmed one hides a straddling space.
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)


def _special_twin(text: str, old: AddedToken | None) -> AddedToken:
    if old is None:
        return AddedToken(text, special=True, normalized=False)
    return AddedToken(
        text,
        single_word=old.single_word,
        lstrip=old.lstrip,
        rstrip=old.rstrip,
        normalized=old.normalized,
        special=True,
    )


def load_tokenizer_json(data: bytes, reload: Callable[[], bytes], *, reviewed: bool = False) -> Loaded:
    """Load tokenizer.json and describe it; `reload` reads the same bytes again for the oracle's way.

    reviewed  a shipped manifest states the figures; the vocabulary is not walked again.

    Raises tokenizer_failed, bundle_unsafe.
    """
    tokenizer = load_tokenizer(data)
    described = describe(
        tokenizer,
        "tokenizer_json",
        lambda controls: TokenizersEngine(tokenizer, controls, lambda: load_tokenizer(reload())),
        reviewed=reviewed,
    )
    return replace(described, tokenizer_json=reload)
