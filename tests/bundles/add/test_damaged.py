"""Damaged files: a bundle that was added notices every bit, and adding a damaged model never goes unnoticed.

Without a manifest a few damaged models of each kind are added by default, 550 with PLANNER_FULL=1.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.bundles.add import Wanted, add_bundle
from planner.bundles.files import FolderFiles
from planner.bundles.gguf import read_header
from planner.bundles.gguf_spm import write_model
from planner.bundles.gguf_vocab import read_gguf_vocabulary
from planner.bundles.open import open_bundle
from planner.values.reasons import CODES, PlannerFault
from tests.bundles.add.conftest import left_over, plain_copy
from tests.bundles.gguf.small import SPM, TEMPLATE, bpe_keys, chat_template
from tests.bundles.test_tekken import small
from tests.support.gguf_writer import gguf_bytes

FULL = os.environ.get("PLANNER_FULL") == "1"
FLIPS, CUTS = 500, 50
PLAIN_TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[a] {% endif %}"
)
KINDS = {
    "tokenizer.json": "folder",
    "tokenizer_config.json": "folder",
    "chat_template.jinja": "folder",
    "tokenizer.model": "scores",
    "tekken.json": "tekken",
    "model.gguf": "gguf",
}
"""Each kind of file, and the model it is damaged in."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small model of each format."""
    root = tmp_path_factory.mktemp("models")
    plain_copy(root / "folder")
    for name in ("scores", "tekken", "gguf"):
        (root / name).mkdir()
    (root / "gguf" / "model.gguf").write_bytes(gguf_bytes(bpe_keys(chat_template(TEMPLATE))))
    (root / "scores.gguf").write_bytes(SPM)
    vocabulary = read_gguf_vocabulary(read_header(FolderFiles(root), "scores.gguf"))
    (root / "scores" / "tokenizer.model").write_bytes(write_model(vocabulary))
    (root / "tekken" / "tekken.json").write_text(json.dumps(small(pattern=r"\p{L}+|[^\p{L}]")), encoding="utf-8")
    for name in ("scores", "tekken"):
        (root / name / "chat_template.jinja").write_text(PLAIN_TEMPLATE, encoding="utf-8")
    return root


def damaged(data: bytes, seed: str, flips: int, cuts: int) -> Iterator[bytes]:
    """Yield copies with one bit flipped, then copies that end early."""
    draw = random.Random(seed)
    for _ in range(flips):
        one = bytearray(data)
        one[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        yield bytes(one)
    for _ in range(cuts):
        yield data[: draw.randrange(len(data))]


@pytest.mark.parametrize("name", KINDS)
def test_every_flipped_bit_and_every_cut_of_an_added_file_is_a_mismatch(
    models: Path, measured: Path, tmp_path: Path, seed: int, name: str
) -> None:
    """500 flips and 50 cuts of each kind: all are refused by that one code, before anything is parsed."""
    if name == "tekken.json":
        pytest.importorskip("tiktoken")
    add_bundle(Wanted(models / KINDS[name], id="m"), tmp_path, cache_dir=measured)
    path = tmp_path / "m" / name
    codes = []
    for data in damaged(path.read_bytes(), f"{seed} {name}", FLIPS, CUTS):
        path.write_bytes(data)
        with pytest.raises(PlannerFault) as caught:
            _ = open_bundle("m", user_folder=tmp_path).engine
        codes.append(caught.value.code)
    assert ["bundle_mismatch"] * (FLIPS + CUTS) == codes


# A flipped bit may make an escape that Python will not know one day; the template engine only warns.
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_model_is_refused_or_another_bundle(
    models: Path, measured: Path, tmp_path: Path, seed: int, name: str
) -> None:
    """Whatever the damage makes of a file, the digest is never that of the whole one, and a refusal leaves nothing."""
    if name == "tekken.json":
        pytest.importorskip("tiktoken")
    own, model = tmp_path / "own", shutil.copytree(models / KINDS[name], tmp_path / "model")
    whole = add_bundle(Wanted(model, id="whole"), own, cache_dir=measured).manifest.digest
    codes, digests = set(), set()
    flips, cuts = (FLIPS, CUTS) if FULL else (4, 2)
    for data in damaged((model / name).read_bytes(), f"{seed} {name} plain", flips, cuts):
        (model / name).write_bytes(data)
        try:
            digests.add(add_bundle(Wanted(model, id="m", replace=True), own, cache_dir=None).manifest.digest)
        except PlannerFault as fault:
            codes.add(fault.code)
            assert set(left_over(own)) <= {"whole", "m"}
        (model / name).write_bytes((models / KINDS[name] / name).read_bytes())
    assert whole not in digests
    assert codes <= {code for code, row in CODES.items() if row.kind == "fault"} - {"environment"}
    assert codes or digests
