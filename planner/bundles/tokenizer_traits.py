"""What can be read off a loaded `tokenizers` object: bounds, prefix rule, longest token, splitting rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from planner.bundles.bound import forms_of
from planner.bundles.files import MAX_JSON_DEPTH, depth_of
from planner.bundles.loaded import AddedText, Loaded, check_sizes
from planner.bundles.patterns import check_components
from planner.values.bundle import ControlToken, Engine, TokenizerFormat
from planner.values.reasons import PlannerFault

# Components that neither drop characters nor let one token stand for text without bound.
_LENGTH_KEEPING = frozenset(
    {"Sequence", "Split", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Prepend", "Replace", "NFC"}
)


def describe(
    tokenizer: Tokenizer,
    tokenizer_format: TokenizerFormat,
    make_engine: Callable[[Sequence[ControlToken]], Engine],
    *,
    reviewed: bool = False,
) -> Loaded:
    """Check a loaded tokenizer's bounds and describe it; of a `reviewed` one the vocabulary is not walked.

    Raises bundle_unsafe: too many entries or added tokens, a token too long, ids that are not unique,
    merges left out at random (`dropout`), components nested too deeply, a normalizer that lengthens text
    beyond its bound; tokenizer_failed: a splitting rule that may never end.
    """
    added = tuple(
        AddedText(
            token.content,
            index,
            token.special,
            token.lstrip,
            token.rstrip,
            token.single_word,
            token.normalized,
        )
        for index, token in tokenizer.get_added_tokens_decoder().items()
    )
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    check_sizes(size, len(added), 0)
    vocabulary: dict[str, int] = {} if reviewed else tokenizer.get_vocab(with_added_tokens=False)
    longest = max(map(len, vocabulary), default=0)
    check_sizes(size, len(added), max([longest, *(len(token.text.encode()) for token in added)]))
    if len(set(vocabulary.values())) != len(vocabulary):
        raise PlannerFault("bundle_unsafe", "two entries of the vocabulary share an id")
    if getattr(tokenizer.model, "dropout", None):
        raise PlannerFault("bundle_unsafe", "the tokenizer leaves out merges at random")
    normalizer, pre_tokenizer = component(tokenizer.normalizer), component(tokenizer.pre_tokenizer)
    parts = [*walk(normalizer), *walk(pre_tokenizer)]
    check_components(parts)
    byte_level = any(part.get("type") == "ByteLevel" for part in parts)
    return Loaded(
        tokenizer_format=tokenizer_format,
        vocabulary_size=size,
        added=added,
        lookup=tokenizer.token_to_id,
        make_engine=make_engine,
        prefix_space=prefix_rule(parts),
        longest_token_bytes=_longest(tokenizer, vocabulary, added, parts, byte_level),
        position_free=not any(part.get("prepend_scheme") == "first" for part in parts),
        unknown=None if _covers_bytes(tokenizer) else getattr(tokenizer.model, "unk_token", None),
        warnings=saved_cuts(tokenizer),
        forms=forms_of(list(walk(normalizer)), list(walk(pre_tokenizer))),
    )


def component(part: Any) -> Any:
    """Return a component's own JSON, {} where there is none. Raises bundle_unsafe where it is too deep."""
    if part is None:
        return {}
    state = json.loads(bytes(part.__getstate__()))
    if depth_of(state) > MAX_JSON_DEPTH:
        raise PlannerFault("bundle_unsafe", "tokenizer.json is nested too deeply")
    return state


def walk(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a component and the components inside it, outermost first."""
    if not state:
        return
    yield state
    for key in ("normalizers", "pretokenizers"):
        for inner in state.get(key, ()):
            yield from walk(inner)


def composes(tokenizer: Tokenizer) -> bool:
    """Tell whether the normalizer joins letters and marks: a token may then span a border inside them."""
    return any(part.get("type") in ("NFC", "NFKC", "Precompiled") for part in walk(component(tokenizer.normalizer)))


def prefix_rule(parts: Iterable[Mapping[str, Any]]) -> str | None:
    """Name what the tokenizer puts before a stretch: None, or when it puts a space there.

    `each_stretch` always; `each_stretch_without_space` only where the stretch does not begin with one;
    `first_stretch` only at the start of the whole text.
    """
    for part in parts:
        if part.get("type") == "Prepend":
            return "each_stretch"
        if part.get("type") == "Metaspace":
            scheme = part.get("prepend_scheme", "always")
            if scheme != "never":
                return "first_stretch" if scheme == "first" else "each_stretch_without_space"
        if part.get("type") == "ByteLevel" and part.get("add_prefix_space"):
            return "each_stretch_without_space"
    return None


def saved_cuts(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Say which of saved truncation and padding the file carries."""
    found = [name for name, saved in (("truncation", tokenizer.truncation), ("padding", tokenizer.padding)) if saved]
    if not found:
        return ()
    return (f"tokenizer.json carries saved {' and '.join(found)}, switched off here",)


def _longest(
    tokenizer: Tokenizer,
    vocabulary: Mapping[str, int],
    added: Sequence[AddedText],
    parts: Sequence[Mapping[str, Any]],
    byte_level: bool,
) -> int | None:
    keeps_length = all(part.get("type") in _LENGTH_KEEPING and not _shortens(part) for part in parts)
    if not keeps_length or any(token.lstrip or token.rstrip for token in added):
        return None
    fallback = _covers_bytes(tokenizer) and all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))
    # A byte-level alphabet that is whole covers every text; without one an unknown token may be fused.
    whole_alphabet = byte_level and _has_alphabet(vocabulary)
    if not (fallback or whole_alphabet):
        return None
    joins = any(part.get("type") == "NFC" for part in parts)
    texts = [token.text for token in added]
    return max(
        _covered_bytes(vocabulary, joins, one_byte_letters=byte_level),
        _covered_bytes(texts, joins, one_byte_letters=False),
    )


def _covers_bytes(tokenizer: Tokenizer) -> bool:
    return bool(getattr(tokenizer.model, "byte_fallback", False))


def _shortens(part: Mapping[str, Any]) -> bool:
    if part.get("type") in ("Split", "Punctuation"):
        return str(part.get("behavior", "")).lower() == "removed"
    if part.get("type") == "Replace":
        pattern = part.get("pattern", {}).get("String")
        return pattern is None or len(part.get("content", "").encode()) < len(pattern.encode())
    return False


def _has_alphabet(vocabulary: Mapping[str, int]) -> bool:
    from tokenizers import pre_tokenizers

    return all(letter in vocabulary for letter in pre_tokenizers.ByteLevel.alphabet())


def _covered_bytes(tokens: Collection[str], joins: bool, *, one_byte_letters: bool) -> int:
    """Return the most bytes of input that one token may stand for.

    Composition (NFC) shortens text: at most fourfold for non-ASCII letters, and three signs outside ASCII
    become `K`, a grave accent or `;` (U+212A, U+1FEF, U+037E).
    """

    def size(token: str) -> int:
        return len(token) if one_byte_letters else len(token.encode("utf-8", "surrogatepass"))

    def weight(token: str) -> int:
        outside = sum(
            1 if one_byte_letters else len(letter.encode("utf-8", "surrogatepass"))
            for letter in token
            if _outside_ascii(letter, one_byte_letters)
        )
        return size(token) + 3 * outside + 2 * (token.count("K") + token.count("`")) + token.count(";")

    longest = max(map(size, tokens), default=0)
    if not joins:
        return longest
    return max((weight(token) for token in tokens if 4 * size(token) > longest), default=0)


def _outside_ascii(letter: str, one_byte_letter: bool) -> bool:
    # In the byte-level alphabet U+0100..U+0121 stand for the bytes 00..20 and 7F.
    return letter > "\x7f" and not (one_byte_letter and "\u0100" <= letter <= "\u0121")
