"""What every tokenizer format tells about itself, before and after its control tokens are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.values.bundle import ControlToken, Engine, TokenizerFormat
from planner.values.reasons import PlannerFault

MIN_VOCABULARY = 512
MAX_VOCABULARY = 1 << 20
MAX_ADDED_TOKENS = 8_192
MAX_TOKEN_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class AddedText:
    """A token that the library matches in text as a whole: added to a file, or a user-defined piece.

    `special` is the library's own flag; `lstrip` and `rstrip` swallow whitespace beside it, `single_word`
    needs a word border, `normalized` matches after normalizing.
    """

    text: str
    id: int
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    def control(self) -> ControlToken:
        """Return it as a control token."""
        return ControlToken(self.text, self.id, lstrip=self.lstrip, rstrip=self.rstrip)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tokenizer read from its bytes; `make_engine` switches the chosen control tokens off and on.

    `lookup` gives the id of a token by its text. `prefix_space` names what the tokenizer puts before a
    stretch (None: nothing). `longest_token_bytes` None means that one token may cover unbounded text.
    `position_free` is false where a stretch is encoded differently at the start of the whole text.
    `tokenizer_json` gives the tokenizer as such a file again, None where another library runs it.
    `forms` name what is done to the bytes of a text before it is counted (`planner/bundles/bound.py`),
    `growth` gives the most bytes one byte may become where that is read from the file.
    `unknown` is the token that ordinary text may become, where letters can be unknown: never a control token.
    """

    tokenizer_format: TokenizerFormat
    vocabulary_size: int
    added: tuple[AddedText, ...]
    lookup: Callable[[str], int | None]
    make_engine: Callable[[Sequence[ControlToken]], Engine]
    prefix_space: str | None = None
    longest_token_bytes: int | None = None
    position_free: bool = True
    unknown: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    tokenizer_json: Callable[[], bytes] | None = None
    warnings: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    growth: Callable[[], int] | None = None


def check_sizes(vocabulary_size: int, added_tokens: int, longest_text_bytes: int) -> None:
    """Refuse a vocabulary outside the bounds of threats.md §2.6. Raises bundle_unsafe.

    The ceiling is checked here; the floor by `check_floor`, once other faults had their say.
    """
    if vocabulary_size > MAX_VOCABULARY:
        raise PlannerFault("bundle_unsafe", f"the vocabulary has more than {MAX_VOCABULARY} entries")
    if added_tokens > MAX_ADDED_TOKENS:
        raise PlannerFault("bundle_unsafe", f"the tokenizer has more than {MAX_ADDED_TOKENS} added tokens")
    if longest_text_bytes > MAX_TOKEN_BYTES:
        raise PlannerFault("bundle_unsafe", f"a token is longer than {MAX_TOKEN_BYTES} bytes")


def check_floor(loaded: Loaded) -> None:
    """Refuse a vocabulary too small to be a model's: a stub counts text as almost nothing.

    Raises bundle_unsafe; saved truncation or padding is named with it, since stubs carry both.
    """
    if loaded.vocabulary_size < MIN_VOCABULARY:
        saved = "".join(f"; {warning}" for warning in loaded.warnings)
        raise PlannerFault(
            "bundle_unsafe",
            f"a vocabulary of {loaded.vocabulary_size} entries is below the floor of {MIN_VOCABULARY}{saved}",
        )
