"""The built wheel works where nothing of the checkout is: another folder, an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUEST = {
    "schemaVersion": "1.0",
    "modelBundleId": "reference",
    "maxInputTokens": 4096,
    "policy": [{"id": "kind", "text": "Answer in one sentence."}],
    "request": {"id": "q1", "text": "Which valve is open?"},
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the checkout."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(command, check=True, cwd=out)
    (built,) = out.glob("context_planner-*.whl")
    return built


def test_shipped_bundles_and_notices_travel_inside_the_wheel(wheel: Path) -> None:
    """model_bundles, the licence and the notices are in it; tests and fixtures are not."""
    names = zipfile.ZipFile(wheel).namelist()
    for bundle in ("reference/tokenizer.json", "qwen3-0.6b/bundle.json", "mistral-nemo/chat_template.jinja"):
        assert f"planner/_model_bundles/{bundle}" in names
    assert "planner/py.typed" in names
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "planner").rglob("*") if path.is_file()}
    assert {
        "planner/bundles/typical.json",
        "planner/bundles/conversations.json",
        "planner/runtimes/npm_render.mjs",
    } <= own
    assert {name for name in own if "__pycache__" not in name} <= set(names), "every file that the package reads"
    assert any(name.endswith("licenses/THIRD_PARTY_NOTICES.md") for name in names)
    assert not any(name.startswith(("tests/", "fixtures/", "benchmarks/")) for name in names)


def test_an_installed_wheel_plans_with_the_reference_bundle(wheel: Path, tmp_path: Path) -> None:
    """A fresh environment in another folder: install, plan, exit 0, ids and account agree."""
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    install = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, cwd=tmp_path)
    (tmp_path / "request.json").write_text(json.dumps(REQUEST), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(scripts / "planner"), "plan", "request.json", "--bundle", "reference", "--json"],
        check=False, capture_output=True, cwd=tmp_path, env=clean,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    answer = json.loads(done.stdout)
    six = ("policyTokens", "toolTokens", "requestTokens", "historyTokens", "retrievalTokens", "framingTokens")
    assert len(answer["ids"]) == sum(answer["account"][name] for name in six) > 0
