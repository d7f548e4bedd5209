"""What the keys of a GGUF tokenizer mean: kinds of tokens, spaces, merges, figures; each broken one has its code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.small import CONTROLS, bpe_keys, changed, chat_template, flag, spm_keys, without
from tests.support.gguf_writer import ARRAY, BOOL, INT32, STRING, UINT32, Key

Write = Callable[[list[Key]], Path]


def test_a_space_stands_before_each_stretch_unless_the_file_says_no(write: Write) -> None:
    """Also after a whole token, as the runtime does; spaces are kept as they are."""
    spaced, bare = open_bundle(write(spm_keys())), open_bundle(write(spm_keys(flag("add_space_prefix", False))))
    tokens = next(key.value for key in spm_keys() if key.name == "tokenizer.ggml.tokens")

    def pieces(bundle: object, text: str) -> list[str]:
        return [tokens[index] for index in bundle.engine.encode_parsed(text)]  # type: ignore[attr-defined]

    assert ["▁the", "▁fox", "</s>", "▁fox"] == pieces(spaced, "the fox</s>fox")
    assert ["the", "▁fox", "</s>", "fox"] == pieces(bare, "the fox</s>fox")
    assert ["▁", "▁", "▁fox"] == pieces(spaced, "  fox")
    assert ["<0xC3>", "<0xBC>"] == pieces(bare, "ü")
    assert ("each_stretch", None) == (spaced.manifest.prefix_space, bare.manifest.prefix_space)


def test_kinds_of_tokens_decide_what_text_may_spell(write: Write) -> None:
    """Control and unknown tokens never come out of content; user-defined ones do, unless the runtime's name says."""
    names = ("<ctrl>", "<unknown>", "<mine>", "<EOT>")
    for keys in (bpe_keys(), spm_keys()):
        tokens = next(key.value for key in keys if key.name == "tokenizer.ggml.tokens")
        kinds = next(key.value for key in keys if key.name == "tokenizer.ggml.token_type")
        more = changed(keys, "tokenizer.ggml.tokens", [*tokens, *names])
        more = changed(more, "tokenizer.ggml.token_type", [*kinds, 3, 2, 4, 4])
        if keys[-1].name != "tokenizer.ggml.eos_token_id" or "tokenizer.ggml.scores" in {key.name for key in keys}:
            scores = next(key.value for key in keys if key.name == "tokenizer.ggml.scores")
            more = changed(more, "tokenizer.ggml.scores", [*scores, 0.0, 0.0, 0.0, 0.0])
        bundle = open_bundle(write(more))
        first = len(tokens)
        spelled = bundle.engine.encode("a<ctrl>b<unknown>c<mine>d<EOT>").ids
        assert {first + 2} == set(spelled) & set(range(first, first + 4))
        parsed = bundle.engine.encode_parsed("a<ctrl>b<unknown>c<mine>d<EOT>")
        assert list(range(first, first + 4)) == [index for index in parsed if index >= first]
        assert ("<mine>",) == bundle.text_tokens


def test_whitespace_after_a_control_token_is_swallowed_in_phi_3_files(write: Write) -> None:
    """The runtime decides so by the model's name; begin, unknown and end-of-text tokens swallow nothing."""
    named = open_bundle(write([*spm_keys(), Key("general.name", STRING, "Phi-3-mini")])).engine
    plain = open_bundle(write(spm_keys())).engine
    assert plain.encode_parsed("</s>the fox") == named.encode_parsed("</s> \n the fox")
    assert plain.encode_parsed("<s>  the fox") == named.encode_parsed("<s>  the fox")
    found = named.encode_parsed_spans("</s> \n the fox")
    assert [(0, 0), (1, 7), (2, 10)] == [found.token_at(char) for char in (5, 8, 12)]


BROKEN = {
    "no tokenizer": (without(bpe_keys(), "tokenizer.ggml.model"), "bundle_incomplete"),
    "no tokens": (without(bpe_keys(), "tokenizer.ggml.tokens"), "bundle_incomplete"),
    "no merges": (without(bpe_keys(), "tokenizer.ggml.merges"), "bundle_incomplete"),
    "a token twice": (changed(bpe_keys(), "tokenizer.ggml.tokens", ["a"] * 600), "bundle_unsafe"),
    "a token no UTF-8": (changed(bpe_keys(), "tokenizer.ggml.tokens", [b"\xff", "a"]), "bundle_unsafe"),
    "a token too long": (changed(bpe_keys(), "tokenizer.ggml.tokens", ["x" * 4_097]), "bundle_unsafe"),
    "too few kinds": (changed(bpe_keys(), "tokenizer.ggml.token_type", [1]), "bundle_unsafe"),
    "too few scores": (changed(spm_keys(), "tokenizer.ggml.scores", [1.0]), "bundle_unsafe"),
    "a begin token beyond": (changed(bpe_keys(), "tokenizer.ggml.bos_token_id", 1 << 20), "bundle_unsafe"),
    "too small": (changed(bpe_keys()[:-2], "tokenizer.ggml.tokens", ["a", "b"]), "bundle_unsafe"),
    "usual ids beyond": (changed(spm_keys()[:-2], "tokenizer.ggml.tokens", ["a"]), "format_not_supported"),
    "bytes missing": (
        changed(spm_keys(), "tokenizer.ggml.token_type", [2, 3, 3] + [1] * 2_000), "format_not_supported",
    ),
    "flag as number": (bpe_keys(Key("tokenizer.ggml.add_bos_token", UINT32, 1)), "bundle_unsafe"),
    "template as flag": (bpe_keys(Key("tokenizer.chat_template", BOOL, True)), "bundle_unsafe"),
    "scores as texts": (changed(spm_keys(), "tokenizer.ggml.scores", [], ARRAY), "bundle_unsafe"),
    "layers without end": (
        bpe_keys(Key("llama.block_count", UINT32, 1 << 30), Key("llama.attention.head_count", UINT32, 1)),
        "bundle_unsafe",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_tokenizer_has_its_code(write: Write, name: str) -> None:
    """Absent, contradicting, too large, of another kind."""
    keys, code = BROKEN[name]
    with pytest.raises(PlannerFault) as caught:
        open_bundle(write(keys)).engine.encode("x")
    assert code == caught.value.code


def test_merges_of_pieces_that_are_absent_are_left_out_with_a_warning(write: Write) -> None:
    """A merge whose parts or result the vocabulary lacks, and one that stands there twice."""
    merges = next(key.value for key in bpe_keys() if key.name == "tokenizer.ggml.merges")
    more = changed(bpe_keys(), "tokenizer.ggml.merges", ["z q", *merges, merges[0], "nospace"])
    bundle = open_bundle(write(more))
    assert ("3 merges name a piece that the vocabulary lacks, or stand there twice",) == bundle.manifest.warnings
    plain = open_bundle(write(bpe_keys()))
    assert list(plain.engine.encode("zq the fox").ids) == list(bundle.engine.encode("zq the fox").ids)


def test_figures_of_the_attention_cache_are_read_per_layer(write: Write) -> None:
    """One number or a list, local layers by a list of flags or by a period, derived lengths."""
    base = [Key("llama.block_count", UINT32, 4), Key("llama.embedding_length", UINT32, 64),
            Key("llama.attention.head_count", UINT32, 8)]  # fmt: skip
    kv = open_bundle(write(bpe_keys(*base))).manifest.kv
    assert (4, (8, 8, 8, 8), 8, 8, None, None) == (
        kv.layers, kv.kv_heads, kv.key_length, kv.value_length, kv.sliding_window, kv.sliding_layers
    )  # fmt: skip
    local = [
        *base, Key("llama.attention.head_count_kv", ARRAY, [2, 2, 1, 1], INT32),
        Key("llama.attention.key_length", UINT32, 16), Key("llama.attention.sliding_window", UINT32, 128),
        Key("llama.attention.key_length_swa", UINT32, 4),
    ]  # fmt: skip
    period = Key("llama.attention.sliding_window_pattern", UINT32, 2)
    flags = Key("llama.attention.sliding_window_pattern", ARRAY, [True, False, False, True], BOOL)
    kv = open_bundle(write(bpe_keys(*local, period))).manifest.kv
    assert ((2, 2, 1, 1), 16, 8, 128, 4) == (
        kv.kv_heads, kv.key_length, kv.value_length, kv.sliding_window, kv.sliding_key_length
    )  # fmt: skip
    assert (True, False, True, False) == kv.sliding_layers
    assert (True, False, False, True) == open_bundle(write(bpe_keys(*local, flags))).manifest.kv.sliding_layers
    assert open_bundle(write(bpe_keys(*local))).manifest.kv.sliding_layers is None
    assert open_bundle(write(bpe_keys())).manifest.kv is None


def test_control_tokens_of_a_small_file(write: Write) -> None:
    """All that the file calls control, with their ids."""
    manifest = open_bundle(write(bpe_keys(chat_template()))).manifest
    assert list(CONTROLS) == [token.text for token in manifest.control_tokens]
    assert 2_048 == manifest.context_tokens


def test_a_control_token_that_is_an_ordinary_word_is_found_by_the_self_test(write: Write) -> None:
    """Under a rule that takes whole words without merges, content could spell it: the file is refused."""
    keys = changed(bpe_keys(), "tokenizer.ggml.pre", "llama-bpe")
    kinds = next(key.value for key in keys if key.name == "tokenizer.ggml.token_type")
    tokens = next(key.value for key in keys if key.name == "tokenizer.ggml.tokens")
    kinds = [3 if token == "fox" else kind for token, kind in zip(tokens, kinds, strict=True)]
    with pytest.raises(PlannerFault, match="tokenizer_failed: self-test: control strings stay text"):
        open_bundle(write(changed(keys, "tokenizer.ggml.token_type", kinds)))


def test_merges_of_scores_never_make_a_control_token(write: Write) -> None:
    """A control token whose text is a word: content that spells it takes other pieces, the template the token."""
    keys = spm_keys()
    tokens = next(key.value for key in keys if key.name == "tokenizer.ggml.tokens")
    kinds = list(next(key.value for key in keys if key.name == "tokenizer.ggml.token_type"))
    word = tokens.index("▁fox")
    kinds[word] = 3
    engine = open_bundle(write(changed(keys, "tokenizer.ggml.token_type", kinds))).engine
    assert word not in engine.encode("the fox").ids
    assert word not in engine.encode("the ▁fox").ids
    assert word in engine.encode_parsed("the ▁fox")
