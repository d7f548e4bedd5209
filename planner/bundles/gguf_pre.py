r"""The splitting rules that `tokenizer.ggml.pre` names, one row per family.

The rule decides the ids, so a name that is not here is refused and never taken for another. The rules are
what the file's own runtime does with the name; letters of a contraction are ASCII there, never `(?i:..)`,
and no name brings a Unicode normalization (facts-runtimes.md §2.5).
"""

from __future__ import annotations

from dataclasses import dataclass

_SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SHORT}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"
_QWEN2 = rf"{_SHORT}|{_WORD}|\p{{N}}|{_SIGNS}|{_SPACES}"
_QWEN35 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
# Two shapes of a word: capitals then small letters, or capitals alone. What is no ASCII letter counts as both.
_UPPER, _LOWER = r"(?:(?![a-z])\p{L})", r"(?:(?![A-Z])\p{L})"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
_SLASHED = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_GPT4O = _CASED % (_SHORT + "?", _SHORT + "?") + rf"|\p{{N}}{{1,3}}|{_SLASHED}"
_TEKKEN = _CASED % ("", "") + rf"|\p{{N}}|{_SLASHED}"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[一-龥\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
)


@dataclass(frozen=True, slots=True)
class Splitting:
    """`rules` cut the text one after the other, each inside the pieces of the one before.

    `whole_words` takes a piece that is in the vocabulary without looking at merges. `adds_bos` is what holds
    where the file does not say whether a begin token stands before a prompt.
    """

    rules: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


FAMILIES: tuple[tuple[Splitting, tuple[str, ...]], ...] = (
    (
        Splitting((_GPT2,)),
        ("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "a.x-4.0", "mellum",
         "exaone4"),
    ),
    (
        Splitting((r"\p{N}", _GPT2)),
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
    ),
    (
        Splitting((_LLAMA3,), whole_words=True, adds_bos=True),
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    ),
    (Splitting((_LLAMA3,)), ("dbrx", "smaug-bpe", "chatglm-bpe", "glm4")),
    (
        Splitting((_QWEN2,)),
        ("qwen2", "stablelm2", "hunyuan", "solar-open", "megrez", "deepseek-r1-qwen", "kormo", "grok-2"),
    ),
    (Splitting((_QWEN35,)), ("qwen35",)),
    (Splitting((_GPT4O,)), ("gpt-4o", "llama4", "kanana2", "minimax-m2")),
    (Splitting((_TEKKEN,), whole_words=True, adds_bos=True), ("tekken",)),
    (Splitting(_DEEPSEEK3), ("deepseek-v3", "hunyuan-dense", "joyai-llm")),
    (
        # The runtime sees any space beyond ASCII as one sign outside the ranges.
        Splitting((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"(?:(?!\s)[一-龥ࠀ-一가-\x{D7FF}])+", r"\p{N}")),
        ("deepseek-coder",),
    ),
    (
        Splitting((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
        ("falcon",),
    ),
    (
        Splitting((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
        ("default",),
    ),
)  # fmt: skip

SPLITTING = {name: splitting for splitting, names in FAMILIES for name in names}
"""By name of `tokenizer.ggml.pre`."""

GEMMA4 = Splitting((r"[^\n]+|[\n]+",), adds_bos=True)
"""The rule of tokenizer model `gemma4`, whose files need not name it."""
