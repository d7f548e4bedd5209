"""Session fixtures: data beside the checkout, expanded bundles, references, seeds and profiles.

PLANNER_MAX_EXAMPLES  examples of each property test (default 25)
PLANNER_SEED          seed of every generator (default 20261130); printed first, so that a failure repeats
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.reference import ReferenceBundle, bundles_below

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
SEED = int(os.environ.get("PLANNER_SEED", "20261130"))
MAX_EXAMPLES = int(os.environ.get("PLANNER_MAX_EXAMPLES", "25"))

hypothesis.settings.register_profile(
    "planner", deadline=None, max_examples=MAX_EXAMPLES, database=None, print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)  # fmt: skip
hypothesis.settings.load_profile("planner")


def pytest_report_header() -> str:
    """Print the seed before anything runs."""
    return f"planner: PLANNER_SEED={SEED} PLANNER_MAX_EXAMPLES={MAX_EXAMPLES}"


def pytest_configure(config: pytest.Config) -> None:
    """Give hypothesis the same seed, unless the command line names one."""
    if hasattr(config.option, "hypothesis_seed") and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that stands on the shared data, through whichever fixture."""
    for item in items:
        if {"shared_dir", "bundle_dir", "dialogues"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.shared)


@pytest.fixture(scope="session")
def seed() -> int:
    """Seed of this run; tests make their own random.Random from it."""
    return SEED


@pytest.fixture(scope="session")
def max_examples() -> int:
    """Number of examples a seeded loop should take by default."""
    return MAX_EXAMPLES


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared data beside the checkout; skips where it is absent."""
    if not (SHARED / "unpack.py").is_file():
        pytest.skip("the shared data is not beside this checkout (../shared/unpack.py)")
    return SHARED


def _stamp(shared: Path) -> str:
    """What the expanded folder was made from: the manifest's digests of every stored file."""
    entries = json.loads((shared / "bundles" / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    return json.dumps(sorted([entry["bundle"], entry["file"], entry["sha256"]] for entry in entries))


@pytest.fixture(scope="session")
def bundle_dir(shared_dir: Path) -> Path:
    """Every shared bundle expanded into .cache/bundles, verified by unpack.py (sizes and SHA-256).

    A stamp with the manifest's digests and every file's size spares hashing 170 MB again in each run.
    """
    target = ROOT / ".cache" / "bundles"
    stamp, wanted = target / "stamp.json", _stamp(shared_dir)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and _complete(shared_dir, target):
        return target
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(shared_dir / "unpack.py"), str(target)], capture_output=True, check=False
    )
    assert done.returncode == 0, f"unpack.py did not verify: {done.stderr.decode()}"
    stamp.write_text(wanted, encoding="utf-8")
    return target


def _complete(shared: Path, target: Path) -> bool:
    entries = json.loads((shared / "bundles" / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    for entry in entries:
        path = target / entry["bundle"] / entry["file"]
        if not path.is_file() or path.stat().st_size != entry["size"]:
            return False
    return True


@pytest.fixture(scope="session")
def template_bundles(bundle_dir: Path) -> list[str]:
    """Ids of the shared folders that hold a tokenizer and a template."""
    return bundles_below(bundle_dir)


@pytest.fixture(scope="session")
def reference(bundle_dir: Path) -> Iterator[Callable[[str], ReferenceBundle]]:
    """Reference by bundle id; its tokenizer is loaded once a session."""
    loaded: dict[str, ReferenceBundle] = {}

    def by_id(name: str) -> ReferenceBundle:
        if name not in loaded:
            loaded[name] = ReferenceBundle(bundle_dir / name)
        return loaded[name]

    yield by_id
    loaded.clear()


@pytest.fixture(scope="session")
def dialogues(shared_dir: Path) -> list[object]:
    """The 66 benchmark dialogues of peers.md §5."""
    from tests.support.dialogues import load

    return list(load(shared_dir))
