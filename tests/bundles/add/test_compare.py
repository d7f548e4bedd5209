"""Two bundles beside each other: each part that changed is named, no other; counts belong to one digest alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.add import Added
from planner.bundles.bundle import FolderBundle
from planner.bundles.compare import Side, compare
from planner.bundles.digest import bundle_digest
from planner.bundles.sample_counts import SampleCount, conversations, sample_counts
from planner.cli.draw_diff import draw_diff
from planner.planner import Planner
from planner.values.part_cost import FlatRule, PartCost
from planner.values.plan import Plan, Refusal
from planner.values.request import CONCESSIONS, Options
from tests.bundles.add.conftest import Add, lora, plain_copy

Edit = Callable[[Path], object]


class Counted:
    """Planning with a bundle that remembers how often it was asked."""

    def __init__(self, added: Added) -> None:
        self.asked = 0
        self._planner = Planner(added.bundle)

    def __call__(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Plan | Refusal:
        self.asked += 1
        options = Options(concessions=tuple(CONCESSIONS))
        return self._planner.plan(messages=messages, tools=tools or None, options=options, reserved_output_tokens=1)


def side(added: Added) -> Side:
    """A bundle with its samples, nothing kept."""
    return Side(added.bundle, sample_counts(added.manifest.digest, Counted(added)))


def rewritten(name: str, edit: Callable[[Any], object]) -> Edit:
    """Return an edit of one JSON file."""

    def change(folder: Path) -> None:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
        edit(value)
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")

    return change


def _shouting(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{%", "Hear!\n{%", 1), encoding="utf-8")


def _another_token(value: Any) -> None:
    size = 1 + max(*value["model"]["vocab"].values(), *(one["id"] for one in value["added_tokens"]))
    value["added_tokens"].append(dict(value["added_tokens"][0], id=size, content="<|room|>", special=True))


CHANGES: dict[str, tuple[Edit, dict[str, Any], set[str]]] = {
    "nothing": (lambda _: None, {}, set()),
    "template": (_shouting, {}, {"template", "profile"}),
    "merges": (rewritten("tokenizer.json", lambda value: value["model"]["merges"].clear()), {}, {"tokenizer"}),
    "an added token": (
        rewritten("tokenizer.json", _another_token), {}, {"tokenizer", "addedTokens", "controlTokens"},
    ),
    "context": (lambda _: None, {"context": 2_048}, {"context"}),
    "runtime": (lambda _: None, {"runtime": "llama.cpp"}, {"runtime"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_one_part_is_named_and_no_other_is(add: Add, model: Path, tmp_path: Path, name: str) -> None:
    """And the table of conversations says what it does to ids, as plain planning finds it."""
    edit, fields, expected = CHANGES[name]
    other = plain_copy(tmp_path / "other")
    edit(other)
    first, second = add(model, id="a"), add(other, id="b", **fields)
    sides = [side(first), Side(_stated(second), sample_counts(second.manifest.digest, Counted(second)))]
    found = compare(*sides)
    differing = {part for part, row in found["parts"].items() if not row["same"]}
    # What a template's profile says follows from its text; it may or may not show.
    assert expected - {"profile"} <= differing <= expected
    assert found["same"] == (not expected - {"context"})
    for row, one, two in zip(found["conversations"], sides[0].samples, sides[1].samples, strict=True):
        assert row["same"] == (one.ids == two.ids)
        assert row["tokens"] == [len(one.ids), len(two.ids)]
        if not row["same"]:
            at = row["firstDifferent"]
            assert one.ids[:at] == two.ids[:at]
            assert one.ids[at : at + 1] != two.ids[at : at + 1]
            engines = (first.bundle.engine, second.bundle.engine)
            there = [engine.decode([ids[at]]) for engine, ids in zip(engines, (one.ids, two.ids), strict=True)]
            assert there == row["tokensThere"]
    assert any(not row["same"] for row in found["conversations"]) == (name in ("template", "merges"))
    texts = {row["same"] for row in found["texts"]}
    assert texts == ({False} if name == "merges" else {True})
    assert {row["samePrompt"] for row in found["conversations"]} == {name != "template"}


def _stated(added: Added) -> Any:
    """The bundle with the manifest that was written for it."""
    from planner.bundles.open import open_bundle

    return open_bundle(added.manifest.id, user_folder=added.folder.parent)


def test_an_adapter_is_told_by_its_files_and_scale(add: Add, own: Path, model: Path, tmp_path: Path) -> None:
    """No id changes by it; the bundle does."""
    first, second = add(model, id="a"), add(model, id="b", adapter=lora(tmp_path / "lora"), adapter_scale=0.5)
    found = compare(side(first), Side(_stated(second), side(first).samples))
    assert {"adapter"} == {part for part, row in found["parts"].items() if not row["same"]}
    assert [None, 0.5] == [one and one["scale"] for one in found["parts"]["adapter"]["values"]]


def test_a_bundle_without_a_template_is_compared_by_its_texts(add: Add, model: Path, tmp_path: Path) -> None:
    """Its conversations are refused, its texts are counted."""
    other = plain_copy(tmp_path / "other")
    (other / "chat_template.jinja").unlink()
    refused = tuple(SampleCount(row["id"], reason="bundle_has_no_template") for row in conversations())
    found = compare(side(add(model, id="a")), Side(add(other, id="b").bundle, refused))
    assert {(False, (None, "bundle_has_no_template"))} == {
        (row["same"], tuple(row["reasons"])) for row in found["conversations"]
    }
    assert {True} == {row["same"] for row in found["texts"]}


def test_R180_new_bundle_reencodes_samples(add: Add, model: Path, tmp_path: Path) -> None:
    """Another runtime, adapter or file is another digest: every sample is encoded again, no kept count is taken."""
    cache, first = tmp_path / "cache", add(model, id="a")
    planning = Counted(first)
    kept = sample_counts(first.manifest.digest, planning, cache)
    assert len(conversations()) == planning.asked
    assert kept == sample_counts(first.manifest.digest, planning, cache)
    assert len(conversations()) == planning.asked
    # A count of another bundle under whatever name is poison: were it taken, the figures below would show it.
    for path in cache.glob("samples-*.json"):
        value = json.loads(path.read_text(encoding="utf-8"))
        value["samples"] = [one | {"ids": [1, 2, 3]} for one in value["samples"]]
        path.write_text(json.dumps(value), encoding="utf-8")
    assert {3} == {len(one.ids) for one in sample_counts(first.manifest.digest, planning, cache)}
    template = plain_copy(tmp_path / "other")
    _shouting(template)
    packages = [
        add(model, id="b", runtime="llama.cpp"),
        add(model, id="c", adapter=lora(tmp_path / "lora")),
        add(template, id="a", replace=True),
    ]
    for number, package in enumerate(packages, 1):
        planning = Counted(package)
        found = sample_counts(package.manifest.digest, planning, cache)
        assert len(conversations()) == planning.asked
        assert min(len(one.ids) for one in found) > 3
        assert number + 1 == len(list(cache.glob("samples-*.json")))


@pytest.mark.parametrize("damage", ["{", "[]", '{"bundleDigest": "x", "samples": []}', '{"samples": [{}]}'])
def test_a_damaged_count_is_counted_again(add: Add, model: Path, tmp_path: Path, damage: str) -> None:
    """A kept file of another digest, without a sample, or no JSON at all."""
    added = add(model)
    expected = sample_counts(added.manifest.digest, Counted(added), tmp_path)
    (path,) = tmp_path.glob("samples-*.json")
    path.write_text(damage, encoding="utf-8")
    planning = Counted(added)
    assert (expected, len(conversations())) == (
        sample_counts(added.manifest.digest, planning, tmp_path),
        planning.asked,
    )


STATED: dict[str, tuple[dict[str, Any], str]] = {
    "a part's cost": ({"parts": (PartCost("image", "<|end|>", FlatRule(9)),)}, "partCosts"),
    "a concession": ({"concessions": ("join_same_role",)}, "framing"),
    "a rewrite": ({"rewrites": ("null_content_is_empty",)}, "framing"),
    "a rule of spaces": ({"prefix_space": "first_stretch"}, "framing"),
    "an entry point": ({"template_entry": "tool_use"}, "framing"),
    "a base model": ({"base_model": "org/base"}, "baseModel"),
}


@pytest.mark.parametrize("name", STATED)
def test_whatever_makes_two_digests_of_one_folder_is_named(add: Add, model: Path, name: str) -> None:
    """What a person states in a manifest is a part of the comparison too: two bundles never differ in nothing."""
    changes, part = STATED[name]
    added = add(model, id="a")
    stated = replace(added.manifest, **changes)
    stated = replace(stated, digest=bundle_digest(stated))
    other = FolderBundle(lambda: added.bundle.parts, stated, reviewed=True)
    samples = side(added).samples
    found = compare(Side(added.bundle, samples), Side(other, samples))
    assert not found["same"]
    assert part in {key for key, row in found["parts"].items() if not row["same"]}
    draw_diff(found)
