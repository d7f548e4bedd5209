"""Which bundle a plan is of: four things bind it, any of them changed is another one, and nothing passes over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.hf_folder import open_folder
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.runtimes.llama_cpp import LlamaServer
from planner.values.bundle import Adapter, FileEntry, Manifest
from planner.values.digest import final_input_digest
from planner.values.observation import Reported
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.receipt import Receipt
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.bundles.add.conftest import plain_copy
from tests.support.serving import served

ID = "mine"
CHAT = [{"role": "user", "content": "How many moons has Mars?"}, {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "And <|end|> Venus?"}]  # fmt: skip


def as_is(_: Path) -> None:
    """Change no file."""


def tokenizer_byte(folder: Path) -> None:
    """One byte more behind the tokenizer."""
    path = folder / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b"\n")


def tokenizer_same_size(folder: Path) -> None:
    """Another byte in its place: the size of the file, and all that it says, are the same."""
    path = folder / "tokenizer.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"\n ", b"  ", 1))
    assert before != path.read_bytes()


def added_token(folder: Path) -> None:
    """One byte of one added token: nothing in this chat spells it."""
    path = folder / "tokenizer.json"
    text = path.read_text("utf-8").replace("<|pad|>", "<|paf|>")
    path.write_text(text, encoding="utf-8")
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text("utf-8").replace("<|pad|>", "<|paf|>"), encoding="utf-8")


def template_byte(folder: Path) -> None:
    """One byte of a comment of the template: it writes the same text."""
    path = folder / "chat_template.jinja"
    path.write_text("{#- a #}" + path.read_text("utf-8"), encoding="utf-8")


def other_template_byte(folder: Path) -> None:
    """Another byte in that comment."""
    path = folder / "chat_template.jinja"
    path.write_text("{#- b #}" + path.read_text("utf-8"), encoding="utf-8")


Change = Callable[[Path], None]
FILES: dict[str, Change] = {
    "tokenizer": tokenizer_byte, "tokenizer of one size": tokenizer_same_size, "added token": added_token,
    "template": template_byte, "template again": other_template_byte,
}  # fmt: skip
STATED: dict[str, dict[str, Any]] = {
    "base model": {"base_model": "someone/other-model"},
    "adapter": {"adapter": Adapter((FileEntry("adapter.safetensors", 1, "0" * 64),))},
    "adapter scale": {"adapter": Adapter((FileEntry("adapter.safetensors", 1, "0" * 64),), 0.5)},
    "runtime": {"runtime": Runtime(RUNTIMES["llama.cpp"])},
    "runtime version": {"runtime": Runtime(RUNTIMES["llama.cpp"], "b2")},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A user folder per change, each with a bundle of the same id."""
    root = tmp_path_factory.mktemp("bundles")
    made = {}
    for name in ("same", "same again", *FILES, *STATED):
        folder = plain_copy(root / name / ID)
        FILES.get(name, as_is)(folder)
        manifest = replace(open_folder(folder).manifest, context_tokens=8_192, **STATED.get(name, {}))
        stated = dump_manifest(ManifestFile(manifest, template_file="chat_template.jinja"))
        (folder / "bundle.json").write_bytes(stated)
        made[name] = root / name
    return made


def planned(folder: Path, cache: Path | None = None) -> tuple[Planner, Plan]:
    """Plan the chat with the bundle of a user folder."""
    planner = Planner(ID, user_folder=folder, cache_folder=cache)
    answer = planner.plan(messages=CHAT, max_completion_tokens=64)
    assert isinstance(answer, Plan)
    return planner, answer


def named(receipt: Receipt) -> tuple[str | None, ...]:
    """Return everything by which a count, a cache of the front or a receipt could be found again."""
    return receipt.plan_id, receipt.bundle_digest, receipt.cache_key, receipt.final_input_digest


def test_R172_bundle_binds_four(folders: dict[str, Path]) -> None:
    """R172: base model, adapter, tokenizer and template are each bound; the same four give the same identity."""
    manifests: dict[str, Manifest] = {name: Planner(ID, user_folder=folder).encoder().bundle.manifest
                                      for name, folder in folders.items()}  # fmt: skip
    assert manifests["same"].digest == manifests.pop("same again").digest
    assert {ID} == {one.id for one in manifests.values()}
    assert len(manifests) == len({one.digest for one in manifests.values()})
    # Context and tiers may differ from device to device; they change no id.
    assert {8_192} == {one.context_tokens for one in manifests.values()}


@pytest.mark.parametrize("name", [*FILES, *STATED])
def test_R42_switch_forces_replan(folders: dict[str, Path], name: str) -> None:
    """R42: after a switch the same request has a new plan of another bundle; a count of the old one is not taken."""
    before, after = planned(folders["same"])[1], planned(folders[name])[1]
    assert [True] * 4 == [old != new for old, new in zip(named(before.receipt), named(after.receipt), strict=True)]
    assert before.receipt.request_digest == after.receipt.request_digest, "it is the same request"
    planner = Planner(ID, user_folder=folders[name])
    for counted in (before, before.receipt):
        with pytest.raises(PlannerFault, match="bundle_mismatch"):
            planner.observe(counted, before.account.input_tokens)


@pytest.mark.parametrize("name", [*FILES, *STATED])
def test_a_bundle_changed_by_a_byte_reuses_nothing(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Tokenizer, added tokens or template differ by a byte: no count, no cache entry and no receipt is taken over.

    A plan of the changed bundle is the same beside a warm cache of the other as alone, and costs the same.
    """
    alone = planned(folders[name], tmp_path / "alone")[1]
    cache = tmp_path / "shared"
    warm, first = planned(folders["same"], cache)
    planned(folders["same"], cache)
    other, beside = planned(folders[name], cache)
    assert named(alone.receipt) == named(beside.receipt)
    assert (alone.ids, alone.account, alone.diagnostics) == (beside.ids, beside.account, beside.diagnostics)
    assert warm.encoder().cache is not other.encoder().cache
    sealed = final_input_digest(first.receipt.bundle_digest or "", first.ids)
    assert sealed == first.receipt.final_input_digest
    assert sealed != final_input_digest(beside.receipt.bundle_digest or "", first.ids), "not even over equal ids"


@pytest.mark.parametrize("name", ["same again", *FILES])
def test_what_is_known_of_one_bundle_is_not_known_of_its_twin(
    folders: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """A drift blocks the bundle it was seen of, wherever it lies; the same id with another byte is another bundle."""
    planner = Planner(open_bundle(ID, user_folder=folders["same"]), user_folder=tmp_path)
    plan = planner.plan(messages=CHAT)
    assert isinstance(plan, Plan)
    assert "runtime_truncated" == planner.observe(plan, Reported(1, meaning="whole_prompt")).verdict
    other = open_bundle(ID, user_folder=folders[name])
    if name == "same again":
        with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
            Planner(other, user_folder=tmp_path)
    else:
        assert Planner(other, user_folder=tmp_path).plan(messages=CHAT).accepted


@contextmanager
def recording() -> Iterator[tuple[str, list[Any]]]:
    """Yield a server that answers as llama.cpp does, and what it was sent."""
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        """Count what came."""

        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            count = len(sent[-1]["prompt"])
            answer = {"content": "x", "tokens": [5], "stop_type": "limit", "truncated": False, "id_slot": 0,
                      "tokens_evaluated": count, "tokens_predicted": 1,
                      "timings": {"cache_n": 0, "prompt_n": count}}  # fmt: skip
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with served(server):
        yield f"http://127.0.0.1:{server.server_port}", sent


def test_R43_plan_returns_exact_token_ids(folders: dict[str, Path]) -> None:
    """R43: the ids that were counted are the ids the runtime gets; encoding their text again would give others."""
    planner, plan = planned(folders["same"])
    with recording() as (url, sent):
        served = LlamaServer(url).run(plan.ids, 1)
    assert list(plan.ids) == sent[0]["prompt"]
    assert len(plan.ids) == plan.account.input_tokens == served.prompt_tokens
    assert final_input_digest(plan.receipt.bundle_digest or "", plan.ids) == plan.receipt.final_input_digest
    assert plan.prompt is not None
    again = list(planner.encoder().bundle.engine.encode_parsed(plan.prompt))
    assert again != list(plan.ids), "the control string of the question would be obeyed"
