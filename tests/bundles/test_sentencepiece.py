"""sentencepiece models: the library's own ids for stretches, control pieces by look-up."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from planner.bundles.hf_folder import open_folder
from planner.bundles.spm import SentencePieceEngine, load_sentencepiece
from planner.bundles.spm_proto import USER_DEFINED, read_model
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault
from tests.bundles.samples import mixed_texts

FOLDERS = {
    "llama-2-spm": "tokenizer.model",
    "mistral-v1-spm": "tokenizer.model",
    "mistral-v3-spm": "tokenizer.model.v3",
    "litert-spm": "sentencepiece.model",
}


def native(bundle_dir: Path, name: str) -> sentencepiece.SentencePieceProcessor:
    """The library on the same file."""
    path = bundle_dir / name / FOLDERS[name]
    return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_stretch_encodes_as_the_library_does(bundle_dir: Path, name: str, seed: int) -> None:
    """Ids equal sentencepiece's own, and no control piece comes out of text."""
    bundle = open_folder(bundle_dir / name)
    library = native(bundle_dir, name)
    controls = bundle.manifest.control_tokens
    assert {"<s>", "</s>"} <= {token.text for token in controls}
    for text in [*mixed_texts(seed, 60), *(token.text for token in controls[:30])]:
        ids = bundle.engine.encode(text).ids
        assert library.encode(text) == ids
        assert {token.id for token in controls}.isdisjoint(ids)


@pytest.mark.parametrize("name", FOLDERS)
def test_offsets_agree_with_the_librarys_surfaces(bundle_dir: Path, name: str, seed: int) -> None:
    """At each border the characters before the token are those of the pieces before it."""
    bundle, library = open_folder(bundle_dir / name), native(bundle_dir, name)
    for text in mixed_texts(seed, 25):
        ranges = library.encode(text, return_type="offset_mapping")["offsets"]
        encoded = bundle.engine.encode(text)
        begins, ends = [begin for begin, _ in ranges], [end for _, end in ranges]
        for char in range(len(text)):
            reaching = [i for i, end in enumerate(ends) if end > char or begins[i] >= char]
            expected = (reaching[0], begins[reaching[0]]) if reaching else (len(ends), char)
            assert expected == encoded.token_at(char)
        assert (len(encoded.ids), len(text)) == encoded.token_at(len(text))


@pytest.mark.parametrize("name", ["mistral-v3-spm", "llama-2-spm"])
def test_encode_parsed_looks_control_pieces_up_and_prefixes_each_stretch(bundle_dir: Path, name: str) -> None:
    """`<s>a</s> b` is bos, the stretch `a`, eos, the stretch ` b`, each stretch by the library."""
    bundle, library = open_folder(bundle_dir / name), native(bundle_dir, name)
    expected = [1, *library.encode("Hi there"), 2, *library.encode(" b")]
    assert bundle.engine.encode_parsed("<s>Hi there</s> b") == expected
    assert bundle.engine.decode(expected) == "<s>Hi there</s> b"
    assert bundle.manifest.prefix_space == "each_stretch"


def test_a_file_named_with_its_version_is_found(bundle_dir: Path) -> None:
    """tokenizer.model.v3 is a sentencepiece model; its control pieces include [INST]."""
    manifest = open_folder(bundle_dir / "mistral-v3-spm").manifest
    assert manifest.tokenizer_format == "sentencepiece"
    assert {"[INST]", "[/INST]", "[TOOL_CALLS]"} <= {token.text for token in manifest.control_tokens}


def test_a_model_without_template_counts_and_refuses_to_plan(bundle_dir: Path) -> None:
    """litert-spm has no template, drops spaces, and has no bound on what a token covers."""
    bundle = open_folder(bundle_dir / "litert-spm")
    assert bundle.engine.encode_ids(" " * 1_000) == []
    assert bundle.manifest.longest_token_bytes is None
    assert bundle.manifest.template_digest is None
    for ask in (lambda: bundle.template_source, lambda: bundle.profile):
        with pytest.raises(PlannerFault, match="bundle_has_no_template"):
            ask()


def test_a_user_defined_control_piece_is_switched_off(bundle_dir: Path) -> None:
    """A user-defined piece is matched in any text; named as control token it is matched in none."""
    data = bytearray((bundle_dir / "mistral-v3-spm" / "tokenizer.model.v3").read_bytes())
    index, piece = next(
        (index, piece) for index, piece in enumerate(read_model(bytes(data)).pieces) if piece.text == "[INST]"
    )
    data[piece.type_at] = USER_DEFINED
    facts = read_model(bytes(data))
    text = "say [INST] now"
    assert index in sentencepiece.SentencePieceProcessor(model_proto=bytes(data)).encode(text)
    engine = SentencePieceEngine(bytes(data), facts, (ControlToken("[INST]", index),))
    ids = engine.encode_ids(text)
    assert index not in ids
    assert native(bundle_dir, "mistral-v3-spm").encode(text) == ids
    assert index in engine.encode_parsed(text)


def test_a_cut_or_altered_model_is_refused_by_a_code(bundle_dir: Path) -> None:
    """Every cut and 50 altered bytes end in a code or in a loaded model, never in another exception."""
    data = (bundle_dir / "litert-spm" / "sentencepiece.model").read_bytes()
    for cut in (1, 3, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(PlannerFault):
            load_sentencepiece(data[:cut], "sentencepiece.model")
    for position in range(0, 20_000, 400):
        altered = bytearray(data)
        altered[position] ^= 0x55
        assert outcome(bytes(altered)) in {"loaded", "bundle_unsafe", "tokenizer_failed"}


def outcome(data: bytes) -> str:
    """Return how loading ends: loaded, or the code; any other exception passes through."""
    try:
        load_sentencepiece(data, "sentencepiece.model")
    except PlannerFault as fault:
        return fault.code
    return "loaded"


def test_a_length_beyond_the_file_is_refused_before_anything_is_allocated() -> None:
    """A piece that claims 2**60 bytes is damage, not an allocation."""
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        read_model(b"\x0a" + b"\xff" * 8 + b"\x0f")
