"""`planner bundle add` as a person types it: one line on a refusal, a bundle that every command knows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.bundles.add.conftest import plain_copy
from tests.cli.support import Done, imported_by, planner


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose folders of bundles and caches are empty."""
    names = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")
    return {**os.environ, **{name: str(tmp_path / "home") for name in names}}


def add(home: dict[str, str], *arguments: str | Path) -> Done:
    """Run the command."""
    return planner("bundle", "add", *arguments, env=home)


def test_a_bundle_that_was_added_is_known_to_every_command(home: dict[str, str], tmp_path: Path) -> None:
    """Listed, shown, checked, counted and planned with by its id."""
    model = plain_copy(tmp_path / "model")
    done = add(home, model, "--id", "mine", "--note", "from the shelf")
    assert (0, "", True) == (done.code, done.err, done.text.startswith("bundle mine: added\n"))
    assert "warning  from the shelf\n" in done.text
    again = add(home, model, "--id", "mine", "--json")
    assert ("same", "mine", "from the shelf" in again.json["warnings"]) == (
        again.json["result"],
        again.json["id"],
        False,
    )
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": "How many moons has Mars?"}]), encoding="utf-8")
    rows = planner("bundle", "list", "--json", env=home).json
    assert [("mine", True)] == [(row["id"], row["ready"]) for row in rows if not row["shipped"]]
    shown = planner("bundle", "show", "mine", "--json", env=home).json
    assert again.json["bundleDigest"] == shown["manifest"]["digest"]
    assert {"path": str(model.resolve())} == shown["addedFrom"]
    planned = planner("plan", "--chat", chat, "--bundle", "mine", "--json", env=home)
    counted = planner("count", "--chat", chat, "--bundle", "mine", env=home)
    assert (0, len(planned.json["ids"])) == (planned.code, int(counted.text))
    (model / "chat_template.jinja").write_text("other", encoding="utf-8")
    checked = planner("bundle", "check", "mine", "--json", env=home)
    assert (2, "failed") == (checked.code, checked.json[-1]["result"])
    assert {"passed"} == {row["result"] for row in checked.json[:-1]}


def test_every_copied_file_is_checked_those_too_that_no_plan_reads(home: dict[str, str], tmp_path: Path) -> None:
    """One byte of any of them makes the first row a failed one."""
    model = plain_copy(tmp_path / "model")
    (model / "config.json").write_text('{"n_ctx": 2048}', encoding="utf-8")
    assert 0 == add(home, model, "--id", "mine").code
    shown = planner("bundle", "show", "mine", "--json", env=home).json
    folder = next((tmp_path / "home").rglob("bundle.json")).parent
    names = [entry["path"] for entry in shown["manifest"]["files"]]
    assert "config.json" in names
    for name in names:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        checked = planner("bundle", "check", "mine", "--json", env=home)
        assert (2, "failed", "bundle_mismatch") == (
            checked.code,
            checked.json[0]["result"],
            checked.json[0]["code"],
        )
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere"], "bundle_not_found: the path of the model does not exist"),
        (["README.md"], "bundle_path: the path is a file; name the folder of the model, or a GGUF or LiteRT-LM file"),
        (["model_bundles/reference"], "bundle_exists: a shipped bundle has this id; choose another with --id"),
        (["docs"], "bundle_incomplete: no tokenizer"),
    ],
)
def test_a_refusal_is_one_line(home: dict[str, str], arguments: list[str], line: str) -> None:
    """Exit 2, nothing on stdout, and no folder in the user's."""
    done = add(home, *arguments)
    assert (2, b"", 1) == (done.code, done.out, done.err.count("\n"))
    assert done.err.startswith(f"context plan rejected: {line}")
    assert [] == [row for row in planner("bundle", "list", "--json", env=home).json if not row["shipped"]]


def test_adding_a_folder_imports_no_library_but_its_tokenizers(home: dict[str, str], tmp_path: Path) -> None:
    """With a tokenizer.json neither transformers nor another format's library, nor the hub's, is loaded."""
    model, absent = (
        plain_copy(tmp_path / "model"),
        "transformers torch huggingface_hub mistral_common sentencepiece numpy",
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in home.items():
            patch.setenv(name, value)
        assert "0 []" == imported_by(["bundle", "add", str(model), "--json"], absent).splitlines()[-1]


def test_two_bundles_are_compared_as_a_table_and_as_json(home: dict[str, str], tmp_path: Path) -> None:
    """By path and by id; exit 0 whatever differs, one line on stderr where one cannot be opened."""
    model = plain_copy(tmp_path / "model")
    template = model / "chat_template.jinja"
    template.write_text("Hear!\n" + template.read_text(encoding="utf-8"), encoding="utf-8")
    drawn = planner("bundle", "diff", "reference", model, env=home)
    assert (0, "") == (drawn.code, drawn.err)
    assert "bundle reference and bundle model: two bundles\n" in drawn.text
    assert "0 lines removed, 1 added, first at line 1" in drawn.text
    assert "0 of 10 conversations have the same ids; 10 of 10 as plain texts" in drawn.text
    found = planner("bundle", "diff", "reference", model, "--json", env=home).json
    assert ([False], 10) == (sorted({row["same"] for row in found["conversations"]}), len(found["conversations"]))
    done = planner("bundle", "diff", "reference", "nowhere", env=home)
    assert (2, 1, b"") == (done.code, done.err.count("\n"), done.out)


def test_a_diff_counts_whatever_the_window_and_the_runtime(home: dict[str, str], tmp_path: Path) -> None:
    """A runtime that takes no ids and a window too small for any sample leave the counts as they are."""
    model = plain_copy(tmp_path / "model")
    for name, options in (("a", ()), ("b", ("--runtime", "litert-lm")), ("c", ("--context", "40"))):
        assert 0 == planner("bundle", "add", model, "--id", name, *options, env=home).code
    for other in ("c", "b"):
        found = planner("bundle", "diff", other, "a", "--json", env=home).json
        assert {(True, (None, None))} == {(row["same"], tuple(row["reasons"])) for row in found["conversations"]}
