"""Small LiteRT-LM files: the reference bundle's tokenizer, or a sentencepiece model trained on a few words."""

from __future__ import annotations

import functools
import io
from pathlib import Path

import sentencepiece

from tests.support.litertlm_writer import METADATA as METADATA_SECTION
from tests.support.litertlm_writer import (
    MODEL,
    SENTENCEPIECE,
    TOKENIZER_JSON,
    litertlm_bytes,
    metadata,
    packed,
)

REFERENCE = Path(__file__).resolve().parents[3] / "model_bundles" / "reference"
TOKENIZER = (REFERENCE / "tokenizer.json").read_bytes()
TEMPLATE = (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
GEMMA_LIKE = {
    1: ("<start_of_turn>user\n", "<end_of_turn>\n"),
    2: ("<start_of_turn>model\n", "<end_of_turn>\n"),
    3: ("<start_of_turn>system\n", "<end_of_turn>\n"),
}


def with_tokenizer_json(meta: bytes | None = None, *, weights: bytes = b"TFL3" * 64) -> bytes:
    """Return a file over the reference tokenizer, with a model section of `weights` before the others."""
    sections = [(MODEL, weights), (TOKENIZER_JSON, packed(TOKENIZER))]
    return litertlm_bytes(sections if meta is None else [(METADATA_SECTION, meta), *sections])


@functools.cache
def sentencepiece_model() -> bytes:
    """Train a model of 600 pieces with byte fallback and two user-defined pieces."""
    out = io.BytesIO()
    words = [f"word{number} the quick brown fox jumps over {number * 7919} lazy dogs" for number in range(400)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_writer=out, vocab_size=600, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
        user_defined_symbols=["<start_of_turn>", "<end_of_turn>"], hard_vocab_limit=False, add_dummy_prefix=False,
    )  # fmt: skip
    return out.getvalue()


def with_sentencepiece(meta: bytes) -> bytes:
    """Return a file over the trained sentencepiece model."""
    return litertlm_bytes([(METADATA_SECTION, meta), (SENTENCEPIECE, sentencepiece_model())])


FULL = with_tokenizer_json(metadata(template=TEMPLATE, context=2_048, stops=["<|im_end|>"], kind=5))
PIECES = with_sentencepiece(metadata(start=[1], stops=[[2], "<end_of_turn>"], affixes=GEMMA_LIKE, context=1_024))
