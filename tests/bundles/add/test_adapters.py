"""Adapters: their bytes and scale are part of the identity; what their folder brings replaces the base's."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from planner.bundles.adapter import split_scale
from planner.bundles.manifest import parse_manifest
from planner.bundles.open import open_bundle
from planner.bundles.recheck import recheck
from planner.values.reasons import PlannerFault
from tests.bundles.add.conftest import REFERENCE, Add, left_over, lora, plain_copy


def test_R172_bundle_binds_four(add: Add, model: Path, tmp_path: Path) -> None:
    """Base model, adapter with its scale, tokenizer and template: one changed, another bundle; context alone, not."""

    def changed(name: str, old: str, new: str) -> Path:
        folder = plain_copy(tmp_path / f"{name}{new.strip()[:3]!a}".replace("'", ""))
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder

    other_base = plain_copy(tmp_path / "base")
    (other_base / "config.json").write_text('{"hidden_size": 64}', encoding="utf-8")
    weights = lora(tmp_path / "lora")
    digests = {
        "plain": add(model, id="a").manifest.digest,
        "base": add(other_base, id="b").manifest.digest,
        "adapter": add(model, id="c", adapter=weights).manifest.digest,
        "scale": add(model, id="d", adapter=weights, adapter_scale=0.5).manifest.digest,
        "weights": add(model, id="e", adapter=lora(tmp_path / "other", b"weightS")).manifest.digest,
        "tokenizer": add(changed("tokenizer.json", "\n", " \n"), id="f").manifest.digest,
        "template": add(changed("chat_template.jinja", "{%", " {%"), id="g").manifest.digest,
    }
    assert len(digests) == len(set(digests.values()))
    assert digests["plain"] == add(model, id="h", context=1_024).manifest.digest
    assert digests["plain"] == add(model, id="i").manifest.digest


def test_an_adapter_is_named_by_its_files_and_stays_where_it_is(
    add: Add, own: Path, model: Path, tmp_path: Path
) -> None:
    """Hashed in pieces, never parsed; `bundle check` hashes it again."""
    folder = lora(tmp_path / "lora", bytes(3 << 20))
    add(model, id="mine", adapter=folder, adapter_scale=0.5)
    parsed = parse_manifest((own / "mine" / "bundle.json").read_bytes())
    assert parsed.manifest.adapter is not None
    assert [("adapter_config.json", 29), ("adapter_model.safetensors", 3 << 20)] == [
        (entry.path, entry.size_bytes) for entry in parsed.manifest.adapter.files
    ]
    assert (0.5, False) == (parsed.manifest.adapter.scale, (own / "mine" / "adapter_model.safetensors").exists())
    assert ["passed", "passed"] == [row.result for row in recheck("mine", own)]
    lora(folder, b"others")
    assert ["passed", "failed"] == [row.result for row in recheck("mine", own)]


def test_an_adapters_own_template_and_tokenizer_replace_the_bases(
    add: Add, own: Path, model: Path, tmp_path: Path
) -> None:
    """What is equal is no replacement; what differs is named."""
    folder = lora(tmp_path / "lora")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes((REFERENCE / name).read_bytes())
    assert not any("adapter" in warning for warning in add(model, id="equal", adapter=folder).warnings)
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    value = json.loads((REFERENCE / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(value), encoding="utf-8")
    warnings = add(model, id="other", adapter=folder).warnings
    assert "the adapter's folder replaces files of the base model: chat_template.jinja, tokenizer.json" in warnings
    assert "the adapter's folder brings a chat template of its own, which is used" in warnings
    bundle = open_bundle("other", user_folder=own)
    assert template == bundle.template_source
    assert (own / "other" / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert ["passed", "passed"] == [row.result for row in recheck("other", own)]


def test_a_template_in_an_adapters_configuration_wins_over_the_bases_file(
    add: Add, own: Path, model: Path, tmp_path: Path
) -> None:
    """Wherever the base keeps its own template; without one of its own the base's stays."""
    folder = lora(tmp_path / "lora")
    config = json.loads((REFERENCE / "tokenizer_config.json").read_text(encoding="utf-8"))
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}), encoding="utf-8")
    add(model, id="mine", adapter=folder)
    assert template == open_bundle("mine", user_folder=own).template_source
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"x": 1}), encoding="utf-8")
    add(model, id="base", adapter=folder)
    own_text = (REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
    assert own_text == open_bundle("base", user_folder=own).template_source


def test_a_single_file_is_an_adapter_too(add: Add, gguf: Path, tmp_path: Path) -> None:
    """As llama.cpp takes it."""
    path = tmp_path / "lora.gguf"
    path.write_bytes(b"GGUF and more")
    adapter = add(gguf, id="mine", adapter=path).manifest.adapter
    assert adapter is not None
    assert [("lora.gguf", 13)] == [(entry.path, entry.size_bytes) for entry in adapter.files]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda folder: lora(folder, peft_type="PROMPT_TUNING"), "format_not_supported"),
        (lambda folder: lora(folder, num_virtual_tokens=20), "format_not_supported"),
        (lambda folder: (lora(folder) / "adapter_model.safetensors").rename(folder / "adapter_model.bin").parent,
         "bundle_unsafe"),
        (lambda folder: (lora(folder) / "adapter_config.json").rename(folder / "x.json").parent, "bundle_incomplete"),
        (lambda folder: folder / "nowhere", "bundle_not_found"),
        (lambda folder: (lora(folder) / "adapter_model.safetensors").rename(folder / "x.pkl"), "bundle_path"),
    ],
)  # fmt: skip
def test_what_is_no_adapter_is_refused_by_name(
    add: Add, own: Path, model: Path, tmp_path: Path, make, code: str
) -> None:  # type: ignore[no-untyped-def]
    """Kinds that put tokens into the prompt, pickles, half folders."""
    with pytest.raises(PlannerFault) as caught:
        add(model, adapter=make(tmp_path / "lora"))
    assert (code, []) == (caught.value.code, left_over(own))


def test_a_pickled_adapter_is_never_run(add: Add, model: Path, tmp_path: Path) -> None:
    """A file that would be written by opening it is not."""
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (canary,)

    folder = lora(tmp_path / "lora", pickle.dumps(Bomb()))
    add(model, adapter=folder)
    assert not canary.exists()


def test_an_adapter_with_a_tokenizer_beside_a_gguf_file_is_refused(add: Add, gguf: Path, tmp_path: Path) -> None:
    """The file keeps its own; nothing says which of the two the runtime takes."""
    folder = lora(tmp_path / "lora")
    (folder / "tokenizer.json").write_bytes((REFERENCE / "tokenizer.json").read_bytes())
    with pytest.raises(PlannerFault, match="format_not_supported"):
        add(gguf, adapter=folder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b@0.25", ("a/b", 0.25)),
        ("a@b", ("a@b", 1.0)),
        ("a", ("a", 1.0)),
        ("@2", ("@2", 1.0)),
        ("a@nan", ("a@nan", 1.0)),
    ],
)
def test_a_scale_stands_behind_the_last_at(text: str, expected: tuple[str, float]) -> None:
    """Paths may hold the sign themselves."""
    assert expected == split_scale(text)
