"""The fast engine: the ids of the exact one, proven once for a bundle, or a refusal that names a class of texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.bundles import fast_admission, fast_engine
from planner.bundles.bundle import FolderBundle
from planner.bundles.fast_engine import FastEngine
from planner.bundles.fast_texts import classes, of_vocabulary
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.bundles.tokenizer_json import TokenizersEngine
from planner.planner import Planner
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.small import BPE
from tests.bundles.litertlm.small import PIECES
from tests.bundles.samples import mixed_texts
from tests.cli.support import planner
from tests.laws.common import answer_bytes
from tests.support.gguf_writer import llama_model, tokenizer_keys

pytest.importorskip("kitoken", reason="the extra `fast` is not installed")
FULL = os.environ.get("PLANNER_FULL") == "1"
ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "model_bundles" / "reference"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that the tests of this file share, so that a bundle is compared once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing remembered in this process."""
    monkeypatch.setattr(fast_admission, "_memory", {})


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison would fail the test."""
    monkeypatch.setattr(fast_admission, "compare", lambda *_: pytest.fail("compared again"))


def fast(ref: str | Path, cache: Path | None) -> FolderBundle:
    """Open a bundle with the fast engine."""
    return open_bundle(ref, cache_dir=cache, engine="fast")


def test_the_texts_are_two_megabytes_in_named_classes() -> None:
    """Every class has its share, every text is text, and a second time they are the same."""
    made = [(name, list(texts)) for name, texts in classes(["<|a|>"])]
    sizes = {name: sum(len(text.encode()) for text in texts) for name, texts in made}
    assert len(sizes) == len(made) > 18
    assert sum(sizes.values()) >= 2_000_000
    assert min(sizes.values()) > 100_000
    assert made == [(name, list(texts)) for name, texts in classes(["<|a|>"])]
    assert {"late marks", "added tokens", "conversations"} <= sizes.keys()


@pytest.fixture(
    params=["reference", "qwen3-0.6b", "phi-3-mini", *(["gemma-3", "llama-3.1", "gpt-oss"] if FULL else [])]
)
def admitted(request: pytest.FixtureRequest, cache: Path) -> FolderBundle:
    """Bundles with the fast engine: shipped ones, and shared ones that add a space or hold text tokens."""
    shipped = request.param in ("reference", "qwen3-0.6b")
    return fast(request.param if shipped else request.getfixturevalue("bundle_dir") / request.param, cache)


def test_ids_and_borders_are_those_of_the_exact_engine(admitted: FolderBundle, seed: int) -> None:
    """On texts that the admission did not see, control strings among them."""
    bundle = admitted
    ours, theirs = bundle.engine, bundle.exact_engine
    assert isinstance(ours, FastEngine)
    assert isinstance(theirs, TokenizersEngine)
    assert theirs.vocab_size == ours.vocab_size
    controls = [token.text for token in bundle.manifest.control_tokens]
    marks = [f"a{chr(mark)}\u0301b" for mark in (0x898, 0x8CA, 0x9FE, 0xC3C, 0x1AC1, 0x1DFA, 0x10EFD, 0x1E4EC)]
    controls += bundle.text_tokens[:40]
    for text in [*mixed_texts(seed + 1, 120), *controls, f" {'x'.join(controls)} ", *marks, "\u0958\u212b\ufb1d", ""]:
        found, wanted = ours.encode(text), theirs.encode(text)
        assert list(wanted.ids) == list(found.ids)
        for char in range(len(text) + 1):
            assert wanted.token_at(char) == found.token_at(char)
    text = f"{controls[0]} the fox {controls[1]}"
    assert list(theirs.encode_parsed(text)) == list(ours.encode_parsed(text))
    assert list(theirs.encode_parsed_spans(text).ids) == list(ours.encode_parsed_spans(text).ids)
    assert theirs.decode(theirs.encode(text).ids) == ours.decode(ours.encode(text).ids)


def test_a_plan_and_its_receipt_are_the_same_bytes(cache: Path, seed: int) -> None:
    """Whichever engine counted: ids, account, receipt and plan file of growing dialogues with tools."""
    exact, quick = Planner("reference"), Planner("reference", engine="fast", cache_folder=cache)
    tool = {
        "type": "function",
        "function": {"name": "find", "description": "Find é.", "parameters": {"type": "object"}},
    }
    texts = iter(mixed_texts(seed + 2, 400, 30))
    for turns in (1, 5, 20):
        chat: list[dict[str, Any]] = [{"role": "system", "content": next(texts)}]
        for number in range(turns):
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "find", "arguments": {"q": next(texts)}},
            }
            chat += [
                {"role": "user", "content": next(texts) + " <|end|>"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": next(texts)},
                {"role": "assistant", "content": next(texts)},
            ]
        given: dict[str, Any] = {"messages": [*chat, {"role": "user", "content": "So?"}], "tools": [tool]}
        given |= {"max_input_tokens": 900, "reserved_output_tokens": 50, "now": "2026-11-30T08:00:00Z"}
        wanted = exact.plan(**given)
        assert wanted.accepted
        assert answer_bytes(wanted) == answer_bytes(quick.plan(**given))
    assert isinstance(quick.encoder().bundle.engine, FastEngine)


def _other(tokenizer: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    tree = json.loads(tokenizer)
    change(tree)
    return json.dumps(tree).encode()


def _without_merge(tree: dict[str, Any]) -> None:
    """Take the first merge of a space and a letter away: almost every text is cut otherwise."""
    merges = tree["model"]["merges"]
    del merges[next(at for at, merge in enumerate(merges) if "".join(merge).startswith("Ġ"))]


def _digits_alone(tree: dict[str, Any]) -> None:
    """Cut digits one by one: nothing but numbers changes."""
    inner = [{"type": "Digits", "individual_digits": True}, tree["pre_tokenizer"]]
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": inner}


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize(("change", "name"), [(_without_merge, "latin prose"), (_digits_alone, "code")])
def test_a_planted_difference_is_refused_by_the_class_it_shows_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Callable[[dict[str, Any]], None], name: str
) -> None:
    """Nothing is kept of it, no text is named, and the exact engine of the bundle goes on."""
    packed = fast_engine.pack

    def planted(tokenizer: bytes, controls: list[ControlToken]) -> tuple[bytes, bool]:
        return packed(_other(tokenizer, change), controls)

    monkeypatch.setattr(fast_engine, "pack", planted)
    with pytest.raises(PlannerFault) as caught:
        fast("reference", tmp_path)
    assert "engine_not_admitted" == caught.value.code
    assert caught.value.detail.startswith("other ids in ")
    assert caught.value.detail.endswith(f" texts of the class {name}")
    assert not list(tmp_path.glob("engine-*"))
    assert isinstance(open_bundle("reference", cache_dir=tmp_path).engine, TokenizersEngine)


@pytest.mark.usefixtures("afresh")
def test_a_real_bundle_that_differs_is_refused(bundle_dir: Path, cache: Path) -> None:
    """smollm2 cuts digits one by one, and the libraries differ on what a digit is."""
    with pytest.raises(PlannerFault, match=r"engine_not_admitted: other ids in \d+ of \d+ texts of the class \w+"):
        fast(bundle_dir / "smollm2", cache)


def test_a_setting_that_does_not_exist_is_an_error() -> None:
    """A misspelled one is not passed over."""
    with pytest.raises(TypeError, match="engin"):
        Planner("reference", engin="fast")  # type: ignore[call-arg]


def test_every_template_of_a_bundle_has_the_engine(cache: Path) -> None:
    """An app whose version has another template activated plans with the same engine."""
    bundle, other = fast("reference", cache), open_bundle("reference", cache_dir=cache)
    bundle.for_apps(lambda version: other if version == "2" else bundle)
    assert isinstance(other.engine, TokenizersEngine)
    assert other is bundle.for_app("2")
    assert isinstance(other.engine, FastEngine)


def test_the_exact_engine_is_the_default(cache: Path) -> None:
    """Also where a certificate is kept."""
    fast("reference", cache)
    assert isinstance(open_bundle("reference", cache_dir=cache).engine, TokenizersEngine)
    assert isinstance(Planner("reference", cache_folder=cache).encoder().bundle.engine, TokenizersEngine)


@pytest.mark.usefixtures("afresh")
def test_a_certificate_is_read_back_and_a_damaged_one_is_not(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared once for a digest; again after damage, and for another version of either library."""
    fast("reference", cache)
    name = next(path for path in cache.glob("engine-*.json") if json.loads(path.read_bytes())["vocabulary"] == 4_096)
    whole = json.loads(name.read_bytes())
    assert whole["comparedBytes"] >= 2_000_000
    seen: list[int] = []
    monkeypatch.setattr(fast_admission, "compare", lambda *_: seen.append(1) or 1)

    def opened(**changes: Any) -> int:
        seen.clear()
        fast_admission._memory.clear()
        (tmp_path / name.name).write_text(json.dumps({**whole, **changes}))
        fast("reference", tmp_path)
        return len(seen)

    assert 0 == opened()
    assert 1 == opened(packed=whole["packed"][:-8])
    assert 1 == opened(sha256="0" * 64)
    assert 1 == opened(vocabulary=True)
    assert 1 == opened(foundFirst=[3])
    monkeypatch.setattr(fast_admission, "version", lambda library: "99")
    assert 1 == opened()


def test_a_certificate_is_not_believed_for_a_file_that_changed(tmp_path: Path) -> None:
    """The files are compared with the manifest first, whatever is kept."""
    folder, kept = tmp_path / "own", tmp_path / "kept"
    folder.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja"):
        (folder / name).write_bytes((REFERENCE / name).read_bytes())
    made = open_bundle(folder).manifest
    (folder / "bundle.json").write_bytes(dump_manifest(ManifestFile(made, template_file="chat_template.jinja")))
    assert isinstance(fast(folder, kept).engine, FastEngine)
    data = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(data.replace(b'"merges"', b'"merges" ', 1))
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        fast(folder, kept)


def test_merges_of_a_gguf_file_are_taken_where_every_entry_is_merged_alike(tmp_path: Path) -> None:
    """The reference as GGUF is equal; a toy file with entries that its own merges never reach is not."""
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_model(tokenizer_keys(REFERENCE, "gpt-2", template="{{ messages[0].content }}")))
    bundle = fast(path, None)
    assert isinstance(bundle.engine, FastEngine)
    for text in ("the Quick brown fox<|end|>", "\u00e9e\u0301 12"):
        assert list(bundle.exact_engine.encode(text).ids) == list(bundle.engine.encode(text).ids)
    path.write_bytes(BPE)
    with pytest.raises(PlannerFault, match="engine_not_admitted: other ids in"):
        fast(path, None)


def test_every_entry_of_a_vocabulary_is_a_text_of_its_own(cache: Path) -> None:
    """Alone and joined: rare merges show there, if nowhere else."""
    engine = fast("reference", cache).engine
    assert isinstance(engine, FastEngine)
    rows = dict(of_vocabulary(list(engine.entries())))
    assert ["vocabulary entries", "joined entries"] == list(rows)
    assert 3_500 < len(rows["vocabulary entries"]) <= engine.vocab_size
    assert " the" in rows["vocabulary entries"]
    assert 20_000 == len(rows["joined entries"])


@pytest.mark.usefixtures("never")
def test_other_formats_and_an_absent_library_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer that is no tokenizer.json is not admitted; without kitoken the line that installs it is shown."""
    path = tmp_path / "model.litertlm"
    path.write_bytes(PIECES)
    with pytest.raises(PlannerFault, match=r"engine_not_admitted: .* only what the tokenizers library runs is taken"):
        fast(path, tmp_path)

    def absent(_: str) -> str:
        raise fast_admission.PackageNotFoundError

    monkeypatch.setattr(fast_admission, "version", absent)
    with pytest.raises(PlannerFault, match=r'environment: kitoken is absent: pip install "context-planner\[fast\]"'):
        fast("reference", tmp_path)


def test_a_file_that_kitoken_cannot_take_is_not_admitted() -> None:
    """Whatever the library says about it stays inside."""
    for data in (b"{}", b"no json", b'{"model": {"type": "WordLevel", "vocab": {"SECRET": 0}}}'):
        with pytest.raises(PlannerFault, match="engine_not_admitted: the fast engine cannot take") as caught:
            fast_engine.pack(data, ())
        assert (None, True) == (caught.value.__cause__, caught.value.__suppress_context__)
    with pytest.raises(PlannerFault, match=r"engine_not_admitted: .* does not load"):
        FastEngine(b"kitoken?", 1, lambda: pytest.fail("asked"))


def test_the_command_line_takes_it_and_prints_the_same(cache: Path, tmp_path: Path) -> None:
    """Counts, plans and receipts are equal; a cold count does not load the exact library for plain text."""
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": "How many moons has Mars? <|end|>"}]), encoding="utf-8")
    for line in (
        ["count", "--text", "the quick brown fox, 42", "--bundle", "reference", "--json"],
        ["plan", "--chat", str(chat), "--bundle", "reference", "--window", "400", "--reserve", "40", "--json"],
    ):
        exact, quick = planner(*line, env=env), planner(*line, "--engine", "fast", env=env)
        assert (0, 0, "", "") == (exact.code, quick.code, exact.err, quick.err)
        exact_tree, quick_tree = ({k: v for k, v in one.json.items() if k != "diagnostics"} for one in (exact, quick))
        assert exact_tree == quick_tree
    code = (
        "import sys; from planner.cli.main import run; "
        "run(['count', '--text', 'a fox', '--bundle', 'reference', '--engine', 'fast']); "
        "print([name for name in ('kitoken', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, env=env)
    assert "['kitoken']" == done.stdout.decode().splitlines()[1]
    refused = planner("count", "--text", "x", "--bundle", "mistral-nemo", "--engine", "fast", env=env)
    assert 2 == refused.code
    assert refused.err.startswith("context plan rejected: engine_not_admitted: ")
