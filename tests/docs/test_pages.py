"""The pages behind README tell the truth too: their commands run, their links lead somewhere, their JSON is JSON."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from planner.bundles.manifest import parse_manifest
from planner.bundles.open import open_bundle
from planner.gate.evidence import read_evidence
from planner.gate.integration import read_integration
from planner.gate.lifecycle import is_event
from planner.gate.reading import read_matrix
from planner.gate.receipts import check_receipts
from planner.planner import Planner
from planner.values.gate import Event
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.bundles.litertlm.small import FULL
from tests.cli.support import small_request
from tests.docs.readme_blocks import ROOT
from tests.gate.gate_support import candidate
from tests.peers.support import chat
from tests.runtimes.test_observe import bundle_of
from tests.support.gguf_writer import Shape, llama_model, tokenizer_keys

PAGES = sorted((ROOT / "docs").rglob("*.md"))
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_NAME = re.compile(r"`(\w+)`")
_REFERENCE = ROOT / "model_bundles" / "reference"
NOT_RUN = {
    "--url": "a server would have to listen",
    "make ": "installs runtimes",
    "pip ": "installs a package",
    "--engine fast": "needs the extra",
    "activate qwen3": "needs a template of its publisher, and the files of qwen3",
    "template status qwen3": "needs the files of qwen3",
    "template rollback qwen3": "needs the files of qwen3",
    "bundle fit qwen3": "needs the files of qwen3",
    "eval ": "completes words in a shell",
    "_PLANNER_COMPLETE": "completes words in a shell",
}
"""Words of command lines that no test runs here, and why."""
EXTRAS = {"openssl": shutil.which("openssl"), "planner gate sign": importlib.util.find_spec("cryptography"),
          "planner gate check-signature": importlib.util.find_spec("cryptography")}  # fmt: skip
"""Beginnings of lines that need what may be absent."""


def fences(kinds: str) -> Iterator[tuple[Path, str]]:
    """Yield the text of every fence of these kinds with its page."""
    for page in PAGES:
        for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
            if found[1] in kinds.split():
                yield page, found[2]


def lines(page: Path) -> list[str]:
    """Return the command lines of a page in order."""
    return [line for where, text in fences("sh bash") if where == page for line in text.splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the files that the pages speak of, and `planner` and `pytest` as commands in it."""
    desk = tmp_path / "desk"
    shutil.copytree(_REFERENCE, desk / "my-model")
    (desk / "my-model" / "bundle.json").unlink()
    template = (_REFERENCE / "chat_template.jinja").read_text(encoding="utf-8")
    (desk / "model.gguf").write_bytes(
        llama_model(tokenizer_keys(_REFERENCE, "gpt-2", template=template), Shape(context=2048))
    )
    (desk / "model.litertlm").write_bytes(FULL)
    (desk / "request.json").write_bytes(small_request())
    (desk / "chat.json").write_text('[{"role": "user", "content": "How many moons has Mars?"}]', encoding="utf-8")
    (desk / "notes.txt").write_text("Notes.", encoding="utf-8")
    announced = "context-planner" in entry_points(group="pytest11").names
    plugin = [] if announced else ["-p", "planner.pytest_plugin"]
    code = {
        "planner": "from planner.cli.main import main; main()",
        "pytest": f"import pytest; sys.exit(pytest.main(['-q', *{plugin!r}, *sys.argv[1:]]))",
    }
    (tmp_path / "bin").mkdir()
    for name, program in code.items():
        script, starter = tmp_path / f"run_{name}.py", tmp_path / "bin" / name
        guarded = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nif __name__ == '__main__':\n    {program}\n"
        script.write_text(guarded, encoding="utf-8")
        starter.write_text(f'#!/usr/bin/env bash\nexec {shlex.join([sys.executable, str(script)])} "$@"\n')
        starter.chmod(0o755)
    return desk


@pytest.mark.skipif(shutil.which("bash") is None, reason="the lines are those of a shell")
@pytest.mark.parametrize("page", sorted({page for page, _ in fences("sh bash")}), ids=lambda page: page.name)
def test_every_command_of_a_page_runs(page: Path, desk: Path) -> None:
    """In order and in one folder, each ends with 0; the rest is named above with a reason."""
    home = {name: str(desk.parent / "home") for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")}
    path = f"{desk.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for line in lines(page):
        if any(word in line for word in NOT_RUN) or any(line.startswith(one) and not EXTRAS[one] for one in EXTRAS):
            continue
        done = subprocess.run(
            ["bash", "-c", line], cwd=desk, env={**os.environ, **home, "PATH": path}, capture_output=True, check=False
        )
        assert 0 == done.returncode, f"{page.name}: {line}\n{done.stdout.decode()[-2000:]}{done.stderr.decode()}"


def test_every_reason_for_not_running_is_of_some_line() -> None:
    """A reason that outlives its line would hide the next one."""
    every = [line for page in PAGES for line in lines(page)]
    assert [] == [word for word in NOT_RUN if not any(word in line for line in every)]
    run = [line for line in every if not any(word in line for word in NOT_RUN)]
    assert len(run) > 15
    assert all(shlex.split(line)[0] in ("planner", "pytest", "openssl") for line in run)


def test_every_example_of_json_and_python_can_be_read() -> None:
    """What a reader copies from a page is no broken file."""
    for _, text in fences("json"):
        json.loads(text)
    for _, text in fences("python"):
        ast.parse(text)


def test_every_file_that_the_gate_reads_is_shown_as_it_is_read(tmp_path: Path) -> None:
    """Matrix, evidence, platforms and the steps of a script; the example of each is taken by its reader."""
    shown = [json.loads(text) for page, text in fences("json") if page.name in ("gate.md", "integration.md")]
    steps, evidence, matrix, platforms = shown
    assert [] == [step for step in steps if not is_event(Event(step["kind"], step["fields"]))]
    made = candidate()
    for tree in (evidence, platforms):
        tree["candidateId"] = made.candidate_id
    for name, tree in (("summary_test_set", evidence), ("matrix", matrix), ("platforms", platforms)):
        (tmp_path / f"{name}.json").write_text(json.dumps(tree), encoding="utf-8")
    assert [] == read_evidence(tmp_path, made, 0)[1]
    (target,) = read_matrix(tmp_path / "matrix.json")
    assert ("measured", ("4k",)) == (target.status, target.limits)
    found, wrong = read_integration(tmp_path / "platforms.json", made)
    assert (1, []) == (len(found), wrong)


def test_the_manifest_is_described_field_by_field(tmp_path: Path) -> None:
    """Each field that is read has a row, no row is of one that is not, and the example of what is yours is taken."""
    page = (ROOT / "docs" / "bundles.md").read_text(encoding="utf-8")
    section = page.split("## The manifest\n", 1)[1].split("\n## ", 1)[0]
    told = {name for row in section.splitlines() if row.startswith("| `") for name in _NAME.findall(row.split("|")[1])}
    path = tmp_path / "reference" / "bundle.json"
    shutil.copytree(_REFERENCE, path.parent)
    manifest = json.loads(path.read_bytes())
    assert told == manifest.keys() | {"provenance", "compactAt", "parts", "kv"}
    before = parse_manifest(path.read_bytes()).manifest
    (yours,) = [json.loads(text) for where, text in fences("json") if where.name == "bundles.md" and "tiers" in text]
    path.write_text(json.dumps(manifest | yours), encoding="utf-8")
    after = open_bundle(path.parent).manifest
    assert (before.digest, ("4k", "8k"), 0.65) == (after.digest, tuple(one.id for one in after.tiers), after.compact_at)
    for name in ("compactAt", "kv", "parts", "provenance", "unknown"):
        path.write_text(json.dumps(manifest | {name: "x"}), encoding="utf-8")
        with pytest.raises(PlannerFault, match="manifest_invalid") as found:
            open_bundle(path.parent)
        assert ("unknown keys" in found.value.detail) == (name == "unknown")


def test_the_device_receipt_of_the_page_counts_as_evidence(tmp_path: Path) -> None:
    """As it stands, but for the number that a runtime would report."""
    (text,) = [text for page, text in fences("python") if page.name == "gate.md"]
    planner = Planner(bundle_of("whole_prompt"))
    made = candidate(bundle_digests=(planner.encoder().bundle.manifest.digest,))
    request = replace(chat(), candidate_id=made.candidate_id, app_version=made.app_version)
    plan = planner.plan(request)
    assert isinstance(plan, Plan)
    scope: dict[str, object] = {"planner": planner, "request": request}
    exec(compile(text.replace("812", str(len(plan.ids))), "gate.md", "exec"), scope)
    (tmp_path / "device.json").write_text(json.dumps(scope["file"]), encoding="utf-8")
    assert (1, []) == check_receipts(tmp_path, made)


def test_the_example_of_the_ledger_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, in an empty folder."""
    (text,) = [text for page, text in fences("python") if page.name == "ledger.md"]
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(compile(text, "ledger.md", "exec"), scope)
    assert "view" in scope


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return words.strip().replace(" ", "-")


def test_every_link_leads_somewhere() -> None:
    """To a file of the project, and to a heading of it where one is named."""
    lost = []
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in _LINK.findall(text):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if link.startswith("http"):
                continue
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
            if not target.exists() or (anchor and anchor not in map(_anchor, headings)):
                lost.append(f"{page.name}: {link}")
    assert [] == lost


def test_every_heading_stands_apart() -> None:
    """Without a blank line before it, some readers take it for a row of the table above."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert [] == re.findall(r"[^\n]\n(#+ .*)$", text, re.MULTILINE), page.name
