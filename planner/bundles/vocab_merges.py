"""vocab.json with merges.txt: the classes whose normalizer and splitting rule are known, and no other.

The two files hold neither rule, only the class named in tokenizer_config.json does (facts-bundles.md §3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from planner.bundles.files import MAX_TOKENIZER_BYTES, FolderFiles, parse_text
from planner.bundles.foreign import guarded
from planner.bundles.hf_config import CONFIG, FolderConfig, read_vocabulary, token_text
from planner.bundles.loaded import MAX_ADDED_TOKENS, Loaded
from planner.bundles.tokenizer_json import TokenizersEngine
from planner.bundles.tokenizer_traits import describe
from planner.values.reasons import PlannerFault

VOCABULARY, MERGES = "vocab.json", "merges.txt"
_QWEN2_CLASSES = frozenset({"Qwen2Tokenizer", "Qwen2TokenizerFast"})
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_vocab_merges(files: FolderFiles, config: FolderConfig) -> Loaded:
    """Build the tokenizer of a folder without tokenizer.json and describe it.

    Raises format_not_supported naming the class, bundle_incomplete, bundle_unsafe, bundle_mismatch,
    tokenizer_failed.
    """
    if config.tokenizer_class not in _QWEN2_CLASSES:
        name = f"{config.tokenizer_class[:60]!a}" if config.tokenizer_class else f"none (no {CONFIG} names one)"
        raise PlannerFault("format_not_supported", f"vocab.json with merges.txt of the tokenizer class {name}")

    def build() -> Tokenizer:
        vocabulary = read_vocabulary(files, VOCABULARY, MAX_TOKENIZER_BYTES)
        merges = read_merges(files.read(MERGES, MAX_TOKENIZER_BYTES))
        return _build(vocabulary, merges, config)

    tokenizer = build()
    described = describe(tokenizer, "vocab_merges", lambda controls: TokenizersEngine(tokenizer, controls, build))
    return replace(described, tokenizer_json=lambda: build().to_str().encode())


def read_merges(data: bytes) -> list[tuple[str, str]]:
    """Return the merges in order; a first line that names a version is no merge. Raises bundle_unsafe.

    >>> read_merges(b"#version: 0.2\\na b\\n")
    [('a', 'b')]
    """
    merges = []
    for number, line in enumerate(parse_text(data, MERGES).split("\n"), start=1):
        line = line.removesuffix("\r")  # noqa: PLW2901 - the same line without its ending
        if not line or (number == 1 and line.startswith("#version")):
            continue
        first, _, second = line.partition(" ")
        if not first or not second or " " in second:
            raise PlannerFault("bundle_unsafe", f"{MERGES} line {number} is no pair of pieces")
        merges.append((first, second))
    return merges


def _build(vocabulary: dict[str, int], merges: list[tuple[str, str]], config: FolderConfig) -> Tokenizer:
    model = guarded(
        lambda: models.BPE(
            vocab=vocabulary,
            merges=merges,
            continuing_subword_prefix="",
            end_of_word_suffix="",
        ),
        f"{VOCABULARY} and {MERGES} do not belong together",
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _add_tokens(tokenizer, config.added_tokens)
    return tokenizer


def _add_tokens(tokenizer: Tokenizer, table: Mapping[int, Mapping[str, Any]]) -> None:
    if len(table) > MAX_ADDED_TOKENS:
        raise PlannerFault("bundle_unsafe", f"{CONFIG} has more than {MAX_ADDED_TOKENS} added tokens")
    for index in sorted(table):
        row = table[index]
        text = token_text(dict(row)) or ""
        special = bool(row.get("special", False))
        token = AddedToken(
            text,
            single_word=bool(row.get("single_word", False)),
            lstrip=bool(row.get("lstrip", False)),
            rstrip=bool(row.get("rstrip", False)),
            normalized=bool(row.get("normalized", not special)),
            special=special,
        )
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
        # The library numbers by itself; where that gives another id, the files contradict each other.
        if tokenizer.token_to_id(text) != index:
            raise PlannerFault("bundle_mismatch", f"{CONFIG} gives added token {index} an id that is not next")
