"""The proven bound of a text is never less than its exact count, on every bundle (M6).

By default on a sample; with PLANNER_FULL on 5 MB in more than twelve scripts and on every assigned code point.
"""

from __future__ import annotations

import os
import random
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import sentencepiece

from planner.bundles.bound import forms_of, text_bound
from planner.bundles.bundle import FolderBundle
from planner.bundles.charsmap import growth
from planner.bundles.open import open_bundle
from planner.bundles.protobuf import Damaged
from planner.bundles.typical import samples
from planner.values.text_bound import TextBound

ALL_BUNDLES = (
    "reference", "deepseek-v3", "deepseek-v4-notemplate", "gemma-3", "gemma-3-270m-gguf", "gpt-oss", "litert-spm",
    "litertlm-hf", "llama-2-spm", "llama-3.1", "llama-3.2", "mistral-nemo-tekken", "mistral-v1-fast", "mistral-v1-spm",
    "mistral-v3-spm", "phi-3-mini", "qwen3-0.6b", "qwen3-slow", "smollm2",
)  # fmt: skip
FULL = bool(os.environ.get("PLANNER_FULL"))
BYTES = 5_000_000 if FULL else 100_000
TRAPS = (
    "\u0f93",
    "\u0fa2",
    "\U0001d161",
    "\u0390",
    "\ufdfa",
    "e\u0301\u0323",
    "\u1100\u1161\u11a8",
    "\u0344",
    " ",
    "▁",
)
_RANGES = (
    (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x400), (0x400, 0x530), (0x530, 0x590), (0x590, 0x600),
    (0x600, 0x700), (0x900, 0x980), (0x980, 0xA00), (0xB80, 0xC00), (0xE00, 0xE80), (0xF00, 0x1000), (0x10A0, 0x1100),
    (0x1200, 0x1380), (0x1780, 0x1800), (0x1E00, 0x2000), (0x2000, 0x2070), (0x3040, 0x3100), (0x4E00, 0xA000),
    (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFB50, 0xFE00), (0x1D100, 0x1D200), (0x1F300, 0x1F700), (0x20000, 0x20400),
)  # fmt: skip
"""Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Bengali, Tamil, Thai, Tibetan, Georgian, Ethiopic,
Khmer, Kana, Han, Hangul, presentation forms, musical signs, emoji, with marks and spaces."""


@cache
def assigned() -> tuple[str, ...]:
    """Every code point that is a character of this Unicode, surrogates apart."""
    letters = map(chr, range(sys.maxunicode + 1))
    return tuple(one for one in letters if unicodedata.category(one) not in ("Cn", "Cs", "Co"))


def code_points(seed: int) -> Iterator[str]:
    """Every assigned one, or a sample with those that were seen to grow."""
    yield from TRAPS
    yield from assigned() if FULL else random.Random(seed).sample(assigned(), 4_000)


@cache
def texts(seed: int) -> tuple[str, ...]:
    """Words of 21 languages and kinds, letters of 26 ranges, and mixtures, together `BYTES` of UTF-8."""
    random_ = random.Random(seed)
    words = [word for row in samples()["languages"] for word in row["text"].split()]
    out: list[str] = []
    size = 0
    while size < BYTES:
        kind = random_.randrange(4)
        length = random_.choice((1, 2, 3, 8, 40, 400))
        if kind == 0:
            made = " ".join(random_.choice(words) for _ in range(length))
        elif kind == 1:
            low, high = random_.choice(_RANGES)
            made = "".join(chr(random_.randrange(low, high)) for _ in range(length))
        elif kind == 2:
            made = "".join(chr(random_.randrange(*random_.choice(_RANGES))) for _ in range(length))
        else:
            made = random_.choice(("\n", " ", "")).join(random_.choice((*words, *TRAPS)) for _ in range(length))
        out.append(made)
        size += len(made.encode())
    return tuple(out)


def opened(name: str, bundle_dir: Path) -> tuple[FolderBundle, TextBound]:
    """Open a shared bundle with its bound."""
    bundle = open_bundle(name if name == "reference" else bundle_dir / name)
    return bundle, text_bound(bundle.parts[0], bundle.manifest)


@pytest.mark.parametrize("name", ALL_BUNDLES)
def test_the_proven_bound_holds(name: str, bundle_dir: Path, seed: int) -> None:
    """On texts and single characters, by the normalised and by the raw form; an empty text has no token."""
    bundle, bound = opened(name, bundle_dir)
    assert bound.proven
    engine = bundle.engine
    exact = most = 0
    for text in texts(seed):
        tokens = len(engine.encode(text).ids)
        assert tokens <= bound.most_tokens(text), ascii(text[:40])
        assert tokens <= bound.most_tokens_raw(text), ascii(text[:40])
        exact, most = exact + tokens, most + bound.most_tokens(text)
    for letter in code_points(seed):
        tokens = len(engine.encode(letter).ids)
        assert tokens <= bound.most_tokens(letter), ascii(letter)
        assert tokens <= bound.most_tokens_raw(letter), ascii(letter)
    assert 0 == bound.most_tokens("") == len(engine.encode("").ids)
    sys.stdout.write(f"{name}: bound {most / exact:.2f} times the exact count of {exact:,} tokens\n")


def test_bytes_of_the_raw_text_are_no_bound(bundle_dir: Path) -> None:
    """Why the text is normalised first: NFC makes more bytes of some characters, and more tokens than raw bytes."""
    bundle, bound = opened("qwen3-0.6b", bundle_dir)
    assert "NFC" == bound.normaliser
    for letter in ("\u0f93", "\u0fa2", "\U0001d161"):
        assert len(bundle.engine.encode(letter).ids) > len(letter.encode())


def test_no_form_grows_beyond_its_factor() -> None:
    """Three and eleven bytes for one, which the raw bound relies on, over every code point of this Unicode."""
    for form, factor in (("NFC", 3), ("NFD", 3), ("NFKC", 11), ("NFKD", 11)):
        bound = TextBound(True, form, 0, factor)
        assert all(bound.most_tokens(one) <= bound.most_tokens_raw(one) for one in assigned()[:: 1 if FULL else 7])


def test_the_rules_of_a_charsmap_grow_as_the_library_shows(bundle_dir: Path) -> None:
    """The worst growth read from the file is the worst that the library makes of any single character, and no less."""
    _, bound = opened("litert-spm", bundle_dir)
    assert ("charsmap", 11) == (bound.normaliser, bound.raw_factor)
    native = sentencepiece.SentencePieceProcessor(model_file=str(bundle_dir / "litert-spm" / "sentencepiece.model"))

    def grown(letter: str) -> float:
        shown = native.normalize(letter).removeprefix("▁").replace("▁", " ")
        return len(shown.encode()) / len(letter.encode())

    assert 11 == max(map(grown, (*assigned()[:: 1 if FULL else 3], "\ufdfa")))
    assert 1 == growth(b"")
    for broken in (b"1", b"\xff\xff\0\0abcd", (4).to_bytes(4, "little") + b"\0\0\0"):
        with pytest.raises(Damaged):
            growth(broken)


def test_an_unknown_normaliser_proves_nothing() -> None:
    """Lower case, a replacement that is no space mark and a prefix inside are named, not guessed."""
    bundle = open_bundle("reference")
    loaded = bundle.parts[0]
    for normalizer, splitting, wanted in (
        ([{"type": "Lowercase"}], [], "Lowercase"),
        ([{"type": "Replace", "pattern": {"String": "a"}, "content": "aaa"}], [], "Replace"),
        ([], [{"type": "Split"}, {"type": "ByteLevel", "add_prefix_space": True}], "ByteLevel inside"),
        ([{"type": "NFC"}, {"type": "NFKC"}], [], "NFC+NFKC"),
        ([{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}], [], "space_mark"),
    ):
        found = text_bound(replace(loaded, forms=forms_of(normalizer, splitting)), bundle.manifest)
        assert (False, wanted, None) == (found.proven, found.normaliser, found.raw_factor)
        with pytest.raises(ValueError, match="no bound"):
            found.most_tokens("a")
