"""Train the reference bundle's tokenizer from our own corpus and write its files; `--check` proves them.

    python tools/reference_bundle/build.py            writes model_bundles/reference/tokenizer.json
    python tools/reference_bundle/build.py --check    exit 1 when a committed file differs from a rebuild

The trainer is plain Python, so the result depends on the corpus and this file only: no thread, hash seed or
library version takes part, except the GPT-2 split of `tokenizers`, which is fixed by its regex.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tokenizers import pre_tokenizers

HERE = Path(__file__).resolve().parent
BUNDLE = HERE.parents[1] / "model_bundles" / "reference"
VOCABULARY_SIZE = 4_096
# Longer tokens would only learn whole sentences of so small a corpus by heart.
MAX_TOKEN_BYTES = 16
MIN_PAIR_COUNT = 2
CORPUS_WEIGHTS = {
    "words.txt": 2,
    "english.txt": 2,
    "json.txt": 2,
    "chinese.txt": 2,
    "code.txt": 2,
    "other.txt": 2,
}
# The first control token is id 0, so ids of control tokens stay the same when the corpus grows.
CONTROL_TOKENS = (
    "<|begin|>",
    "<|end|>",
    "<|pad|>",
    "<|system|>",
    "<|developer|>",
    "<|user|>",
    "<|assistant|>",
    "<|tools|>",
    "<|tool_call|>",
    "<|result|>",
    "<|sep|>",
    "<|think|>",
    "<|think_end|>",
    "<|reserved_0|>",
    "<|reserved_1|>",
    "<|reserved_2|>",
)

Word = tuple[str, ...]
Pair = tuple[str, str]


def count_words(corpus: Path) -> Counter[str]:
    """Count the pieces the GPT-2 split makes of each file, in byte-level letters, times its weight."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    words: Counter[str] = Counter()
    for name, weight in CORPUS_WEIGHTS.items():
        text = (corpus / name).read_text(encoding="utf-8")
        for piece, _ in split.pre_tokenize_str(text):
            words[piece] += weight
    return words


def merged(word: Word, pair: Pair) -> Word:
    """Join every occurrence of a pair, left to right.

    >>> merged(("a", "b", "a", "b"), ("a", "b"))
    ('ab', 'ab')
    """
    out: list[str] = []
    index = 0
    while index < len(word):
        if word[index : index + 2] == pair:
            out.append(word[index] + word[index + 1])
            index += 2
        else:
            out.append(word[index])
            index += 1
    return tuple(out)


class PairTable:
    """How often each neighbouring pair occurs and in which words, with the most frequent one at hand."""

    def __init__(self, words: Counter[str]) -> None:
        """Spell every word letter by letter and count its pairs."""
        self.spelled: list[Word] = [tuple(word) for word in words]
        self.weights = list(words.values())
        self.counts: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, set[int]] = defaultdict(set)
        self.heap: list[tuple[int, int, Pair]] = []
        for number, word in enumerate(self.spelled):
            self._add(number, word)

    def _add(self, number: int, word: Word) -> None:
        for pair in itertools.pairwise(word):
            self.counts[pair] += self.weights[number]
            self.places[pair].add(number)
            self._file(pair)

    def _file(self, pair: Pair) -> None:
        size_bytes = len(pair[0]) + len(pair[1])
        if size_bytes <= MAX_TOKEN_BYTES:
            heapq.heappush(self.heap, (-self.counts[pair], size_bytes, pair))

    def most_frequent(self) -> tuple[int, Pair]:
        """Return (count, pair); ties go to the shorter, then to the pair that sorts first.

        Raises IndexError when none is left.
        """
        while True:
            negative, _, pair = self.heap[0]
            if self.counts[pair] == -negative:
                return -negative, pair
            # The entry is old: the count has changed since. A lower count must be filed again to be found.
            heapq.heappop(self.heap)
            if 0 < self.counts[pair] < -negative:
                self._file(pair)

    def join(self, pair: Pair) -> None:
        """Merge the pair in every word that holds it."""
        for number in sorted(self.places.pop(pair)):
            before = self.spelled[number]
            for old in itertools.pairwise(before):
                self.counts[old] -= self.weights[number]
            self.spelled[number] = merged(before, pair)
            self._add(number, self.spelled[number])
        del self.counts[pair]


def train(words: Counter[str], token_count: int) -> list[Pair]:
    """Return the merges of byte-pair encoding that make `token_count` new tokens, most frequent pair first.

    Raises SystemExit when the corpus is too small to fill the vocabulary.
    """
    table = PairTable(words)
    merges: list[Pair] = []
    tokens: set[str] = set()
    while len(tokens) < token_count:
        count, pair = table.most_frequent()
        if count < MIN_PAIR_COUNT:
            raise SystemExit(f"corpus too small: {len(tokens)} tokens of {token_count}")
        table.join(pair)
        merges.append(pair)
        tokens.add(pair[0] + pair[1])
    return merges


def vocabulary(merges: list[Pair]) -> dict[str, int]:
    """Number the control tokens, then the 256 byte letters, then what the merges make, in order."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    # Two merges may spell the same token; dict.fromkeys keeps its first place.
    joined = dict.fromkeys(left + right for left, right in merges)
    return {name: number for number, name in enumerate([*CONTROL_TOKENS, *letters, *joined])}


def tokenizer_json() -> str:
    """Return the text of tokenizer.json: byte-level BPE, no normalizer, nothing added around a text."""
    merges = train(count_words(HERE / "corpus"), VOCABULARY_SIZE - len(CONTROL_TOKENS) - 256)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": content, **flags} for number, content in enumerate(CONTROL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary(merges),
            "merges": [list(pair) for pair in merges],
        },
    }
    return json.dumps(file, ensure_ascii=False, indent=1) + "\n"


def tokenizer_config_json() -> str:
    """Return the text of tokenizer_config.json; the template stands in chat_template.jinja beside it."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "model_max_length": 32_768,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
    }
    return json.dumps(config, ensure_ascii=False, indent=2) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the files, or compare them with a rebuild (`--check`); 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args(argv).check
    different = 0
    for name, text in (
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", tokenizer_config_json()),
    ):
        path = BUNDLE / name
        if check:
            same = path.is_file() and path.read_bytes() == text.encode("utf-8")
            different += not same
            sys.stdout.write(f"{name}: {'equal to a rebuild' if same else 'differs from a rebuild'}\n")
        else:
            path.write_bytes(text.encode("utf-8"))
            sys.stdout.write(f"{name}: written\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
