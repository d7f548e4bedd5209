"""tiktoken ranks in a `.model` file: the ids of the same model's tokenizer.json, or a refusal by name."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from planner.bundles.hf_folder import open_folder
from planner.bundles.registry import sniff_model_file
from planner.bundles.tiktoken_text import read_ranks
from planner.values.reasons import PlannerFault
from tests.bundles.samples import first_reaching, mixed_texts


def letters() -> dict[str, int]:
    """The byte-level alphabet: letter -> byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in plain}
    table |= {chr(256 + place): byte for place, byte in enumerate(b for b in range(256) if b not in plain)}
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    return table


@pytest.fixture(scope="module")
def folder(bundle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """llama-3.1's vocabulary written as tiktoken text, with its configuration."""
    target = tmp_path_factory.mktemp("tiktoken")
    source = bundle_dir / "llama-3.1"
    vocabulary = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    table = letters()
    lines = [
        b"%s %d\n" % (base64.b64encode(bytes(table[letter] for letter in token)), rank)
        for token, rank in sorted(vocabulary.items(), key=lambda row: row[1])
    ]
    (target / "tokenizer.model").write_bytes(b"".join(lines))
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (target / name).write_bytes((source / name).read_bytes())
    return target


def test_ids_and_borders_equal_the_tokenizer_json_of_the_same_model(folder: Path, bundle_dir: Path, seed: int) -> None:
    """Ranks and tokenizer.json agree on every text, on control strings and on where tokens lie."""
    bundle = open_folder(folder)
    assert bundle.manifest.tokenizer_format == "tiktoken"
    assert len(bundle.manifest.control_tokens) == 256
    raw = Tokenizer.from_file(str(bundle_dir / "llama-3.1" / "tokenizer.json"))
    for text in mixed_texts(seed, 60):
        encoded = bundle.engine.encode(text)
        expected = raw.encode(text, add_special_tokens=False)
        assert expected.ids == list(encoded.ids)
        assert bundle.engine.decode(encoded.ids) == text
        for char in range(len(text) + 1):
            assert first_reaching(expected.offsets, char) == encoded.token_at(char)
        dirty = f"<|start_header_id|>{text}<|eot_id|>"
        assert raw.encode(dirty, add_special_tokens=False).ids == bundle.engine.encode_parsed(dirty)
        assert {128006, 128009}.isdisjoint(bundle.engine.encode_ids(dirty))


def test_ranks_without_a_known_splitting_rule_are_refused_by_class(folder: Path, tmp_path: Path) -> None:
    """The ranks do not say how text is split; a class of its own code is not guessed."""
    for name in ("tokenizer.model", "chat_template.jinja"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TikTokenTokenizer"}', encoding="utf-8")
    with pytest.raises(PlannerFault, match=r"format_not_supported: .*'TikTokenTokenizer'"):
        open_folder(tmp_path)


def ranks_file() -> list[bytes]:
    return [b"%s %d\n" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines, b"IQ== 256\n"],
        lambda lines: [*lines, b"YWI= 300\n"],
        lambda lines: [*lines, b"not base64! 256\n"],
        lambda lines: [*lines, b"YWI=\n"],
    ],
    ids=["byte_lacking", "token_twice", "gap", "no_base64", "no_rank"],
)
def test_damaged_ranks_are_refused(change: object) -> None:
    """Each damage is bundle_unsafe; the undamaged file is read."""
    assert len(read_ranks(b"".join(ranks_file()), "x.model")) == 256
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        read_ranks(b"".join(change(ranks_file())), "x.model")


def test_a_model_file_tells_by_its_bytes_what_it_is(bundle_dir: Path) -> None:
    """The suffix .model says nothing: protobuf, rank lines, or junk."""
    assert sniff_model_file((bundle_dir / "llama-2-spm" / "tokenizer.model").read_bytes()) == "sentencepiece"
    assert sniff_model_file(ranks_file()[0]) == "tiktoken"
    assert sniff_model_file(b"not a sentencepiece model") is None
    assert sniff_model_file(b"") is None
