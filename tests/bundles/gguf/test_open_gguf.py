"""What a person with a GGUF file does: count, plan, show and check by its path; what is refused, by which name.

Two files with a template by default, every one with PLANNER_FULL=1.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.bundles.gguf_pre import GEMMA4, SPLITTING
from planner.bundles.open import open_bundle
from planner.bundles.patterns import check_pattern
from planner.planner import Planner
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.conftest import WITH_TEMPLATE, vocabulary_path
from tests.bundles.gguf.small import BPE, TEMPLATE, bpe_keys, changed, chat_template, flag, without
from tests.cli.support import planner
from tests.support.gguf_writer import ARRAY, Key

FULL = os.environ.get("PLANNER_FULL") == "1"
Write = Callable[[list[Key]], Path]
CHAT = [{"role": "user", "content": "the quick brown fox"}]


@pytest.mark.parametrize("name", WITH_TEMPLATE if FULL else ("phi-3", "qwen2"))
def test_R220_a_gguf_file_with_a_template_is_planned_in_one_command(gguf_dir: Path, tmp_path: Path, name: str) -> None:
    """Bundle formats: from the file and an OpenAI list to ids, without a manifest or a folder."""
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT), encoding="utf-8")
    path = str(vocabulary_path(gguf_dir, name))
    done = planner("plan", "--chat", chat, "--window", "2048", "--bundle", path, "--json")
    assert (0, "") == (done.code, done.err)
    bundle = open_bundle(path)
    assert "the quick brown fox" in bundle.engine.decode(done.json["ids"])
    assert bundle.manifest.digest == done.json["receipt"]["bundleDigest"]


def test_a_gguf_file_is_counted_shown_and_checked(reference_gguf: Path) -> None:
    """The three other commands take the path as they take a folder's."""
    path = str(reference_gguf)
    text = "the quick brown fox"
    wanted = len(open_bundle("reference").engine.encode(text).ids)
    assert wanted == int(planner("count", "--text", text, "--bundle", path).text)
    manifest = planner("bundle", "show", path, "--json").json["manifest"]
    assert ("gguf", 512) == (manifest["tokenizer_format"], manifest["context_tokens"])
    assert (1, [1], 8, 8) == (
        manifest["kv"]["layers"], manifest["kv"]["kv_heads"], manifest["kv"]["key_length"],
        manifest["kv"]["value_length"],
    )  # fmt: skip
    done = planner("bundle", "check", path)
    assert (0, "") == (done.code, done.err)


def test_the_reference_model_has_the_ids_of_the_reference_bundle(reference_gguf: Path) -> None:
    """Written as GGUF and read back, tokenizer and template are the same in every id of a plan."""
    ours, theirs = open_bundle(reference_gguf), open_bundle("reference")
    plans = [
        Planner(bundle).plan(messages=CHAT, max_input_tokens=500, reserved_output_tokens=8) for bundle in (ours, theirs)
    ]
    assert all(plan.accepted for plan in plans)
    assert bytes(plans[0].ids) == bytes(plans[1].ids)
    assert ours.manifest.control_tokens == theirs.manifest.control_tokens


def test_a_file_without_template_counts_only(write: Write) -> None:
    """Counting works; planning says bundle_has_no_template; check says what was left out."""
    path = write(bpe_keys())
    bundle = open_bundle(path)
    assert len(bundle.engine.encode("the fox").ids) == 3
    with pytest.raises(PlannerFault, match="bundle_has_no_template"):
        Planner(bundle).plan(messages=CHAT, max_input_tokens=1_000)
    done = planner("bundle", "check", path)
    assert done.code == 0
    assert "it can only count" in done.text


def test_the_real_gemma_3_header_counts_as_its_folder_does(bundle_dir: Path) -> None:
    """Two files of one model by two makers, scores in one and merges in the other: the same ids of texts."""
    from tests.bundles.samples import mixed_texts

    gguf = open_bundle(bundle_dir / "gemma-3-270m-gguf" / "gemma-3-270m-meta.gguf")
    folder = open_bundle(bundle_dir / "gemma-3")
    assert (gguf.manifest.context_tokens, gguf.manifest.template_digest) == (32_768, None)
    assert (512, 18) == (gguf.manifest.kv.sliding_window, gguf.manifest.kv.layers)  # type: ignore[union-attr]
    for text in mixed_texts(5, 150):
        assert list(folder.engine.encode(text).ids) == list(gguf.engine.encode(text).ids)


@pytest.mark.parametrize("model", ["bert", "t5", "rwkv", "plamo2", "no_vocab", "(a+)+b"])
def test_other_tokenizer_models_are_refused_by_name(write: Write, model: str) -> None:
    """WordPiece, Unigram and the rest: the detail names the model."""
    with pytest.raises(PlannerFault) as caught:
        open_bundle(write(changed(bpe_keys(), "tokenizer.ggml.model", model)))
    assert ("format_not_supported", f"GGUF tokenizer model {model!a}") == (caught.value.code, caught.value.detail)


def test_H33_a_splitting_rule_is_a_name_and_an_unknown_name_is_refused(write: Write) -> None:
    """A file cannot bring a rule of its own, so none that runs away; no name is taken for another."""
    for name in ("(a+)+b", "qwen3-next", "", "GPT-2"):
        with pytest.raises(PlannerFault, match=r"format_not_supported: GGUF tokenizer\.ggml\.pre"):
            open_bundle(write(bpe_keys(pre=name)))
    with pytest.raises(PlannerFault, match=r"format_not_supported: .* without tokenizer\.ggml\.pre"):
        open_bundle(write(without(bpe_keys(), "tokenizer.ggml.pre")))
    for splitting in (*SPLITTING.values(), GEMMA4):
        for rule in splitting.rules:
            check_pattern(rule)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system makes no links")
def test_H36_a_linked_file_is_refused(tmp_path: Path) -> None:
    """The header of a file elsewhere is not read, by path or from a folder."""
    (tmp_path / "elsewhere.gguf").write_bytes(BPE)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.symlink(tmp_path / "elsewhere.gguf", folder / "model.gguf")
    for ref in (folder, folder / "model.gguf"):
        with pytest.raises(PlannerFault, match=r"bundle_path: model\.gguf is a link"):
            open_bundle(ref)


def test_H37_pickles_and_code_beside_the_file_are_named_and_never_opened(tmp_path: Path) -> None:
    """A folder with one GGUF file loads; the canary that a pickle would write is not there."""
    canary = tmp_path / "canary"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(BPE)

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {canary}",)

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    (folder / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": "evil.Evil"}}', encoding="utf-8")
    (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')", encoding="utf-8")
    manifest = open_bundle(folder).manifest
    assert ("ignored files: evil.py, pytorch_model.bin, tokenizer_config.json",) == manifest.warnings
    assert ["model.gguf"] == [entry.path for entry in manifest.files]
    assert not canary.exists()


def test_of_several_gguf_files_one_must_be_named(tmp_path: Path) -> None:
    """Two quantizations may differ in their headers; nothing is guessed."""
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(BPE)
    with pytest.raises(PlannerFault, match="bundle_incomplete: the folder holds 2 GGUF files"):
        open_bundle(tmp_path)
    assert "a" == open_bundle(tmp_path / "a.gguf").manifest.id


def test_named_templates_are_listed_and_the_default_one_is_used(write: Write) -> None:
    """With a default the others are a warning; a single named one is used; several without default are not."""
    tool, rag = chat_template(TEMPLATE + "!", "tool_use"), chat_template(TEMPLATE + "?", "rag")
    listing = Key("tokenizer.chat_templates", ARRAY, ["tool_use", "rag"])
    manifest = open_bundle(write(bpe_keys(chat_template(), tool, rag, listing))).manifest
    assert "default" == manifest.template_entry
    assert ("the file names 3 templates, of which default is used: rag, tool_use",) == manifest.warnings
    bundle = open_bundle(write(bpe_keys(tool)))
    assert ("tool_use", TEMPLATE + "!") == (bundle.manifest.template_entry, bundle.template_source)
    bundle = open_bundle(write(bpe_keys(tool, rag)))
    assert bundle.manifest.template_digest is None
    assert "none of which is the default one" in bundle.manifest.warnings[0]


def _plan_ids(path: Path) -> list[int]:
    answer = Planner(open_bundle(path)).plan(messages=CHAT, max_input_tokens=1_000)
    assert answer.accepted
    return list(answer.ids)


def test_the_begin_token_stands_once_by_the_files_rule(write: Write) -> None:
    """Written by the template, put in front where the file asks and the template does not, absent otherwise."""
    bare = TEMPLATE.removeprefix("{{ bos_token }}")
    unused = "{% if false %}{{ bos_token }}{% endif %}" + bare
    ids = {name: _plan_ids(write(bpe_keys(chat_template(text), *extra))) for name, text, extra in (
        ("written", TEMPLATE, ()),
        ("written and asked for", TEMPLATE, (flag("add_bos_token", True),)),
        ("asked for", bare, (flag("add_bos_token", True),)),
        ("asked for, named and not written", unused, (flag("add_bos_token", True),)),
        ("neither", bare, (flag("add_bos_token", False),)),
        ("by default of the rule", bare, ()),
    )}  # fmt: skip
    bos = next(key.value for key in bpe_keys() if key.name == "tokenizer.ggml.bos_token_id")
    assert ids["written"] == ids["written and asked for"] == ids["asked for"]
    assert ids["asked for"] == ids["asked for, named and not written"] == [bos, *ids["neither"]]
    assert ids["neither"] == ids["by default of the rule"]
    assert bos not in ids["neither"]
    llama3 = changed(bpe_keys(chat_template(bare)), "tokenizer.ggml.pre", "llama-bpe")
    assert _plan_ids(write(llama3))[0] == bos


def test_a_wish_for_an_end_token_after_the_prompt_is_a_warning(write: Write) -> None:
    """A plan ends where the answer begins."""
    manifest = open_bundle(write(bpe_keys(chat_template(), flag("add_eos_token", True)))).manifest
    assert "asks for an end token" in manifest.warnings[0]


def test_weights_that_end_early_are_a_warning(reference_gguf: Path, tmp_path: Path) -> None:
    """A beginning of a model file is enough to plan with, and says so."""
    path = tmp_path / "reference.gguf"
    path.write_bytes(reference_gguf.read_bytes()[:-8_000])
    cut, whole = open_bundle(path).manifest, open_bundle(reference_gguf).manifest
    assert (("the file ends before its weights do",), ()) == (cut.warnings, whole.warnings)
    assert cut.digest == whole.digest
