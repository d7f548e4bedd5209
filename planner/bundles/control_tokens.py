"""Which tokens of a bundle are control tokens, and whether text may be cut at them (design.md §4.4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from planner.bundles.loaded import AddedText, Loaded
from planner.values.bundle import ControlToken, EncodeMode, Manifest
from planner.values.reasons import PlannerFault

_SHAPED = re.compile(r"<\|[^\s|]+\|>|<｜[^\s｜]+｜>")
_SPACES = "▁"


def choose_control_tokens(
    loaded: Loaded, named_tokens: Mapping[str, str], template_texts: Iterable[str]
) -> tuple[ControlToken, ...]:
    """Return a folder's control tokens in the order of their ids.

    Those flagged special, save the unknown token where ordinary text may become it; bos, eos and pad of the
    configuration; added tokens that are not whitespace alone and stand in what the template writes; added
    tokens shaped `<|..|>` or `<｜..｜>`. Other added tokens are text. A template may put a control token
    together from pieces, so `template_texts` should hold stretches of renders beside the literals.
    """
    written = "\x00".join(template_texts)
    chosen = {
        token.text: token.control()
        for token in loaded.added
        if token.text and (token.special or _is_shaped(token.text) or _is_written(token.text, written))
    }
    for name in ("bos_token", "eos_token", "pad_token"):
        text = named_tokens.get(name)
        index = None if text is None else loaded.lookup(text)
        if text is not None and index is not None and text not in chosen:
            chosen[text] = _control_of(loaded, text, index)
    if loaded.unknown is not None:
        chosen.pop(loaded.unknown, None)
    return tuple(sorted(chosen.values(), key=lambda token: token.id))


def check_control_tokens(loaded: Loaded, manifest: Manifest) -> None:
    """Compare a manifest's control tokens with the tokenizer.

    Raises bundle_mismatch where one has another id or other flags, or one flagged special is not named:
    content could then become a control id.
    """
    named = {token.text: token for token in manifest.control_tokens}
    for position, token in enumerate(manifest.control_tokens):
        index = loaded.lookup(token.text)
        if index is None or _control_of(loaded, token.text, index) != token:
            raise PlannerFault("bundle_mismatch", f"$.controlTokens[{position}] differs from the tokenizer")
    named.setdefault(loaded.unknown or "", ControlToken("", 0))
    unnamed = [token for token in loaded.added if token.special and token.text not in named]
    if unnamed:
        raise PlannerFault("bundle_mismatch", f"{len(unnamed)} special tokens are missing from $.controlTokens")


def _control_of(loaded: Loaded, text: str, index: int) -> ControlToken:
    for token in loaded.added:
        if token.text == text:
            return token.control()
    return ControlToken(text, index)


def _is_shaped(text: str) -> bool:
    return _SHAPED.fullmatch(text) is not None


def _is_written(text: str, written: str) -> bool:
    return bool(text.strip().strip(_SPACES)) and text in written


def encode_mode(loaded: Loaded, controls: Collection[ControlToken]) -> EncodeMode:
    """Say whether a render may be encoded stretch by stretch between its control tokens.

    The conditions of facts-encoding.md §4: no control token needs a word border, none overlaps another
    added token, and the tokenizer treats every stretch alike. Otherwise the whole text must be encoded.
    """
    texts = {token.text for token in controls}
    inexact = any(token.single_word and token.text in texts for token in loaded.added)
    if inexact or not loaded.position_free or _any_overlap(texts, loaded.added):
        return "whole"
    return "runs"


def _any_overlap(controls: Collection[str], added: Iterable[AddedText]) -> bool:
    others = [token.text for token in added if token.text not in controls]
    return any(_overlap(control, other) for control in controls for other in others)


def _overlap(first: str, second: str) -> bool:
    """Tell whether two different tokens can claim the same characters of one text.

    Two control tokens may: both are found by the same rule, leftmost and longest, here and in the library.
    """
    if first in second or second in first:
        return True
    if not (second[0] in first[1:] and first[-1] in second) and not (first[0] in second[1:] and second[-1] in first):
        return False
    shorter = min(len(first), len(second))
    return any(first.endswith(second[:length]) or second.endswith(first[:length]) for length in range(1, shorter))
