"""GGUF tokenizer models `gpt2` and `gemma4`: merges, through the `tokenizers` library.

`gpt2` works on the byte alphabet after a splitting rule. `gemma4` works on the text itself: spaces are
written as U+2581, lines and runs of newlines apart, letters it lacks as their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from planner.bundles.foreign import guarded
from planner.bundles.gguf_vocab import GgufVocabulary
from planner.bundles.kept_tokenizer import Kept, KeptTokenizer
from planner.bundles.loaded import MAX_ADDED_TOKENS, AddedText, Loaded, check_sizes
from planner.bundles.tokenizer_json import TokenizersEngine
from planner.bundles.tokenizer_traits import describe


def load_gguf_bpe(
    vocabulary: GgufVocabulary, reload: Callable[[], GgufVocabulary], kept: KeptTokenizer | None = None
) -> Loaded:
    """Build the tokenizer and describe it; `reload` reads the vocabulary again for the oracle's way.

    kept  where the tokenizer built of this very header is kept between processes

    Raises bundle_unsafe, tokenizer_failed.
    """
    found = None if kept is None else kept.read()
    merges: list[tuple[str, str]] = []
    if found is None:
        check_sizes(len(vocabulary.texts), len(vocabulary.added()), 0)
        merges = list(_merges(vocabulary))
    tokenizer = build_bpe(vocabulary, merges) if found is None else found.tokenizer
    loaded = describe(
        tokenizer,
        "gguf",
        lambda controls: TokenizersEngine(tokenizer, controls, lambda: _again(kept, reload)),
        reviewed=found is not None,
    )
    if found is None:
        dropped = len(vocabulary.merges) - len(merges)
        warnings = (f"{dropped} merges name a piece that the vocabulary lacks, or stand there twice",) * bool(dropped)
        found = Kept(tokenizer, loaded.longest_token_bytes, warnings)
        if kept is not None:
            kept.keep(found, merges)
    return replace(
        loaded,
        variables=vocabulary.variables,
        warnings=found.warnings,
        longest_token_bytes=found.longest_token_bytes,
        tokenizer_json=lambda: _again(kept, reload).to_str().encode(),
    )


def _again(kept: KeptTokenizer | None, reload: Callable[[], GgufVocabulary]) -> Tokenizer:
    found = None if kept is None else kept.read()
    return build_bpe(reload()) if found is None else found.tokenizer


def build_bpe(vocabulary: GgufVocabulary, merges: list[tuple[str, str]] | None = None) -> Tokenizer:
    """Return the tokenizer as the file describes it, control tokens parsed. Raises tokenizer_failed."""
    splitting = vocabulary.splitting
    assert splitting is not None, "a model with merges has a splitting rule"
    chosen = list(_merges(vocabulary)) if merges is None else merges
    byte_level = vocabulary.model == "gpt2"
    ids = {text: index for index, text in enumerate(vocabulary.texts)}
    model = guarded(
        lambda: models.BPE(vocab=ids, merges=chosen, ignore_merges=splitting.whole_words, byte_fallback=not byte_level),
        "GGUF: vocabulary and merges do not belong together",
    )
    tokenizer = Tokenizer(model)
    splits = [pre_tokenizers.Split(Regex(rule), behavior="isolated") for rule in splitting.rules]
    if byte_level:
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, letters])
        tokenizer.decoder = decoders.ByteLevel()
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    _add(tokenizer, vocabulary.added())
    return tokenizer


def _add(tokenizer: Tokenizer, added: tuple[AddedText, ...]) -> None:
    check_sizes(0, min(len(added), MAX_ADDED_TOKENS + 1), 0)
    special = [AddedToken(one.text, rstrip=one.rstrip, normalized=False, special=True) for one in added if one.special]
    matched = [AddedToken(one.text, rstrip=one.rstrip, normalized=False) for one in added if not one.special]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(matched)


def _merges(vocabulary: GgufVocabulary) -> Iterator[tuple[str, str]]:
    known = frozenset(vocabulary.texts)
    seen: set[tuple[str, str]] = set()
    for merge in vocabulary.merges:
        # A piece may begin with a space, so the first byte never parts the two.
        first, _, second = merge[1:].partition(b" ")
        try:
            pair = (merge[:1] + first).decode("utf-8"), second.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if pair not in seen and pair[0] in known and pair[1] in known and "".join(pair) in known:
            seen.add(pair)
            yield pair
