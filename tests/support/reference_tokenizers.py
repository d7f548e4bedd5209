"""Reference tokenizers: a bundle's own tokenizer file, encoded as that file says and nothing more.

`tokenizers` raw for tokenizer.json (and for vocab + merges, built as the Qwen2 class is defined); for
sentencepiece and tekken the text is split at control pieces, their ids are looked up and the stretches
between them encoded (issue A, parity). AutoTokenizer is never used: it rebuilds some families wrongly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
AUDIT_EVERY = 40


class StretchCache:
    """Encode text cut at control strings, each stretch once; every 40th text is also encoded whole.

    cut     pattern of the control strings, or None where no cut is exact; then the text is one stretch
    lookup  control string -> id
    stretch text without control strings -> ids
    whole   text -> ids in one call, or None where the library has no such call
    """

    def __init__(
        self,
        cut: re.Pattern[str] | None,
        lookup: dict[str, int],
        stretch: Callable[[str], list[int]],
        whole: Callable[[str], list[int]] | None,
    ) -> None:
        self._cut, self._lookup, self._stretch, self.whole = cut, lookup, stretch, whole
        self._seen: dict[str, tuple[int, ...]] = {}
        self._calls = 0
        self.audits = 0

    @property
    def control(self) -> dict[str, int]:
        """Strings the text is cut at, with their ids."""
        return self._lookup

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`. Raises AssertionError if an audit finds the cut not exact."""
        ids: list[int] = []
        for index, part in enumerate(self._cut.split(text) if self._cut else [text]):
            if index % 2:
                ids.append(self._lookup[part])
            elif part:
                known = self._seen.get(part)
                if known is None:
                    known = self._seen[part] = tuple(self._stretch(part))
                ids.extend(known)
        self._calls += 1
        if self.whole and self._cut and (self._calls <= 3 or self._calls % AUDIT_EVERY == 0):
            self.audits += 1
            assert self.whole(text) == ids, "cutting at control strings is not exact for this tokenizer"
        return ids

    def count(self, text: str) -> int:
        """Return the number of ids of `text`."""
        return len(self.encode(text))


def _pattern(strings: list[str]) -> re.Pattern[str] | None:
    if not strings:
        return None
    longest_first = sorted(strings, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")


def _exact_cuts(description: dict[str, Any]) -> dict[str, int]:
    """List the added tokens at which a cut cannot change ids (facts-encoding.md §4)."""
    added = description.get("added_tokens") or []
    normalizer = description.get("normalizer")
    inert = not normalizer or (normalizer.get("type") == "Sequence" and not normalizer.get("normalizers"))
    texts = [token["content"] for token in added]
    inside = {text for text in texts if any(text in other and text != other for other in texts)}
    cuts = {}
    for token in added:
        text = token["content"]
        if token["lstrip"] or token["rstrip"] or token["single_word"] or text in inside:
            continue
        if token["special"] and (inert or not token["normalized"]):
            cuts[text] = token["id"]
    return cuts


def _from_tokenizers(raw: Any, description: dict[str, Any]) -> StretchCache:
    raw.no_truncation()
    raw.no_padding()

    def whole(text: str) -> list[int]:
        return list(raw.encode(text, add_special_tokens=False).ids)

    cuts = _exact_cuts(description)
    return StretchCache(_pattern(list(cuts)), cuts, whole, whole)


def from_tokenizer_json(path: Path) -> StretchCache:
    """Load tokenizer.json as it is; saved truncation and padding are switched off."""
    from tokenizers import Tokenizer

    return _from_tokenizers(Tokenizer.from_file(str(path)), json.loads(path.read_text(encoding="utf-8")))


def from_vocab_merges(folder: Path, config: dict[str, Any]) -> StretchCache:
    """Build what the Qwen2 class describes from vocab.json, merges.txt and the config's added tokens.

    A test compares it with the tokenizer.json of the same model.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

    assert config["tokenizer_class"].startswith("Qwen2Tokenizer"), "only the Qwen2 class is described here"
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if line and not line.startswith("#version")]
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in kept)]
    raw = Tokenizer(models.BPE(vocab, merges))
    raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    for _, token in sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0])):
        raw.add_tokens([AddedToken(**{k: v for k, v in token.items() if k != "special"},
                                   special=token["special"])])  # fmt: skip
    return _from_tokenizers(raw, json.loads(raw.to_str()))


def from_sentencepiece(path: Path, prefix_space: str = "library") -> StretchCache:
    """Load a sentencepiece model; control pieces are cut on, because text never yields them.

    prefix_space  "library": every stretch gets the space mark that the library's own call adds.
                  "text": one leading space of a stretch stands for that mark, as generated Mistral
                  templates write it; a stretch without one gets the mark as well.
    """
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    control = {
        model.id_to_piece(number): number for number in range(model.get_piece_size())
        if model.is_control(number)
    }  # fmt: skip

    def stretch(text: str) -> list[int]:
        if prefix_space == "text":
            text = text.removeprefix(" ")
        return list(model.encode(text))

    return StretchCache(_pattern(list(control)), control, stretch, None)


def from_tekken(path: Path) -> StretchCache:
    """Load tekken.json through mistral-common; control strings come from its own table."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    model = Tekkenizer.from_file(str(path))
    control = {model.id_to_piece(number): number for number in range(model.num_special_tokens)}

    def stretch(text: str) -> list[int]:
        return list(model.encode(text, bos=False, eos=False))

    return StretchCache(_pattern(list(control)), control, stretch, None)


def load(folder: Path, config: dict[str, Any], prefix_space: str = "library") -> StretchCache:
    """Load whatever tokenizer file `folder` holds. Raises FileNotFoundError if it holds none."""
    if (folder / "tokenizer.json").is_file():
        return from_tokenizer_json(folder / "tokenizer.json")
    if (folder / "tekken.json").is_file():
        return from_tekken(folder / "tekken.json")
    if (folder / "vocab.json").is_file():
        return from_vocab_merges(folder, config)
    for path in sorted(folder.glob("*.model*")):
        return from_sentencepiece(path, prefix_space)
    raise FileNotFoundError("no tokenizer file")
