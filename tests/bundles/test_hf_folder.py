"""Plain model folders: what a folder says, what is refused by which name, which tokens are control tokens."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from planner.bundles.digest import bundle_digest
from planner.bundles.hf_folder import open_folder
from planner.values.bundle import Adapter, ControlToken, FileEntry, Manifest, Tier
from planner.values.reasons import PlannerFault
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.bundles.test_tokenizer_json import tiny, write_folder

TEMPLATE = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{{ m.content }}{{ '<end>\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("folder", "code", "words"),
    [
        ("config-only", "bundle_incomplete", "no tokenizer"),
        ("lfs-pointer", "bundle_unsafe", "Git LFS pointer"),
        ("spm-only-junk-name", "bundle_unsafe", "neither a sentencepiece model nor tiktoken"),
        ("truncation-padding", "bundle_unsafe", "259 entries is below the floor.*truncation and padding"),
        ("wrong-class-grows-vocab", "bundle_mismatch", "'LlamaTokenizer' adds ids.*bos_token and eos_token"),
    ],
)
def test_each_broken_folder_is_refused_by_what_is_wrong_with_it(
    shared_dir: Path, folder: str, code: str, words: str
) -> None:
    """Code and detail tell the user what to do about it."""
    with pytest.raises(PlannerFault, match=words) as caught:
        open_folder(shared_dir / "bundles_negative" / folder)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "controls", "context"),
    [
        ("qwen3-0.6b", 26, 131_072),
        ("phi-3-mini", 13, 4_096),
        ("smollm2", 17, 8_192),
        ("mistral-v1-fast", 3, None),
        ("mistral-v3-spm", 750, None),
    ],
)
def test_control_tokens_and_context_of_real_folders(
    bundle_dir: Path, name: str, controls: int, context: int | None
) -> None:
    """Qwen's 12 unflagged tokens are among them; a context of 1e30 counts as unstated."""
    manifest = open_folder(bundle_dir / name).manifest
    assert controls == len(manifest.control_tokens)
    assert context == manifest.context_tokens
    assert manifest.encode_mode == "runs"


def test_swallowing_control_tokens_say_so(bundle_dir: Path) -> None:
    """Phi-3's <|user|> swallows whitespace after it; planning must know."""
    tokens = {token.text: token for token in open_folder(bundle_dir / "phi-3-mini").manifest.control_tokens}
    assert tokens["<|user|>"].rstrip
    assert not tokens["<s>"].rstrip


def test_tokens_of_the_template_are_control_tokens_and_others_are_text(tmp_path: Path) -> None:
    """Shaped, written and composed tokens are control; whitespace and the rest are text."""
    tokenizer = tiny()
    names = ["<end>", "<user>", "<|shaped|>", "<｜wide｜>", "<other>", "\n\n"]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in names])
    bundle = open_folder(write_folder(tmp_path / "m", tokenizer, chat_template=TEMPLATE))
    controls = {token.text for token in bundle.manifest.control_tokens}
    assert controls == {"<|end|>", "<end>", "<user>", "<|shaped|>", "<｜wide｜>"}
    assert bundle.text_tokens == ("<other>", "\n\n")


def test_a_named_eos_that_is_an_ordinary_entry_is_a_control_token(tmp_path: Path) -> None:
    """The configuration's eos is control even where the file does not list it as added token."""
    tokenizer = tiny()
    entry = next(text for text in tokenizer.get_vocab() if len(text) == 2)
    manifest = open_folder(write_folder(tmp_path / "m", tokenizer, eos_token=entry)).manifest
    found = {token.text: token.id for token in manifest.control_tokens}
    assert found[entry] == tokenizer.token_to_id(entry)


def test_the_jinja_file_wins_over_the_configuration_and_a_warning_says_so(tmp_path: Path) -> None:
    """Two templates that differ are not silently chosen between; two that are equal are no warning."""
    folder = write_folder(tmp_path / "m", tiny(), chat_template="{{ 'inner' }}")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    bundle = open_folder(folder)
    assert bundle.template_source == TEMPLATE
    assert any("different templates" in text for text in bundle.parts[1].warnings)
    (folder / "chat_template.jinja").write_text("{{ 'inner' }}", encoding="utf-8")
    assert not open_folder(folder).parts[1].warnings


def test_named_templates_give_the_default_one(tmp_path: Path) -> None:
    """A list of templates gives `default`; `tool_use` is taken only where a manifest says so."""
    rows = [{"name": "tool_use", "template": "{{ 'tools' }}"}, {"name": "default", "template": TEMPLATE}]
    bundle = open_folder(write_folder(tmp_path / "m", tiny(), chat_template=rows))
    assert bundle.template_source == TEMPLATE
    assert bundle.parts[1].template_entry == "default"


def test_a_folder_without_template_counts(tmp_path: Path) -> None:
    """Counting works; the template is refused by its own code."""
    bundle = open_folder(write_folder(tmp_path / "m", tiny()))
    assert len(bundle.engine.encode_ids("hello")) > 0
    assert bundle.manifest.template_digest is None
    with pytest.raises(PlannerFault, match="bundle_has_no_template"):
        _ = bundle.template_source


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"model_max_length": 4_096}, 4_096),
        ({"model_max_length": 10**30}, None),
        ({"model_max_length": 10**9}, None),
        ({"model_max_length": 0}, None),
        ({"model_max_length": True}, None),
        ({"model_max_length": "big"}, None),
        ({}, None),
    ],
)
def test_nonsense_contexts_count_as_unstated(tmp_path: Path, stated: dict[str, Any], expected: int | None) -> None:
    """Only a positive integer below 1e9 is a context."""
    assert expected == open_folder(write_folder(tmp_path / "m", tiny(), **stated)).manifest.context_tokens


def test_the_smaller_of_two_contexts_is_taken(tmp_path: Path) -> None:
    """config.json and tokenizer_config.json may disagree; the model cannot do more than the smaller."""
    folder = write_folder(tmp_path / "m", tiny(), model_max_length=131_072)
    (folder / "config.json").write_text('{"text_config": {"max_position_embeddings": 40960}}', encoding="utf-8")
    assert open_folder(folder).manifest.context_tokens == 40_960


def test_weights_and_code_are_ignored_with_a_warning_and_never_opened(tmp_path: Path) -> None:
    """Files that are not named are listed, not read: an unreadable one does no harm."""
    folder = write_folder(tmp_path / "m", tiny(), auto_map={"AutoTokenizer": ["own.Tokenizer", None]})
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n.")
    (folder / "own.py").write_text("raise SystemExit", encoding="utf-8")
    os.symlink("/nowhere", folder / "model.safetensors")
    warnings = " ".join(open_folder(folder).manifest.warnings)
    for name in ("pytorch_model.bin", "own.py", "model.safetensors", "auto_map"):
        assert name in warnings


def test_the_digest_follows_what_changes_ids_and_nothing_else(tmp_path: Path) -> None:
    """Another template, variable or tokenizer byte is another bundle; another folder name is not."""
    first = open_folder(write_folder(tmp_path / "a", tiny(), chat_template=TEMPLATE)).manifest
    same = open_folder(write_folder(tmp_path / "b", tiny(), chat_template=TEMPLATE)).manifest
    assert (first.id, first.digest) == ("a", same.digest)
    changed = [
        write_folder(tmp_path / "c", tiny(), chat_template=TEMPLATE + " "),
        write_folder(tmp_path / "d", tiny(), chat_template=TEMPLATE, eos_token="<|end|>"),
    ]
    other = tiny()
    other.add_tokens([AddedToken("<|more|>", special=True)])
    changed.append(write_folder(tmp_path / "e", other, chat_template=TEMPLATE))
    assert len({first.digest, *(open_folder(folder).manifest.digest for folder in changed)}) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"adapter": Adapter((FileEntry("a", 1, "0"),))},
        {"base_model": "other/model"},
        {"concessions": ("join_same_role",)},
        {"control_tokens": ()},
        {"encode_mode": "whole"},
        {"files": ()},
        {"prefix_space": "each_stretch"},
        {"rewrites": ("x",)},
        {"runtime": Runtime(RUNTIMES["llama.cpp"])},
        {"template_digest": "0"},
        {"template_entry": "tool_use"},
        {"tokenizer_format": "tekken"},
        {"variables": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_field_that_can_change_ids_is_part_of_the_identity(change: dict[str, Any]) -> None:
    """One changed field, another digest; the id, tiers, context and licence are not part of it."""
    control = ControlToken("<|end|>", 600)
    manifest = Manifest(
        "m", "", "tokenizer_json", (FileEntry("x", 1, "0"),), "1", "default", variables={"eos_token": "x"},
        control_tokens=(control,),
    )  # fmt: skip
    same = replace(manifest, id="n", tiers=(Tier("4k", 4_096),), context_tokens=1, licence="l", warnings=("w",))
    assert bundle_digest(manifest) == bundle_digest(same)
    assert bundle_digest(manifest) != bundle_digest(replace(manifest, **change))


def test_both_spellings_of_a_named_token_are_read(tmp_path: Path) -> None:
    """A token may be a text or an object; an older folder keeps it in special_tokens_map.json."""
    folder = write_folder(tmp_path / "m", tiny(), bos_token=None)
    legacy = {"eos_token": {"content": "<|end|>", "lstrip": False}, "pad_token": "<|end|>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(legacy), encoding="utf-8")
    assert open_folder(folder).manifest.variables == {"eos_token": "<|end|>", "pad_token": "<|end|>"}


def test_the_vocabulary_floor_lets_small_real_vocabularies_pass(tmp_path: Path) -> None:
    """601 entries pass, a byte alphabet alone does not."""
    assert open_folder(write_folder(tmp_path / "m", tiny())).engine.vocab_size == 601


def test_an_empty_folder_and_an_absent_one_differ(tmp_path: Path) -> None:
    """Nothing there is bundle_not_found; nothing in it is bundle_incomplete."""
    with pytest.raises(PlannerFault, match="bundle_incomplete"):
        open_folder(tmp_path)
    with pytest.raises(PlannerFault, match="bundle_not_found"):
        open_folder(tmp_path / "absent")


def test_several_model_files_are_not_chosen_between(bundle_dir: Path, tmp_path: Path) -> None:
    """Two versions of a `.model` beside each other: the fault names both."""
    for name in ("tokenizer.model.v1", "tokenizer.model.v3"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(PlannerFault, match=r"bundle_incomplete: .*v1, tokenizer.model.v3"):
        open_folder(tmp_path)
