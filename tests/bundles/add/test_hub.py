"""A model of the hub: pinned to a commit, compared with the stated digests, fetched once and never for a plan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.hub import HubModel, parse_hub
from planner.bundles.manifest import parse_manifest
from planner.bundles.open import open_bundle
from planner.bundles.recheck import recheck
from planner.values.reasons import PlannerFault, RefusalSignal
from tests.bundles.add.conftest import NAMES, REFERENCE, Add, left_over
from tests.cli.support import planner
from tests.support.hub_server import Hub, serving

pytest.importorskip("huggingface_hub")
FIRST, SECOND = "1" * 40, "2" * 40
MAIN = HubModel("owner/model", "main")


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A repository of two commits, with weights, code and a folder that no bundle needs."""
    files = {name: (REFERENCE / name).read_bytes() for name in NAMES}
    others = {"model.safetensors": b"x", "modeling_x.py": b"x", "pytorch_model.bin": b"x", "onnx/model.onnx": b"x"}
    template = b"{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    commits = {FIRST: files | others, SECOND: files | others | {"chat_template.jinja": template}}
    with serving(Hub(commits=commits, branches={"main": FIRST}, large=frozenset({"tokenizer.json"}))) as served:
        yield served


def test_a_branch_is_pinned_to_its_commit_and_only_small_files_are_fetched(add: Add, own: Path, hub: Hub) -> None:
    """The manifest names repository, branch and commit; weights, code and pickles are named and not asked for."""
    added = add(MAIN, endpoint=hub.endpoint)
    parsed = parse_manifest((own / "model" / "bundle.json").read_bytes())
    assert parsed.provenance is not None
    assert ("owner/model", "main", FIRST) == (
        parsed.provenance.repository,
        parsed.provenance.revision,
        parsed.provenance.commit,
    )
    assert "owner/model" == added.manifest.base_model
    fetched = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert set(NAMES) == fetched
    assert {f"/owner/model/resolve/{FIRST}/{name}" for name in NAMES} == {p for p in hub.asked if "/resolve/" in p}
    assert (
        "weights are not read: model.safetensors",
        "pickles are never opened: pytorch_model.bin",
        "code is never run: modeling_x.py",
    ) == added.warnings[:3]
    assert {"bundle.json", *NAMES} == set(left_over(own / "model"))
    assert ["model"] == left_over(own)
    for name in NAMES:
        assert (REFERENCE / name).read_bytes() == (own / "model" / name).read_bytes()


def test_a_branch_that_moved_is_another_bundle_and_its_commit_is_recorded(add: Add, own: Path, hub: Hub) -> None:
    """Under the same id it is refused until it is to replace the first; the first commit can be named at any time."""
    first = add(MAIN, endpoint=hub.endpoint).manifest
    hub.branches["main"] = SECOND
    with pytest.raises(PlannerFault, match="bundle_exists"):
        add(MAIN, endpoint=hub.endpoint)
    second = add(MAIN, endpoint=hub.endpoint, replace=True).manifest
    assert first.digest != second.digest
    again = add(HubModel("owner/model", FIRST), endpoint=hub.endpoint, id="again").manifest
    assert first.digest == again.digest
    assert [SECOND in row.detail for row in recheck("model", own)] == [True]


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja"])
def test_a_file_that_differs_from_the_stated_digest_is_refused(add: Add, own: Path, hub: Hub, name: str) -> None:
    """By its sha256 where it is large, by git's digest where it is small; one byte is enough."""
    data = hub.commits[FIRST][name]
    hub.served[name] = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(PlannerFault, match=f"bundle_mismatch: {name} differs from the digest"):
        add(MAIN, endpoint=hub.endpoint)
    assert [] == left_over(own)


def test_what_the_hub_cannot_give_is_one_fault(add: Add, own: Path, hub: Hub) -> None:
    """Unknown revision and repository, a broken server, no access, no server: no word of the library's."""
    cases = [
        (HubModel("owner/model", "nowhere"), None, "bundle_not_found"),
        (HubModel("owner/other", "main"), None, "bundle_not_found"),
        (MAIN, 500, "hub_failed"),
        (MAIN, 403, "hub_failed: the hub denies access"),
    ]
    for model, status, words in cases:
        hub.status = status
        with pytest.raises(PlannerFault, match=words) as caught:
            add(model, endpoint=hub.endpoint)
        assert "127.0.0.1" not in str(caught.value)
    with pytest.raises(PlannerFault, match="hub_failed"):
        add(MAIN, endpoint="http://127.0.0.1:9")
    assert [] == left_over(own)


def test_a_file_beyond_its_bound_is_refused_before_it_is_fetched(add: Add, own: Path, hub: Hub) -> None:
    """By the size that the hub states."""
    hub.sizes["tokenizer.json"] = 1 << 40
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        add(MAIN, endpoint=hub.endpoint)
    assert ([], True) == (left_over(own), all("/resolve/" not in path for path in hub.asked))


def test_a_repository_without_a_tokenizer_is_refused_by_name(add: Add, hub: Hub) -> None:
    """GGUF files are large; they are downloaded by hand and named by their path."""
    hub.commits[FIRST] = {"model-q4.gguf": b"x"}
    with pytest.raises(PlannerFault, match="format_not_supported: a repository of GGUF"):
        add(MAIN, endpoint=hub.endpoint)
    hub.commits[FIRST] = {"README.md": b"x"}
    with pytest.raises(PlannerFault, match="bundle_incomplete"):
        add(MAIN, endpoint=hub.endpoint)


def test_nothing_is_fetched_for_a_plan(hub: Hub, tmp_path: Path) -> None:
    """Two commands as typed; the second makes its plan after the server is gone and loads no library of the hub."""
    home = {**os.environ, **{key: str(tmp_path) for key in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")}}
    home |= {"HF_ENDPOINT": hub.endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = planner("bundle", "add", "hf:owner/model@main", "--id", "m", env=home)
    assert (0, "") == (done.code, done.err)
    asked = len(hub.asked)
    (tmp_path / "huggingface_hub.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}]', encoding="utf-8")
    home["PYTHONPATH"] = str(tmp_path)
    done = planner("plan", "--chat", chat, "--bundle", "m", "--json", env=home)
    assert (0, "", asked) == (done.code, done.err, len(hub.asked))


def test_the_library_is_named_where_it_is_absent(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(PlannerFault, match=r'environment: run: pip install "context-planner\[hub\]"'):
        add(MAIN)


@pytest.mark.parametrize(
    "text", ["hf:", "hf:model", "hf:a/b/c", "hf:a/b@../x", "hf:a/b@x y", "hf:../b@main", "hf:a/..@x"]
)
def test_a_name_of_another_form_is_refused(text: str) -> None:
    """Nothing is asked."""
    with pytest.raises(RefusalSignal, match="invalid-input"):
        parse_hub(text)


def test_a_path_is_no_model_of_the_hub(own: Path) -> None:
    """Without the prefix it is a path; without a revision it is main."""
    assert (None, MAIN) == (parse_hub("owner/model"), parse_hub("hf:owner/model"))
    with pytest.raises(PlannerFault, match="bundle_not_found"):
        open_bundle("hf:owner/model@main", user_folder=own)


@pytest.mark.parametrize("fields", [{"runtime": "nobody"}, {"template": Path("absent.jinja")}])
def test_what_cannot_be_is_said_before_anything_is_fetched(
    add: Add, own: Path, hub: Hub, fields: dict[str, Any]
) -> None:
    """A name of no engine, a file that is not there: one line and no call."""
    with pytest.raises(PlannerFault, match=r"manifest_invalid: --runtime|bundle_incomplete|file_not_readable"):
        add(MAIN, endpoint=hub.endpoint, **fields)
    assert ([], []) == (hub.asked, left_over(own))
