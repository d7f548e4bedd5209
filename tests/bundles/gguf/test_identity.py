"""A GGUF bundle's identity: the header's bytes, compared before they are parsed wherever they are known."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.bundle import FolderBundle
from planner.bundles.gguf_header import parse_header
from planner.bundles.manifest import ManifestFile, dump_manifest, parse_manifest
from planner.bundles.open import open_bundle
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.small import CONTROLS, TEMPLATE, bpe_keys
from tests.support.gguf_writer import STRING, Key, gguf_bytes

CHAT = [{"role": "user", "content": "the quick brown fox"}]


@pytest.fixture(scope="module")
def data() -> bytes:
    """A small file with a template, and some weights after the header."""
    return gguf_bytes(bpe_keys(Key("tokenizer.chat_template", STRING, TEMPLATE))) + bytes(4_096)


@pytest.fixture(scope="module")
def manifested(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> Path:
    """The same file in a folder with the manifest that was made for it."""
    folder = tmp_path_factory.mktemp("gguf") / "mine"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(data)
    made = open_bundle(folder / "model.gguf").manifest
    manifest = replace(made, id="mine")
    (folder / "bundle.json").write_bytes(dump_manifest(ManifestFile(manifest, template_file="model.gguf")))
    return folder


def _opened(folder: Path) -> FolderBundle:
    bundle = open_bundle(folder)
    bundle.engine.encode("x")
    return bundle


def test_the_manifest_made_for_a_file_opens_it_as_the_same_bundle(manifested: Path) -> None:
    """Same digest, figures and ids; the manifest round-trips."""
    plain, stated = open_bundle(manifested / "model.gguf"), _opened(manifested)
    assert plain.manifest.digest == stated.manifest.digest
    assert plain.engine.encode_parsed("<|user|>the fox") == stated.engine.encode_parsed("<|user|>the fox")
    assert plain.template_source == stated.template_source
    parsed = parse_manifest((manifested / "bundle.json").read_bytes())
    assert parsed == parse_manifest(dump_manifest(parsed))
    assert plain.profile == stated.profile


def test_500_flips_and_50_cuts_of_a_manifested_header_are_a_mismatch(
    manifested: Path, data: bytes, tmp_path: Path
) -> None:
    """Whatever a flipped bit would have meant to the parser, the digest is compared first."""
    folder = shutil.copytree(manifested, tmp_path / "mine")
    draw, length = random.Random(11), parse_header(data, len(data)).length
    damaged = []
    for _ in range(500):
        one = bytearray(data)
        one[draw.randrange(length)] ^= 1 << draw.randrange(8)
        damaged.append(bytes(one))
    damaged += [data[: draw.randrange(length)] for _ in range(50)]
    codes = set()
    for one in damaged:
        (folder / "model.gguf").write_bytes(one)
        with pytest.raises(PlannerFault) as caught:
            _opened(folder)
        codes.add(caught.value.code)
    assert codes == {"bundle_mismatch"}


def test_a_flipped_bit_of_a_file_without_manifest_is_a_refusal_or_another_bundle(data: bytes, tmp_path: Path) -> None:
    """No bit of the header keeps the digest: 60 places of the tokenizer and everything before it."""
    path, wanted = tmp_path / "model.gguf", set()
    path.write_bytes(data)
    wanted.add(open_bundle(path).manifest.digest)
    draw, length = random.Random(12), parse_header(data, len(data)).length
    opened = 0
    for _ in range(60):
        one = bytearray(data)
        one[draw.randrange(length)] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(one))
        try:
            digest = open_bundle(path).manifest.digest
        except PlannerFault:
            continue
        opened += 1
        assert digest not in wanted
        wanted.add(digest)
    assert opened > 5


def test_other_weights_are_the_same_bundle(data: bytes, tmp_path: Path) -> None:
    """Weights change no id: neither their bytes nor their absence."""
    digests = set()
    for tail in (bytes(4_096), b"\x01" * 4_096, b""):
        (tmp_path / "model.gguf").write_bytes(data[:-4_096] + tail)
        digests.add(open_bundle(tmp_path / "model.gguf").manifest.digest)
    assert len(digests) == 1


def test_H38_a_header_swapped_after_hashing_is_a_mismatch(data: bytes, tmp_path: Path) -> None:
    """The oracle's second reading compares the bytes with the first one's."""
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    engine = open_bundle(path).parts[0].make_engine(())
    path.write_bytes(data.replace(CONTROLS[0].encode(), b"<|bogus|>"))
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        engine.encode_parsed("the fox")


def test_a_file_that_grows_while_it_is_read_is_a_mismatch(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is compared before and after."""
    from planner.bundles import gguf

    path = tmp_path / "model.gguf"
    path.write_bytes(data)

    def meddle(first: bytes, size: int) -> object:
        with path.open("ab") as handle:
            handle.write(b"x")
        return parse_header(first, size)

    monkeypatch.setattr(gguf, "parse_header", meddle)
    with pytest.raises(PlannerFault, match=r"bundle_mismatch: .*changed while"):
        open_bundle(path)


def test_a_template_of_another_byte_is_another_bundle(data: bytes, tmp_path: Path, manifested: Path) -> None:
    """Also where the manifest is altered to name the new header: the template has a digest of its own."""
    folder = shutil.copytree(manifested, tmp_path / "mine")
    other = data.replace(b"{{ m.content }}", b"{{ m.content}} ")
    (folder / "model.gguf").write_bytes(other)
    fresh = open_bundle(folder / "model.gguf").manifest
    assert fresh.digest != open_bundle(manifested / "model.gguf").manifest.digest
    stated = json.loads((folder / "bundle.json").read_bytes())
    stated["files"][0]["sha256"] = fresh.files[0].sha256
    (folder / "bundle.json").write_text(json.dumps(stated), encoding="utf-8")
    with pytest.raises(PlannerFault, match="bundle_mismatch: the chat template differs"):
        _opened(folder)
