"""The built wheel brings everything a plan needs along."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.support import ROOT

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import planner
assert planner.__file__.startswith(sys.argv[1]), planner.__file__
answer = planner.plan(messages=[{"role": "user", "content": "How many moons has Mars?"}], bundle="reference")
assert answer.accepted
from planner.cli.main import run
sys.exit(run(["demo", "--require", "reference"]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_a_wheel_unpacked_elsewhere_plans_with_the_embedded_bundle(wheel: Path, tmp_path: Path) -> None:
    """model_bundles and the demo travel inside; nothing is read from the checkout."""
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(target)],
        cwd=tmp_path, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "for reference: accepted" in done.stdout


def test_the_wheel_holds_no_tests_and_no_foreign_files(wheel: Path) -> None:
    """What is shipped is the package, its bundles, its demo and its licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"planner", next(one for one in top if one.endswith(".dist-info"))}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "planner/_model_bundles/reference/tokenizer.json" in names
    assert "planner/py.typed" in names
