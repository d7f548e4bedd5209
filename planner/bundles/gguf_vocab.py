"""The vocabulary of a GGUF header, checked: texts, kinds, scores or merges, named tokens and prefix rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from planner.bundles.gguf_header import Header, unsafe
from planner.bundles.gguf_pre import GEMMA4, SPLITTING, Splitting
from planner.bundles.loaded import AddedText, check_sizes
from planner.values.reasons import PlannerFault

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MATCHED = (UNKNOWN, CONTROL, USER_DEFINED)
MODELS = ("gpt2", "llama", "gemma4")
_NAMED = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
_UNSTATED = {"unknown": 0, "bos": 1, "eos": 2}
_INT32, _FLOAT32 = 5, 6

# The runtime takes these for control tokens whatever kind the file gives them (facts-runtimes.md §2.5). An
# ordinary word of such a name stays a word: it comes out of merges and no switch could keep it from content.
_TAKEN_FOR_CONTROL = frozenset(
    "</s> <|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> [EOT] [EOS] "
    "<｜end▁of▁sentence｜> <end_of_utterance> <|eom_id|> <|return|> <|call|> <|calls|> <|flush|> <eos> <turn|> "
    "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|> "
    "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|> "
    "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|> "
    "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> "
    "<|file_sep|> <|tool_response>".split()
)
_KEPT_SPACES = frozenset({"<unk>", "<s>", "<|endoftext|>"})


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """What the tokenizer keys state. `kinds` has one entry per text; `scores` or `merges` may be empty.

    `variables` are the strings the template reads. `splitting` is None where the model needs no rule.
    """

    model: str
    texts: tuple[str, ...]
    kinds: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[bytes, ...]
    unknown_id: int | None
    variables: Mapping[str, str]
    adds_bos: bool
    adds_eos: bool
    space_prefix: bool
    splitting: Splitting | None
    swallowing: bool

    def added(self) -> tuple[AddedText, ...]:
        """Return the tokens that are matched in text as a whole, in the order of their ids."""
        return tuple(
            AddedText(
                text,
                index,
                special=kind != USER_DEFINED or text in _TAKEN_FOR_CONTROL,
                rstrip=self.swallowing and text not in _KEPT_SPACES,
            )
            for index, (text, kind) in enumerate(zip(self.texts, self.kinds, strict=True))
            if kind in MATCHED
        )


def read_gguf_vocabulary(header: Header) -> GgufVocabulary:
    """Read and check the tokenizer of a header.

    Raises bundle_incomplete where it holds none, format_not_supported naming the tokenizer model or the
    splitting rule, bundle_unsafe.
    """
    model = header.text("tokenizer.ggml.model")
    tokens = header.texts("tokenizer.ggml.tokens")
    if model is None or not tokens:
        raise PlannerFault("bundle_incomplete", "GGUF: the file holds no tokenizer; name the first file of the model")
    if model not in MODELS:
        raise PlannerFault("format_not_supported", f"GGUF tokenizer model {model[:60]!a}")
    splitting = _splitting(header, model)
    texts = _texts(tokens)
    named = {name: _id(header, name, model, len(texts)) for name in _NAMED}
    variables = {_NAMED[name]: "" if index is None else texts[index] for name, index in named.items()}
    bos, eos = header.flag("tokenizer.ggml.add_bos_token"), header.flag("tokenizer.ggml.add_eos_token")
    prefix = header.flag("tokenizer.ggml.add_space_prefix")
    called = (header.text("general.name") or "").lower()
    by_default = model == "llama" or (splitting is not None and splitting.adds_bos)
    return GgufVocabulary(
        model=model,
        texts=texts,
        kinds=_kinds(header, len(texts)),
        scores=_scores(header, len(texts)) if model == "llama" else (),
        merges=() if model == "llama" else tuple(_merges(header)),
        unknown_id=named["unknown"],
        # A template may add an absent begin token to a text; the runtime hands it an empty one.
        variables={name: text for name, text in variables.items() if text or name in ("bos_token", "eos_token")},
        adds_bos=(model == "gemma4" or (by_default if bos is None else bos)) and bool(variables["bos_token"]),
        adds_eos=bool(eos),
        space_prefix=model == "llama" and prefix is not False,
        splitting=splitting,
        swallowing="phi-3" in called or "phi3" in called,
    )


def _splitting(header: Header, model: str) -> Splitting | None:
    if model == "llama":
        return None
    if model == "gemma4":
        return GEMMA4
    name = header.text("tokenizer.ggml.pre")
    if name is None:
        raise PlannerFault("format_not_supported", "GGUF tokenizer model 'gpt2' without tokenizer.ggml.pre")
    if name not in SPLITTING:
        raise PlannerFault("format_not_supported", f"GGUF tokenizer.ggml.pre {name[:60]!a}")
    return SPLITTING[name]


def _texts(tokens: list[bytes]) -> tuple[str, ...]:
    check_sizes(len(tokens), 0, max(map(len, tokens)))
    try:
        found = tuple(token.decode("utf-8") or f"[EMPTY_{index}]" for index, token in enumerate(tokens))
    except UnicodeDecodeError:
        raise unsafe("a token is no UTF-8") from None
    if len(set(found)) != len(found):
        raise unsafe("two entries of the vocabulary are equal")
    return found


def _kinds(header: Header, size: int) -> tuple[int, ...]:
    found = header.numbers("tokenizer.ggml.token_type")
    if found is None:
        return (NORMAL,) * size
    if header.element_kinds["tokenizer.ggml.token_type"] != _INT32 or len(found) < size:
        raise unsafe("tokenizer.ggml.token_type does not fit the vocabulary")
    return tuple(int(kind) if NORMAL <= kind <= BYTE else NORMAL for kind in found[:size])


def _scores(header: Header, size: int) -> tuple[float, ...]:
    found = header.numbers("tokenizer.ggml.scores")
    if found is None:
        return (0.0,) * size
    if header.element_kinds["tokenizer.ggml.scores"] not in (_INT32, _FLOAT32) or len(found) < size:
        raise unsafe("tokenizer.ggml.scores does not fit the vocabulary")
    scores = tuple(float(score) for score in found[:size])
    if any(math.isnan(score) for score in scores):
        raise unsafe("a score is no number")
    return scores


def _merges(header: Header) -> list[bytes]:
    merges = header.texts("tokenizer.ggml.merges")
    if merges is None:
        raise PlannerFault("bundle_incomplete", "GGUF: tokenizer.ggml.merges is absent")
    return merges


def _id(header: Header, name: str, model: str, size: int) -> int | None:
    found = header.whole(f"tokenizer.ggml.{name}_token_id")
    if found is None:
        usual = _UNSTATED.get(name) if model == "llama" else None
        return usual if usual is not None and usual < size else None
    if not 0 <= found < size:
        raise unsafe(f"tokenizer.ggml.{name}_token_id lies beyond the vocabulary")
    return found
