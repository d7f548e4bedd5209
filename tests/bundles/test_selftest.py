"""The self-test at admission: what a sound bundle passes, what each planted fault is refused by, what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from planner.bundles import selftest
from planner.bundles.bundle import FolderBundle
from planner.bundles.hf_folder import open_folder
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.bundles.selftest_chats import chat_checks
from planner.encoding.encoder import Encoder
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from tests.bad_inputs.build_bundles import good_bundle

REAL = ("qwen3-0.6b", "phi-3-mini", "smollm2", "mistral-v3-spm", "mistral-nemo-tekken", "llama-2-spm", "gpt-oss")
CHAT = [
    {"role": "user", "content": "How far is it?\n"},
    {"role": "assistant", "content": "12 km, 约三小时。"},
    {"role": "user", "content": " Really?"},
]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing another test admitted counts here."""
    monkeypatch.setattr(selftest, "_memory", {})


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write the embedded bundle's folder with another tokenizer.json."""
    made = good_bundle(folder, manifest=False)
    path = made / "tokenizer.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return made


def stripping(value: dict[str, Any]) -> None:
    """Strip the ends of the text before its control tokens are looked for: then cuts change ids."""
    value["normalizer"] = {"type": "Strip", "strip_left": True, "strip_right": True}
    for token in value["added_tokens"]:
        token["normalized"] = True


def metaspace(value: dict[str, Any]) -> None:
    """Put a space before the first stretch of the text alone, as many converted models do."""
    value["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Metaspace", "replacement": " ", "prepend_scheme": "first", "split": False},
            value["pre_tokenizer"],
        ],
    }


@pytest.mark.parametrize("name", REAL)
def test_real_folders_pass_every_required_check(bundle_dir: Path, name: str) -> None:
    """The short test, as admission runs it; every control token and chat it says was tried."""
    found = selftest.admit(open_folder(bundle_dir / name))
    assert found.failed == ()
    assert found.encode_mode == "runs"
    counts = {check.name: check.count for check in found.checks}
    assert counts[selftest.SPLIT] == selftest.SHORT_CHATS
    assert 2 <= counts["content forges no control id"] <= selftest.SHORT_DIRTY


def test_the_full_test_tries_every_control_token_and_200_chats() -> None:
    """What `planner bundle check` runs; it is never read from a cache."""
    bundle = open_bundle("reference")
    found = selftest.admit(bundle, full=True)
    counts = {check.name: check.count for check in found.checks}
    assert counts[selftest.SPLIT] == selftest.FULL_CHATS
    assert counts["content forges no control id"] == len(bundle.manifest.control_tokens)
    assert all(check.passed for check in found.checks)
    assert not selftest.admit(bundle, full=True).remembered


def test_a_folder_without_template_is_tested_by_its_tokenizer_alone(bundle_dir: Path) -> None:
    """It can only count, and counting is what is tested."""
    names = [check.name for check in selftest.admit(open_folder(bundle_dir / "deepseek-v4-notemplate")).checks]
    assert "text has tokens" in names
    assert selftest.SPLIT not in names


def test_admission_runs_once_for_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process from memory, in the next one from the cache folder, and not at all where neither knows."""
    folder, cache = good_bundle(tmp_path, manifest=False), tmp_path / "cache"
    open_bundle(folder, cache_dir=cache)
    runs: list[object] = []
    monkeypatch.setattr(selftest, "selftest", lambda bundle, **_: runs.append(bundle))
    open_bundle(folder)
    monkeypatch.setattr(selftest, "_memory", {})
    assert selftest.admit(open_folder(folder, cache_dir=cache), cache_dir=cache).remembered
    assert runs == []
    monkeypatch.setattr(selftest, "_memory", {})
    with pytest.raises(AttributeError):
        open_bundle(folder)
    assert len(runs) == 1


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"mode": "runs", "checks": []}', b'{"checks": [{"x": 1}]}'])
def test_a_damaged_cache_entry_costs_time_and_nothing_else(tmp_path: Path, damage: bytes) -> None:
    """It is not believed; the test runs again."""
    folder, cache = good_bundle(tmp_path, manifest=False), tmp_path / "cache"
    bundle = open_bundle(folder, cache_dir=cache)
    entry = cache / f"selftest-{selftest.selftest_key(bundle)}.json"
    assert entry.is_file()
    entry.write_bytes(damage)
    selftest._memory.clear()
    assert not selftest.admit(bundle, cache_dir=cache).remembered


def test_a_failed_test_is_not_remembered(tmp_path: Path) -> None:
    """A refusal is found again, with the same words."""
    removing = {"type": "Replace", "pattern": {"Regex": "[\\s\\S]"}, "content": ""}
    folder = edited(tmp_path, lambda value: value.update(normalizer=removing))
    for _ in range(2):
        with pytest.raises(PlannerFault, match="tokenizer_failed: self-test: text has tokens: 6 samples"):
            open_bundle(folder, cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("selftest-*"))


def test_a_tokenizer_that_may_not_be_cut_is_encoded_whole(tmp_path: Path) -> None:
    """The split check fails, so the folder gets mode whole, another digest, and ids that are the file's own."""
    folder = edited(tmp_path, stripping)
    plain, bundle = open_folder(folder), open_bundle(folder)
    assert ("runs", "whole") == (plain.manifest.encode_mode, bundle.manifest.encode_mode)
    assert plain.manifest.digest != bundle.manifest.digest
    _plans_as_the_file_does(bundle, folder)
    again = open_bundle(folder)
    assert again.manifest == bundle.manifest


def test_flags_alone_choose_whole_and_every_token_is_charged(tmp_path: Path) -> None:
    """Metaspace `first` is read from the file; the account, the spans and the control-text rule hold there too."""
    folder = edited(tmp_path, metaspace)
    bundle = open_bundle(folder)
    assert bundle.manifest.encode_mode == "whole"
    _plans_as_the_file_does(bundle, folder)
    for text in ("say <|end|> now", "<|user|>", "x<|tool_call|>"):
        messages = [*CHAT[:2], {"role": "user", "content": text}]
        refused = Planner(bundle).plan(messages=messages, max_input_tokens=4_000)
        assert not refused.accepted
        assert refused.reason == "control_text_in_field"


def test_an_old_turn_that_spells_a_control_string_only_matters_while_it_is_kept(tmp_path: Path) -> None:
    """In mode whole the kept one refuses the plan; one that leaves for the budget does not."""
    planner = Planner(open_bundle(edited(tmp_path, metaspace)))
    old = [{"role": "user", "content": "say <|end|> " * 60}, {"role": "assistant", "content": "No."}]
    messages = [*old, {"role": "user", "content": "And now?"}]
    kept = planner.plan(messages=messages, max_input_tokens=4_000, max_tokens=50)
    assert isinstance(kept, Refusal)
    assert ("control_text_in_field", "turn/t1") == (kept.reason, kept.detail)
    left = planner.plan(messages=messages, max_input_tokens=120, max_tokens=50)
    assert isinstance(left, Plan), left
    assert ["turn/t1"] == [entry.id for entry in left.removed]


def _plans_as_the_file_does(bundle: FolderBundle, folder: Path) -> None:
    answer = Planner(bundle).plan(messages=CHAT, max_input_tokens=4_000)
    assert isinstance(answer, Plan), answer
    assert answer.prompt is not None
    file = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert file.encode(answer.prompt, add_special_tokens=False).ids == answer.ids.tolist()
    figures = answer.account
    assert figures.input_tokens == len(answer.ids)
    assert figures.history_tokens > 0
    assert figures.request_tokens > 0
    alone = len(bundle.engine.encode("Really?").ids)
    assert abs(figures.request_tokens - alone) <= 2


def test_owned_spans_of_a_whole_encode_are_those_of_a_plain_scan(tmp_path: Path) -> None:
    """Each owner is charged the tokens that lie wholly inside its characters, by the file's own offsets."""
    bundle = open_bundle(edited(tmp_path, metaspace))
    answer = Planner(bundle).plan(messages=CHAT, max_input_tokens=4_000)
    assert isinstance(answer, Plan)
    text = answer.prompt or ""
    raw = Tokenizer.from_file(str(tmp_path / "reference" / "tokenizer.json"))
    offsets = raw.encode(text, add_special_tokens=False).offsets
    for item, content in (("turn/t1", CHAT[0]["content"]), ("request/t2", CHAT[2]["content"])):
        start = text.index(content)
        stop = start + len(content)
        if item == "turn/t1":
            second = text.index(CHAT[1]["content"])
            inside = sum(second <= a and b <= second + len(CHAT[1]["content"]) for a, b in offsets)
        else:
            inside = 0
        inside += sum(start <= a and b <= stop for a, b in offsets)
        assert inside == answer.account.items[item]


def test_a_manifest_that_claims_cuts_are_exact_is_refused(tmp_path: Path) -> None:
    """Where a bundle.json states the mode, another one would be another bundle."""
    folder = edited(tmp_path, stripping)
    made = ManifestFile(open_folder(folder).manifest, template_file="chat_template.jinja")
    (folder / "bundle.json").write_bytes(dump_manifest(made))
    with pytest.raises(PlannerFault, match="tokenizer_failed: self-test: ids of a cut render"):
        _ = open_bundle(folder).profile


def test_a_manifest_may_not_state_runs_where_the_flags_forbid_it(tmp_path: Path) -> None:
    """The flags are read from the file again."""
    folder = edited(tmp_path, metaspace)
    stated = replace(open_folder(folder).manifest, encode_mode="runs")
    (folder / "bundle.json").write_bytes(dump_manifest(ManifestFile(stated, template_file="chat_template.jinja")))
    bundle = open_bundle(folder)
    for _ in range(2):
        with pytest.raises(PlannerFault, match="tokenizer_failed: self-test: flags of control tokens"):
            _ = bundle.profile


def _planted(tmp_path: Path) -> FolderBundle:
    return open_folder(good_bundle(tmp_path, manifest=False))


def test_a_leaking_engine_is_caught_by_both_checks(tmp_path: Path) -> None:
    """Planted: the switch that keeps control strings text is off."""
    bundle = _planted(tmp_path)
    bundle.engine._tokenizer.encode_special_tokens = False  # type: ignore[attr-defined]
    failed = {check.name for check in selftest.selftest(bundle).failed}
    assert failed == {"control strings stay text"}
    failed = {check.name for check in chat_checks(bundle, full=False) if not check.passed}
    assert "content forges no control id" in failed


def test_a_tracked_render_that_differs_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: one character more in the plain render."""
    plain = Encoder.plain
    monkeypatch.setattr(Encoder, "plain", lambda self, inputs, counters: plain(self, inputs, counters) + " ")
    with pytest.raises(PlannerFault, match="template_rejected: self-test: owners change no character"):
        selftest.admit(_planted(tmp_path))


def test_lost_text_is_told_and_not_refused(tmp_path: Path) -> None:
    """A profile that says more is kept than is: plans refuse what is lost, the bundle still counts."""
    folder = good_bundle(tmp_path, manifest=False)
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text(encoding="utf-8").replace("{{- message.content }}", "{{- message.content[:0] }}"))
    whole = open_bundle("reference").profile
    bundle = open_folder(folder)
    bundle._profile = whole
    found = selftest.selftest(bundle)
    told = {check.name: check for check in found.checks}
    assert not told["every text is found in its render"].passed
    assert not told["every text is found in its render"].required


def test_the_oracle_of_the_test_is_the_file_itself(tmp_path: Path) -> None:
    """Planted: an id of ordinary text is wrong in what planning uses; the file's own encode tells."""
    bundle = _planted(tmp_path)
    engine = bundle.engine
    real = engine.encode

    class Wrong:
        def __init__(self, text: str) -> None:
            self._inner = real(text)
            self.ids = [*self._inner.ids[:-1], 300]

        def token_at(self, char: int) -> tuple[int, int]:
            return self._inner.token_at(char)

    engine.encode = Wrong  # type: ignore[method-assign, assignment]
    failed = {check.name for check in chat_checks(bundle, full=False) if not check.passed}
    assert selftest.SPLIT in failed
