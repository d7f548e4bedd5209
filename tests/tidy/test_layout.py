"""The card's layout: folders, packages declared, extras, and a wheel that brings its bundles along."""

from __future__ import annotations

import tomllib

import planner
from tests.tidy.sources import PACKAGE, ROOT

SIX_PACKAGES = ("transformers", "tokenizers", "sentencepiece", "jinja2", "pydantic", "pytest")
FOLDERS = ("planner", "model_bundles", "fixtures", "tests", "benchmarks", "docs", "docs/decisions")
ROOMS = (
    "values", "encoding", "steps", "compaction", "wire", "bundles", "runtimes", "ledger", "adapters", "gate",
    "cli", "compactor",
)  # fmt: skip


def _project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as handle:
        return tomllib.load(handle)


def _names(lines: list[str]) -> set[str]:
    return {line.split("[")[0].split(">")[0].split("=")[0].split("<")[0].strip() for line in lines}


def test_card_layout() -> None:
    """The folders of the card exist, its six packages are declared, transformers and pytest as extras."""
    assert [name for name in FOLDERS if not (ROOT / name).is_dir()] == []
    assert sorted(ROOMS) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    project = _project()["project"]
    assert isinstance(project, dict)
    required = _names(project["dependencies"])
    extras = {name for lines in project["optional-dependencies"].values() for name in _names(lines)}
    assert set(SIX_PACKAGES) - required - extras == set()
    assert {"transformers", "pytest"} & required == set()
    assert {"transformers", "pytest"} <= _names(project["optional-dependencies"]["test"])


def test_R219_project_layout_and_packages() -> None:
    """R219: one house, its parts under their names; bundles are folders with a manifest."""
    test_card_layout()
    bundles = sorted(path.parent.name for path in (ROOT / "model_bundles").glob("*/bundle.json"))
    assert bundles == ["mistral-nemo", "qwen3-0.6b", "reference"]


def test_the_version_is_written_once_and_agrees() -> None:
    """The package, the distribution and the receipts name one version."""
    from planner.steps.seal import PLANNER_VERSION

    project = _project()["project"]
    assert isinstance(project, dict)
    assert (project["version"], planner.__version__) == (PLANNER_VERSION, PLANNER_VERSION)


def test_public_names_resolve_and_are_typed() -> None:
    """Every name of the flat list loads, and the package says that it is typed."""
    assert sorted(planner.__all__, key=str) == sorted(set(planner.__all__))
    for name in planner.__all__:
        assert getattr(planner, name) is not None
    assert (PACKAGE / "py.typed").is_file()


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    """The lazy package answers like any other module."""
    assert not hasattr(planner, "NoSuchName")
    assert set(planner.__all__) <= set(dir(planner))
