"""What a person with a LiteRT-LM file does: count, plan, show and check by its path; what is refused, by which name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.files import FolderFiles
from planner.bundles.litertlm import read_sections
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.bundles.litertlm.small import FULL, GEMMA_LIKE, PIECES, TEMPLATE, TOKENIZER, with_tokenizer_json
from tests.bundles.samples import mixed_texts
from tests.cli.support import planner
from tests.support.litertlm_writer import (
    GEMMA3,
    METADATA,
    QWEN3,
    SENTENCEPIECE,
    TOKENIZER_JSON,
    WEIGHTS,
    litertlm_bytes,
    metadata,
    packed,
)

CHAT = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "the quick brown fox"},
]
TINY = [1, 479, 1252, 409, 314, 86, 201]


def written(tmp_path: Path, data: bytes, name: str = "model.litertlm") -> Path:
    """Write a file and return its path."""
    path = tmp_path / name
    path.write_bytes(data)
    return path


def plan(path: Path | str, **fields: object) -> Plan:
    """Plan the chat with a bundle."""
    answer = Planner(path).plan(messages=CHAT, max_input_tokens=500, reserved_output_tokens=8, **fields)
    assert isinstance(answer, Plan), answer
    return answer


def test_litertlm_a_file_with_a_template_is_planned_in_one_command(shared_dir: Path, tmp_path: Path) -> None:
    """From our own sample file and an OpenAI list to ids, the start token in front, once."""
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT), encoding="utf-8")
    path = shared_dir / "formats" / "litertlm" / "tiny_own.litertlm"
    done = planner("plan", "--chat", chat, "--bundle", path, "--reserve", "64", "--json")
    assert (0, "") == (done.code, done.err)
    ids = done.json["ids"]
    assert (0, 1, TINY) == (ids[0], ids[1], ids[-7:])
    assert 1 == ids.count(0)
    bundle = open_bundle(path)
    rows = "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in CHAT)
    wanted = f"<|endoftext|>{rows}<|im_start|>assistant\n"
    assert wanted == bundle.engine.decode(ids) == done.json["prompt"]
    assert list(bundle.engine.encode_parsed(wanted)) == ids
    assert (512, "litertlm") == (bundle.manifest.context_tokens, bundle.manifest.tokenizer_format)
    assert bundle.manifest.digest == done.json["receipt"]["bundleDigest"]


def test_litertlm_a_file_without_metadata_counts_as_the_same_tokenizer_does(
    shared_dir: Path, bundle_dir: Path, seed: int
) -> None:
    """The official sample holds the tokenizer of `smollm2`: equal ids; a chat is `bundle_has_no_template`."""
    path = shared_dir / "formats" / "litertlm" / "test_hf_tokenizer.litertlm"
    ours, theirs = open_bundle(path), open_bundle(bundle_dir / "smollm2")
    assert theirs.manifest.control_tokens == ours.manifest.control_tokens
    for text in mixed_texts(seed, 200):
        assert list(theirs.engine.encode(text).ids) == list(ours.engine.encode(text).ids)
    assert open_bundle(bundle_dir / "litertlm-hf").manifest.digest == ours.manifest.digest
    done = planner("count", "--text", "the quick brown fox", "--bundle", path)
    assert (0, "4") == (done.code, done.text.strip())
    with pytest.raises(PlannerFault, match="bundle_has_no_template"):
        Planner(ours).plan(messages=CHAT, max_input_tokens=1_000)
    assert "the file has no metadata section: no template, no context" in ours.manifest.warnings


def test_litertlm_a_tokenizer_and_template_give_the_ids_of_their_folder(tmp_path: Path) -> None:
    """The reference bundle packed into a file and read back is the same in every id of a plan."""
    ours, theirs = plan(written(tmp_path, FULL)), plan("reference")
    assert list(theirs.ids) == list(ours.ids)
    assert theirs.account == ours.account


def test_litertlm_prompt_affixes_are_planned_as_the_runtime_writes_them(tmp_path: Path) -> None:
    """A sentencepiece file of the older kind: start token by id, affixes around each text; the manifest says so."""
    path = written(tmp_path, PIECES)
    bundle = open_bundle(path)
    answer = plan(path)
    before, behind = GEMMA_LIKE[1]
    system = f"{GEMMA_LIKE[3][0]}{CHAT[0]['content']}{GEMMA_LIKE[3][1]}"
    wanted = f"<s>{system}{before}{CHAT[1]['content']}{behind}{GEMMA_LIKE[2][0]}"
    assert wanted == answer.prompt
    library = bundle.engine
    assert [1, *library.encode_parsed(wanted.removeprefix("<s>"))] == list(answer.ids)
    assert ("affixes", 1_024) == (bundle.manifest.template_entry, bundle.manifest.context_tokens)
    assert "the file holds no chat template; one is made from its prompt affixes" in bundle.manifest.warnings
    assert {"bos_token": "<s>", "eos_token": "</s>"}.items() <= dict(bundle.manifest.variables).items()
    tool = [{"role": "user", "content": "x"}, {"role": "tool", "content": "y", "tool_call_id": "1"}]
    assert not Planner(path).plan(messages=tool, max_input_tokens=500).accepted


def test_litertlm_a_kind_of_model_whose_template_lies_in_the_runtime_counts_only(tmp_path: Path) -> None:
    """Affixes alone say what gemma and generic models get; for others the runtime has text the file does not."""
    for kind, entry in ((QWEN3, None), (GEMMA3, "affixes"), (0, "affixes")):
        path = written(tmp_path, with_tokenizer_json(metadata(affixes={1: ("<|user|>", "<|end|>")}, kind=kind)))
        assert entry == open_bundle(path).manifest.template_entry
    path = written(tmp_path, with_tokenizer_json(metadata(affixes={1: ("<|user|>", "<|end|>")}, kind=QWEN3)))
    with pytest.raises(PlannerFault, match="bundle_has_no_template"):
        Planner(path).plan(messages=CHAT, max_input_tokens=1_000)
    assert any("a template of its own" in one for one in open_bundle(path).manifest.warnings)


def test_litertlm_the_start_token_stands_once_whoever_writes_it(tmp_path: Path) -> None:
    """Put in front where the template writes none, left alone where it writes it."""
    plain = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}"
    for template in (plain, "{{ bos_token }}" + plain, "<|begin|>" + plain):
        path = written(tmp_path, with_tokenizer_json(metadata(template=template, start="<|begin|>")))
        assert (0, 1) == ((ids := list(plan(path).ids))[0], ids.count(0))
    path = written(tmp_path, with_tokenizer_json(metadata(template=plain)))
    assert 0 not in plan(path).ids


def test_litertlm_shown_and_checked(tmp_path: Path) -> None:
    """The other commands take the path as they take a folder's; a folder with one such file is that file."""
    path = written(tmp_path, FULL)
    manifest = planner("bundle", "show", path, "--json").json["manifest"]
    assert ("litertlm", 2_048, "default") == (
        manifest["tokenizer_format"], manifest["context_tokens"], manifest["template_entry"],
    )  # fmt: skip
    done = planner("bundle", "check", tmp_path)
    assert (0, "") == (done.code, done.err)


REFUSED = {
    "no tokenizer": ([(METADATA, metadata(template="x"))], "bundle_incomplete"),
    "two tokenizers": ([(TOKENIZER_JSON, packed(TOKENIZER)), (SENTENCEPIECE, b"x")], "bundle_incomplete"),
    "two metadata sections": ([(METADATA, b""), (METADATA, b""), (TOKENIZER_JSON, packed(TOKENIZER))], "bundle_unsafe"),
    "foreign start token": (
        [(METADATA, metadata(start="<nowhere>", template="x")), (TOKENIZER_JSON, packed(TOKENIZER))], "bundle_mismatch",
    ),
    "several start tokens": (
        [(METADATA, metadata(start=[0, 1], template="x")), (TOKENIZER_JSON, packed(TOKENIZER))], "bundle_mismatch",
    ),
    "no tokenizer.json": ([(TOKENIZER_JSON, packed(b"{}"))], "tokenizer_failed"),
    "no sentencepiece": ([(SENTENCEPIECE, b"\x0a\x05hello")], "bundle_unsafe"),
    "template that does not compile": (
        [(METADATA, metadata(template="{% if %}")), (TOKENIZER_JSON, packed(TOKENIZER))], "template_rejected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_litertlm_what_is_wrong_with_a_file_has_its_code(tmp_path: Path, name: str) -> None:
    """Each refusal is a code of ours, with no exception of another library behind it."""
    sections, code = REFUSED[name]
    with pytest.raises(PlannerFault) as caught:
        open_bundle(written(tmp_path, litertlm_bytes(sections)))
    assert (code, None) == (caught.value.code, caught.value.__cause__)
    assert "nowhere" not in str(caught.value)


def test_litertlm_weights_are_never_read(tmp_path: Path) -> None:
    """Nor is their place: the identity is that of header, metadata and tokenizer, whatever the weights hold."""
    meta = metadata(template=TEMPLATE)
    first = with_tokenizer_json(meta, weights=b"A" * 100_000)
    other = with_tokenizer_json(meta, weights=b"B" * 100_000)
    paths = [written(tmp_path, data, f"{name}.litertlm") for name, data in (("one", first), ("two", other))]
    entries = [open_bundle(path).manifest.files[0] for path in paths]
    assert entries[0].sha256 == entries[1].sha256
    assert len(read_sections(FolderFiles(tmp_path), "one.litertlm").tokenizer) < entries[0].size_bytes < 60_000
    changed = first.replace(b"{#- The reference", b"{#- Our reference")
    other_entry = open_bundle(written(tmp_path, changed, "three.litertlm")).manifest.files[0]
    assert entries[0].sha256 != other_entry.sha256


def test_litertlm_a_file_cut_in_its_weights_is_planned_with_a_warning(tmp_path: Path) -> None:
    """Cut in the tokenizer, it is refused."""
    meta = metadata(template=TEMPLATE)
    data = litertlm_bytes([(METADATA, meta), (TOKENIZER_JSON, packed(TOKENIZER)), (WEIGHTS, bytes(90_000))])
    path = written(tmp_path, data[:-1_000])
    assert "the file ends before its weights do" in open_bundle(path).manifest.warnings
    assert plan(path).accepted
    with pytest.raises(PlannerFault, match="bundle_unsafe: LiteRT-LM: a section that is needed leads out of the file"):
        open_bundle(written(tmp_path, data[:40_000]))


def test_litertlm_a_manifest_names_the_file_and_its_digest_judges(tmp_path: Path) -> None:
    """A bundle.json over the file opens it; one changed byte of its tokenizer is another bundle."""
    path = written(tmp_path, FULL)
    made = open_bundle(path).manifest
    parsed = ManifestFile(replace(made, warnings=()), template_file="model.litertlm")
    (tmp_path / "bundle.json").write_bytes(dump_manifest(parsed))
    stated = open_bundle(tmp_path)
    assert made.digest == stated.manifest.digest
    assert list(plan(path).ids) == list(plan(tmp_path).ids)
    data = bytearray(FULL)
    data[FULL.index(packed(TOKENIZER)) + 9_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        open_bundle(tmp_path).engine.encode("x")


def test_litertlm_of_several_files_one_must_be_named(tmp_path: Path) -> None:
    """A folder with two whole models is refused; beside a tokenizer of its own they are ignored."""
    for name in ("one.litertlm", "two.litertlm"):
        written(tmp_path, FULL, name)
    with pytest.raises(PlannerFault, match="bundle_incomplete: the folder holds 2 whole models; name one of them"):
        open_bundle(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(TOKENIZER)
    assert "tokenizer_json" == open_bundle(tmp_path).manifest.tokenizer_format
