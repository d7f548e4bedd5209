"""Every broken manifest and folder is refused by a name that says what is wrong (H09, H27, H30, H31, H36)."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.cli.main import run
from planner.values.reasons import PlannerFault
from tests.bad_inputs.build import CANARY
from tests.bad_inputs.build_bundles import BadBundle, bad_bundles, good_bundle

MANIFESTS, FOLDERS = bad_bundles("manifests"), bad_bundles("folders")
NEGATIVE = {
    "config-only": "bundle_incomplete",
    "lfs-pointer": "bundle_unsafe",
    "spm-only-junk-name": "bundle_unsafe",
    "truncation-padding": "bundle_unsafe",
    "wrong-class-grows-vocab": "bundle_mismatch",
}


def refused(folder: Path, *, use: bool) -> PlannerFault:
    """Open a bundle, and use it where its manifest hides the fault; return how it is refused."""
    if use:
        bundle = open_bundle(folder)
        with pytest.raises(PlannerFault) as caught:
            _ = bundle.engine
    else:
        with pytest.raises(PlannerFault) as caught:
            open_bundle(folder)
    return caught.value


@pytest.mark.parametrize("entry", [*MANIFESTS, *FOLDERS], ids=lambda entry: f"{entry.kind}: {entry.name}")
def test_a_broken_bundle_is_one_clear_line(tmp_path: Path, entry: BadBundle) -> None:
    """Code and detail are the expected ones; the canary is in nothing that could be printed or logged."""
    error = refused(entry.build(tmp_path), use=entry.later)
    assert entry.code == error.code
    assert error.detail.startswith(entry.detail)
    assert "\n" not in str(error)
    assert len(str(error)) < 200
    assert CANARY not in "".join(traceback.format_exception_only(error)) + repr(error.args)
    assert (error.__cause__, error.__context__) == (None, None)


@pytest.mark.parametrize("entry", [*MANIFESTS, *FOLDERS], ids=lambda entry: f"{entry.kind}: {entry.name}")
def test_the_command_refuses_it_with_one_line_and_exit_2(
    tmp_path: Path, entry: BadBundle, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, no word of the file, nothing on stdout."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code = run(["count", "--text", "hello", "--bundle", str(entry.build(tmp_path))])
    shown = capfd.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith(f"context plan rejected: {entry.code}: {entry.detail}")
    assert shown.err.count("\n") == 1
    assert CANARY not in shown.err


@pytest.mark.parametrize("name", NEGATIVE)
def test_every_negative_folder_is_refused_by_name(
    shared_dir: Path, name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the library and by every command that takes a bundle."""
    folder = shared_dir / "bundles_negative" / name
    assert NEGATIVE[name] == refused(folder, use=False).code
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for command in (["count", "--text", "x", "--bundle"], ["bundle", "show"], ["bundle", "check"]):
        assert run([*command, str(folder)]) == 2
        shown = capfd.readouterr()
        assert shown.err.startswith(f"context plan rejected: {NEGATIVE[name]}: ")
        assert shown.err.count("\n") == 1


def test_no_negative_folder_is_left_out(shared_dir: Path) -> None:
    """A folder added there needs its row here."""
    present = {path.name for path in (shared_dir / "bundles_negative").iterdir() if path.is_dir()}
    assert set(NEGATIVE) == present


@pytest.mark.parametrize("manifest", [False, True])
def test_the_bundle_they_start_from_is_in_order(tmp_path: Path, manifest: bool) -> None:
    """So that each entry is broken by its own change and nothing else."""
    bundle = open_bundle(good_bundle(tmp_path, manifest=manifest))
    assert bundle.engine.encode("hello").ids
    assert bundle.profile.system == "kept"


def test_the_list_is_long_enough_and_names_are_unique() -> None:
    """Fifteen of either kind at least."""
    for listed in (MANIFESTS, FOLDERS):
        assert len(listed) >= 15
        assert len({entry.name for entry in listed}) == len(listed)
