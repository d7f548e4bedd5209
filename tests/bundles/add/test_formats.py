"""R220: every format loads the tokenizer and template that its files really hold, or is refused by its name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
from tokenizers import Tokenizer

from planner.bundles.bundle import FolderBundle
from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.bundles.add.conftest import Add, left_over
from tests.bundles.gguf.conftest import vocabulary_path
from tests.bundles.gguf.small import SPM, TEMPLATE, bpe_keys, changed, chat_template
from tests.bundles.gguf.test_gold_pairs import read_pairs
from tests.support.gguf_writer import gguf_bytes

FULL = os.environ.get("PLANNER_FULL") == "1"
TEXTS = (
    "The quick brown fox, 42 of them.",
    "  two  spaces\n\n\tand a tab",
    "夜班 naïve Größe 🙂",
    "def f(x):\n    return x",
)
Judge = Callable[[Path, str], list[int]]


def by_tokenizers(folder: Path, text: str) -> list[int]:
    """Ids by the library itself."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def by_sentencepiece(folder: Path, text: str) -> list[int]:
    """Ids by the library itself."""
    (model,) = folder.glob("*.model*")
    ids: list[int] = sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes()).encode(text)
    return ids


def by_mistral(folder: Path, text: str) -> list[int]:
    """Ids by the publisher's own reader."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return Tekkenizer.from_file(folder / "tekken.json").encode(text, bos=False, eos=False)


def by_twin(folder: Path, text: str) -> list[int]:
    """Ids by the tokenizer.json of the same model: two files, one tokenizer."""
    return by_tokenizers(folder.with_name("qwen3-0.6b"), text)


FOLDERS: dict[str, tuple[str, Judge]] = {
    "smollm2": ("tokenizer_json", by_tokenizers),
    "qwen3-slow": ("vocab_merges", by_twin),
    "llama-2-spm": ("sentencepiece", by_sentencepiece),
    "mistral-v3-spm": ("sentencepiece", by_sentencepiece),
    "litert-spm": ("sentencepiece", by_sentencepiece),
    "mistral-nemo-tekken": ("tekken", by_mistral),
}
JSON_FOLDERS = ("phi-3-mini", "mistral-v1-fast", "llama-3.1", "llama-3.2", "deepseek-v3", "gpt-oss", "gemma-3")
MORE: dict[str, tuple[str, Judge]] = {
    **dict.fromkeys(JSON_FOLDERS, ("tokenizer_json", by_tokenizers)),
    "mistral-v1-spm": ("sentencepiece", by_sentencepiece),
}


def published_template(folder: Path) -> str | None:
    """The template as the files hold it, read plainly."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    config = folder / "tokenizer_config.json"
    value = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    found = value.get("chat_template")
    return found if isinstance(found, str) else None


def _template_of(bundle: FolderBundle) -> str | None:
    return None if bundle.manifest.template_digest is None else bundle.template_source


@pytest.mark.parametrize("name", [*FOLDERS, *MORE] if FULL else FOLDERS)
def test_R220_bundle_formats(add: Add, own: Path, bundle_dir: Path, name: str) -> None:
    """A folder that was added has the ids of the format's own library and the template of the files."""
    kind, judge = (FOLDERS | MORE)[name]
    if judge is by_mistral:
        pytest.importorskip("mistral_common")
    assert kind == add(bundle_dir / name, id="m").manifest.tokenizer_format
    bundle = open_bundle("m", user_folder=own)
    assert published_template(bundle_dir / name) == _template_of(bundle)
    for text in TEXTS:
        assert judge(bundle_dir / name, text) == list(bundle.engine.encode_parsed(text))


@pytest.mark.parametrize("name", ["phi-3", "qwen2", "llama-bpe", "gpt-2", "llama-spm"] if FULL else ["phi-3", "gpt-2"])
def test_R220_bundle_formats_gguf(add: Add, own: Path, shared_dir: Path, gguf_dir: Path, name: str) -> None:
    """The published ids of the file, and its template where it has one."""
    added = add(vocabulary_path(gguf_dir, name), id="m")
    bundle = open_bundle("m", user_folder=own)
    assert ("gguf", name in ("phi-3", "qwen2")) == (
        added.manifest.tokenizer_format,
        bundle.manifest.template_digest is not None,
    )
    for text, ids in read_pairs(shared_dir, name):
        assert ids == list(bundle.engine.encode_parsed(text))


def test_R220_bundle_formats_genai(add: Add, own: Path, model: Path) -> None:
    """ONNX Runtime GenAI: the folder's own tokenizer and template, the context of genai_config.json."""
    config = {"model": {"type": "llama", "context_length": 3_072, "eos_token_id": [1, 2]}, "search": {"max_length": 9}}
    (model / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
    (model / "model.onnx").write_bytes(b"x")
    (model / "model.onnx.data").write_bytes(b"x")
    added = add(model, id="m")
    assert (3_072, "weights are not read: model.onnx, model.onnx.data") == (
        added.manifest.context_tokens,
        added.warnings[0],
    )
    bundle = open_bundle("m", user_folder=own)
    assert by_tokenizers(model, TEXTS[0]) == list(bundle.engine.encode_parsed(TEXTS[0]))
    assert published_template(model) == bundle.template_source


@pytest.mark.parametrize(
    ("stops", "lines"),
    [
        ("end", []),
        (0, ["genai_config.json ends answers at other ids than the end token of tokenizer_config.json"]),
        (["end", 1 << 20], ["genai_config.json ends answers at ids that the tokenizer does not have"]),
        (None, []),
    ],
)
def test_the_end_token_of_genai_config_is_compared(add: Add, model: Path, stops: object, lines: list[str]) -> None:
    """One id or several; `end` stands for the id of the tokenizer's own end token."""
    named = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))["eos_token"]
    end = Tokenizer.from_file(str(model / "tokenizer.json")).token_to_id(named)
    stated = json.loads(json.dumps(stops).replace('"end"', str(end)))
    config = {"model": {"context_length": 3_072, "eos_token_id": stated}}
    (model / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert lines == [line for line in add(model).warnings if "genai_config" in line]


def test_a_template_of_a_processor_is_read_where_no_other_file_has_one(add: Add, own: Path, model: Path) -> None:
    """chat_template.json; beside chat_template.jinja it is not read and not copied."""
    (model / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}), encoding="utf-8")
    assert published_template(model) == add(model, id="both").bundle.template_source
    assert not (own / "both" / "chat_template.json").exists()
    (model / "chat_template.jinja").unlink()
    expected = open_bundle(model).manifest.digest
    assert expected == add(model, id="one").manifest.digest
    bundle = open_bundle("one", user_folder=own)
    assert TEMPLATE == bundle.template_source
    assert bundle.profile.template_digest == bundle.manifest.template_digest


def test_further_templates_in_a_folder_of_their_own_are_named(add: Add, model: Path) -> None:
    """One of them can be taken with --template."""
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "rag.jinja").write_text("x", encoding="utf-8")
    (line,) = [line for line in add(model).warnings if "additional_chat_templates" in line]
    assert line.startswith("the templates in additional_chat_templates are not read")


def test_names_of_special_tokens_in_a_file_of_their_own_are_kept(add: Add, own: Path, model: Path) -> None:
    """Older folders have special_tokens_map.json: the added bundle plans as the folder does."""
    config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    names = {name: config.pop(name) for name in ("bos_token", "eos_token") if name in config}
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (model / "special_tokens_map.json").write_text(json.dumps(names), encoding="utf-8")
    by_path, added = open_bundle(model), add(model, id="m")
    assert by_path.manifest.digest == added.manifest.digest
    by_id = open_bundle("m", user_folder=own)
    assert names["eos_token"] == by_id.manifest.variables["eos_token"]
    chat = [{"role": "user", "content": "hello"}]
    plans = [Planner(bundle).plan(messages=chat) for bundle in (by_path, by_id)]
    assert isinstance(plans[0], Plan)
    assert isinstance(plans[1], Plan)
    assert list(plans[0].ids) == list(plans[1].ids)


def test_R220_bundle_formats_mlx(add: Add, own: Path, model: Path) -> None:
    """An MLX folder is a Hugging Face folder with other weights; the smallest stated context counts."""
    config = {"max_position_embeddings": 8_192, "quantization": {"bits": 4}, "text_config": {"n_ctx": 4_096}}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (model / "model.safetensors.index.json").write_bytes(b"{}")
    (model / "weights.npz").write_bytes(b"x")
    added = add(model, id="m")
    assert 4_096 == added.manifest.context_tokens
    assert "weights are not read: model.safetensors.index.json, weights.npz" in added.warnings
    assert any(line.startswith("the files state different contexts, 4,096") for line in added.warnings)
    assert (own / "m" / "config.json").is_file()


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (gguf_bytes(changed(bpe_keys(), "tokenizer.ggml.model", "bert")), "format_not_supported", "'bert'"),
        (gguf_bytes(bpe_keys(pre="unheard-of")), "format_not_supported", "'unheard-of'"),
        (gguf_bytes(bpe_keys()[:2]), "bundle_incomplete", "no tokenizer"),
        (SPM[:-100], "bundle_unsafe", "leads out of the file"),
        (b"PK\x03\x04", "bundle_unsafe", "does not begin as one"),
    ],
)
def test_R220_bundle_formats_refused_by_name(
    add: Add, own: Path, tmp_path: Path, data: bytes, code: str, words: str
) -> None:
    """No other tokenizer is taken in place of one that cannot be read, and nothing is left."""
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(PlannerFault, match=words) as caught:
        add(path)
    assert (code, []) == (caught.value.code, left_over(own))


def test_every_shared_folder_is_in_the_table(shared_dir: Path) -> None:
    """A folder that is added to the shared data is not forgotten here; GGUF and LiteRT-LM files have tests apart."""
    entries = json.loads((shared_dir / "bundles" / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    others = {"deepseek-v4-notemplate", "gemma-3-270m-gguf", "gguf_vocab", "litertlm-hf", "qwen3-0.6b", "templates"}
    assert {entry["bundle"] for entry in entries} - others == {*FOLDERS, *MORE}


def test_of_several_templates_the_default_one_is_taken_and_the_others_are_named(add: Add, tmp_path: Path) -> None:
    """In a GGUF file; a folder's configuration says the same."""
    path = tmp_path / "several.gguf"
    keys = bpe_keys(chat_template(), chat_template("{{ messages[0].content }}", "tool_use"))
    path.write_bytes(gguf_bytes(keys))
    added = add(path)
    assert TEMPLATE == added.bundle.template_source
    assert "the file names 2 templates, of which default is used: tool_use" in added.warnings


def test_a_configuration_that_disagrees_with_the_tokenizer_is_told(add: Add, model: Path) -> None:
    """The tokenizer's own file counts; where the configuration says otherwise, the ids are listed."""
    path = model / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    own = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    table = {str(one["id"]): {"content": one["content"], "special": one["special"]} for one in own}
    first, second = sorted(table, key=int)[:2]
    table[first]["special"], table[second]["content"] = not table[first]["special"], "<|unheard-of|>"
    path.write_text(json.dumps(config | {"added_tokens_decoder": table}), encoding="utf-8")
    (line,) = [line for line in add(model).warnings if "added tokens otherwise" in line]
    assert line.endswith(f"which counts: {first}, {second}")


def test_a_folder_without_a_template_says_that_it_plans_nothing(add: Add, model: Path) -> None:
    """It counts text; a template can be given."""
    (model / "chat_template.jinja").unlink()
    assert any("plans nothing" in line for line in add(model).warnings)
    template = model / "chat_template.jinja"
    shutil.copyfile(Path(__file__).parents[3] / "model_bundles" / "reference" / "chat_template.jinja", template)
    assert not any("plans nothing" in line for line in add(model, replace=True).warnings)
