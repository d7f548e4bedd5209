"""A folder for a user's app: made, passed by the gate at once, and run from a suite of the user's own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from planner.cli.main import run as command
from planner.values.gate import FAMILIES
from tests.cli.support import ROOT

BUNDLES = "reference"
NAMED = ("--app-version", "2.0", "--bundles", BUNDLES)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder as `planner gate init` leaves it."""
    assert 0 == command(["gate", "init", str(tmp_path / "release"), *NAMED])
    return tmp_path / "release"


def gate(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """Run the gate over a folder."""
    capsys.readouterr()
    code = command(["gate", "run", "--candidate", str(folder / "candidate.json"), "--samples",
                    str(folder / "samples"), "--bundles", BUNDLES, "--json"])  # fmt: skip
    return code, json.loads(capsys.readouterr().out)


def test_what_init_writes_passes_at_once(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every family has a sample, in every approved tier; and a broken rule of one of them blocks."""
    code, verdict = gate(made, capsys)
    assert (0, "pass", []) == (code, verdict["verdict"], verdict["reasons"])
    assert set(FAMILIES) == {name for name, count in verdict["coverage"]["families"].items() if count}
    for path in (made / "samples").rglob("*.json"):
        sound = path.read_bytes()
        broken = json.loads(sound)
        broken["expect"]["kept"] = [*broken["expect"].get("kept", []), "policy/p9"]
        path.write_text(json.dumps(broken))
        code, verdict = gate(made, capsys)
        assert (2, {"expected_missing"}) == (code, {reason["code"] for reason in verdict["reasons"]}), path.name
        path.write_bytes(sound)


@pytest.mark.parametrize("bundle", ["qwen3-0.6b", "mistral-nemo"])
def test_it_passes_on_every_shipped_bundle(tmp_path: Path, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where templates cut, rewrite or refuse more."""
    if 2 == command(["gate", "init", str(tmp_path / "r"), "--app-version", "1", "--bundles", bundle]):
        assert "bundle_unavailable" in capsys.readouterr().err
        pytest.skip(f"the files of {bundle} are not here")
    code = command(["gate", "run", "--candidate", str(tmp_path / "r/candidate.json"), "--samples",
                    str(tmp_path / "r/samples"), "--bundles", bundle, "--tiers", "4k"])  # fmt: skip
    assert 0 == code, capsys.readouterr().out


def test_a_folder_that_holds_something_is_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing in it is touched."""
    (made / "README.md").write_text("mine")
    assert 2 == command(["gate", "init", str(made), *NAMED])
    assert "holds something already" in capsys.readouterr().err
    assert "mine" == (made / "README.md").read_text()


def test_a_candidate_changes_with_each_part_and_with_no_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tools, policy and hardening by what they say; versions by themselves."""
    (tmp_path / "one.json").write_text('{"a": [1, 2]}')
    (tmp_path / "same.json").write_text('{ "a":[1,\n2] }')
    (tmp_path / "other.json").write_text('{"a": [2, 1]}')

    def name(*more: str) -> str:
        assert 0 == command(["gate", "candidate", *NAMED, "--id", *more])
        return capsys.readouterr().out.strip()

    one = {part: name(f"--{part}", str(tmp_path / "one.json")) for part in ("tools", "policy", "hardening")}
    assert 4 == len({name(), *one.values()})
    for part, known in one.items():
        assert known == name(f"--{part}", str(tmp_path / "same.json"))
        assert known != name(f"--{part}", str(tmp_path / "other.json"))
    assert 3 == len({name(), name("--template-version", "2"), name("--summary-schema-version", "2.0")})
    assert 2 == command(["gate", "candidate", *NAMED, "--tools", str(tmp_path / "absent.json")])


def suite(made: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a suite of the user's own, which has one test, with the plugin that an installed package announces."""
    own = "def test_own(request):\n    assert 'test_own' == request.node.name\n"
    (made.parent / "test_own.py").write_text(own)
    # An installation that is older than the plugin does not announce it.
    announced = "context-planner" in entry_points(group="pytest11").names
    plugin = [] if announced else ["-p", "planner.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-rA",
         str(made.parent / "test_own.py"), *more],
        capture_output=True, check=False, cwd=made.parent, text=True, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip


def test_samples_are_items_of_a_suite_of_ones_own(made: Path) -> None:
    """Nothing without the option; each sample by name with it; one that fails shows codes and ids and no text."""
    named = ("--planner-samples", str(made / "samples"), "--planner-candidate", str(made / "candidate.json"),
             "--planner-bundles", BUNDLES, "--planner-tiers", "4k")  # fmt: skip
    done = suite(made)
    assert (0, True) == (done.returncode, "1 passed" in done.stdout), done.stdout
    done = suite(made, *named)
    assert (0, True) == (done.returncode, "7 passed" in done.stdout), done.stdout
    assert "PASSED" in done.stdout
    assert "over_budget/half-fits[reference-as asked]" in done.stdout
    path = made / "samples" / "over_budget" / "half-fits.json"
    path.write_text(path.read_text().replace('"policy/p1"', '"policy/p9"'))
    done = suite(made, *named)
    assert (1, True) == (done.returncode, "1 failed, 6 passed" in done.stdout), done.stdout
    assert "expected_missing: policy/p9" in done.stdout
    for word in ("Name no tenant", "Traceback", "pytest_plugin.py"):
        assert word not in done.stdout
    for wrong in (named[:2], (*named[:4], "--planner-bundles", "no-such-bundle")):
        done = suite(made, *wrong)
        assert (4, True) == (done.returncode, "planner" in done.stderr), done.stderr
