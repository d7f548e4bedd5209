"""Tiny tokenizers in GGUF form: a few hundred entries over the byte alphabet, by merges and by scores."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.gguf_writer import ARRAY, BOOL, FLOAT32, INT32, STRING, UINT32, Key, gguf_bytes

WORDS = "the quick brown fox jumps over lazy dog and then some more words of text".split()
CONTROLS = ("<|begin|>", "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _alphabet() -> list[str]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return [*map(chr, plain), *(chr(256 + place) for place in range(len(rest)))]


def merged() -> tuple[list[str], list[str]]:
    """Return tokens and merges: the alphabet, then each word letter by letter, with and without its space."""
    tokens, merges = _alphabet(), []
    for word in [shape for one in WORDS for shape in (one, "Ġ" + one, one.upper())]:
        for stop in range(2, len(word) + 1):
            if word[:stop] not in tokens:
                tokens.append(word[:stop])
                merges.append(f"{word[: stop - 1]} {word[stop - 1]}")
    return [*tokens, *(f"#{number}#" for number in range(300))], merges


def bpe_keys(*extra: Key, pre: str = "gpt-2") -> list[Key]:
    """Return the keys of a byte-level tokenizer."""
    tokens, merges = merged()
    size = len(tokens)
    return [
        Key("general.architecture", STRING, "llama"),
        Key("llama.context_length", UINT32, 2048),
        Key("tokenizer.ggml.model", STRING, "gpt2"),
        Key("tokenizer.ggml.pre", STRING, pre),
        Key("tokenizer.ggml.tokens", ARRAY, [*tokens, *CONTROLS]),
        Key("tokenizer.ggml.token_type", ARRAY, [1] * size + [3] * len(CONTROLS), INT32),
        Key("tokenizer.ggml.merges", ARRAY, merges),
        Key("tokenizer.ggml.bos_token_id", UINT32, size),
        Key("tokenizer.ggml.eos_token_id", UINT32, size + 1),
        *extra,
    ]


BORDERS = "aB1 \n\r\t'sS.,!/$é\u0301中た\u0915\u094d\u00a0\u3000½٣ſK²ǅ_🙂"


def pair_keys(pre: str) -> list[Key]:
    """Return a vocabulary in which every two bytes of `BORDERS` merge: ids show where a text was cut."""
    letters = dict(zip([*range(33, 127), *range(161, 173), *range(174, 256)], _alphabet(), strict=False))
    rest = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(256 + place) for place, byte in enumerate(rest)}
    some = sorted({letters[byte] for byte in BORDERS.encode()})
    pairs = [first + second for first in some for second in some]
    merges = [f"{pair[0]} {pair[1]}" for pair in pairs]
    tokens = [*_alphabet(), *pairs, "<|begin|>"]
    return [
        Key("tokenizer.ggml.model", STRING, "gpt2"),
        Key("tokenizer.ggml.pre", STRING, pre),
        Key("tokenizer.ggml.tokens", ARRAY, tokens),
        Key("tokenizer.ggml.token_type", ARRAY, [1] * (len(tokens) - 1) + [3], INT32),
        Key("tokenizer.ggml.merges", ARRAY, merges),
        Key("tokenizer.ggml.bos_token_id", UINT32, len(tokens) - 1),
        Key("tokenizer.ggml.eos_token_id", UINT32, len(tokens) - 1),
    ]


def spm_keys(*extra: Key) -> list[Key]:
    """Return the keys of a tokenizer of scores: unknown, begin, end, 256 bytes, words and letters."""
    words = [shape for word in WORDS for shape in (word, "▁" + word)]
    stems = {word[:stop] for word in words for stop in range(1, len(word) + 1)}
    pieces = sorted(stems | set("abcdefghijklmnopqrstuvwxyz▁"), key=lambda one: (-len(one), one))
    pieces += [f"#{number}#" for number in range(200)]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = [0.0] * 259 + [-float(place) for place in range(len(pieces))]
    return [
        Key("general.architecture", STRING, "llama"),
        Key("tokenizer.ggml.model", STRING, "llama"),
        Key("tokenizer.ggml.tokens", ARRAY, tokens),
        Key("tokenizer.ggml.scores", ARRAY, scores, FLOAT32),
        Key("tokenizer.ggml.token_type", ARRAY, [2, 3, 3] + [6] * 256 + [1] * len(pieces), INT32),
        Key("tokenizer.ggml.bos_token_id", UINT32, 1),
        Key("tokenizer.ggml.eos_token_id", UINT32, 2),
        *extra,
    ]


def changed(keys: Iterable[Key], name: str, value: object, kind: int | None = None) -> list[Key]:
    """Return the keys with one of another value, and of another kind if one is given."""
    return [
        Key(key.name, key.kind if kind is None else kind, value, key.of) if key.name == name else key for key in keys
    ]


def without(keys: Iterable[Key], name: str) -> list[Key]:
    """Return the keys without one."""
    return [key for key in keys if key.name != name]


def flag(name: str, value: bool) -> Key:
    """Return a flag of the tokenizer."""
    return Key(f"tokenizer.ggml.{name}", BOOL, value)


def chat_template(text: str = TEMPLATE, name: str = "") -> Key:
    """Return the key of a template, of a named one where a name is given."""
    return Key("tokenizer.chat_template" + (f".{name}" if name else ""), STRING, text)


BPE, SPM = gguf_bytes(bpe_keys()), gguf_bytes(spm_keys())
