"""Where samples lie: a folder or file that nothing reads is named, since silence would look like a pass (R191)."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.gate.reading import read_samples
from planner.values.gate import FAMILIES
from planner.values.reasons import RefusalSignal
from planner.wire.dump import dump_record
from tests.cli.support import planner as command
from tests.gate.gate_support import candidate, sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of samples, one of each family."""
    for family in FAMILIES:
        put(tmp_path, family, f"{family}.json", family)
    return tmp_path


def put(folder: Path, place: str, name: str = "one.json", family: str = "lifecycle") -> None:
    """Write a sample."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / name).write_bytes(dump_record(sample(family + "-one", family=family)))


def refusal(folder: Path) -> str:
    """Return what the reader refuses the folder with."""
    with pytest.raises(RefusalSignal) as told:
        list(read_samples(folder))
    assert "invalid-input" == told.value.reason
    return told.value.detail


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lifecylce", "lifecycle"), ("over-budget", "over_budget"), ("Old_Summary", "old_summary"),
        ("permissions_withdrawn", "permission_withdrawn"), ("turn_truncations", "turn_truncation"),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_family_is_named_with_the_nearest_family(folder: Path, name: str, meant: str) -> None:
    """Beside the right one, in place of it, and with nothing in it."""
    (folder / name).mkdir()
    assert f"{name}: is no family's folder; the nearest is {meant}" == refusal(folder)
    put(folder, name)
    assert f"{name}: is no family's folder; the nearest is {meant}" == refusal(folder)


def test_a_name_like_none_lists_the_families(folder: Path) -> None:
    """Nothing is guessed: `regressions` is near to no family."""
    (folder / "regressions").mkdir()
    assert f"regressions: is no family's folder; the families are {', '.join(FAMILIES)}" == refusal(folder)


def test_a_name_that_is_no_id_is_not_shown(folder: Path) -> None:
    """A line of a CI log is one line, whatever a folder is called."""
    (folder / "two\nlines").mkdir()
    assert refusal(folder).startswith("$: is no family's folder; ")


def test_a_sample_beside_the_folders_or_too_deep_is_named(folder: Path) -> None:
    """Both were passed over."""
    (folder / "one.json").write_bytes(dump_record(sample("alone")))
    assert refusal(folder).startswith("one.json: lies beside the families' folders")
    (folder / "one.json").unlink()
    put(folder, "lifecycle/2026")
    assert refusal(folder).startswith("lifecycle/2026: is a folder in a family's folder")


def test_what_other_tools_keep_there_is_left_alone(folder: Path) -> None:
    """Hidden folders and files, and what is no JSON: the samples are read as without them."""
    before = list(read_samples(folder))
    assert len(FAMILIES) == len(before)
    put(folder, ".git")
    put(folder, "lifecycle/.cache")
    (folder / "README.md").write_text("Samples of the app.")
    (folder / "lifecycle" / "notes.txt").write_text("Why.")
    assert before == list(read_samples(folder))


def test_R191_gate_six_families_and_no_other_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A misspelled one is refused before the first cell: exit 2, one line, and nothing is written."""
    put(folder, "lifecylce")
    made = tmp_path_factory.mktemp("run")
    (made / "candidate.json").write_bytes(dump_record(candidate()))
    done = command(
        "gate", "run", "--candidate", made / "candidate.json", "--samples", folder, "--bundles", "reference",
        "--results", made / "results.jsonl",
    )  # fmt: skip
    line = "context plan rejected: invalid-input: lifecylce: is no family's folder; the nearest is lifecycle\n"
    assert (2, b"", line) == (done.code, done.out, done.err)
    assert ["candidate.json"] == [path.name for path in made.iterdir()]
