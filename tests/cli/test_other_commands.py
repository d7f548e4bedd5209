"""bundle, doctor, reasons, schema and demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partialmethod
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.cli.account_lines import account_lines, bar
from planner.encoding.encoder import Encoder
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.reasons import CODES
from planner.wire.parse import parse_request
from tests.cli.support import REQUEST, ROOT, planner


def test_the_shipped_bundles_are_listed() -> None:
    """A user sees what can be named and whether it is ready."""
    rows = {row["id"]: row for row in planner("bundle", "list", "--json").json}
    assert {"qwen3-0.6b", "mistral-nemo", "reference"} <= rows.keys()
    assert rows["reference"]["ready"]
    assert "reference" in planner("bundle", "list").text


def test_show_prints_manifest_and_profile() -> None:
    """The digest that every receipt names is what show prints."""
    shown = planner("bundle", "show", "reference", "--json").json
    assert shown["manifest"]["digest"] == open_bundle("reference").manifest.digest
    assert shown["profile"]["system"] == "kept"
    assert shown["manifest"]["digest"] in planner("bundle", "show", "reference").text


def test_check_passes_a_shipped_bundle() -> None:
    """Each row is an experiment, and all of them pass."""
    done = planner("bundle", "check", "reference", "--json")
    assert (done.code, {row["result"] for row in done.json} - {"passed", "note"}) == (0, set())
    assert len(done.json) >= 7


def test_check_refuses_a_damaged_copy(tmp_path: Path) -> None:
    """A bundle whose template changed by one byte is no longer that bundle."""
    copy = tmp_path / "reference"
    copy.mkdir()
    for path in (ROOT / "model_bundles" / "reference").iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    assert planner("bundle", "check", copy).code == 0
    template = copy / "chat_template.jinja"
    template.write_bytes(template.read_bytes() + b" ")
    done = planner("bundle", "check", copy)
    assert (done.code, done.err.startswith("context plan rejected: bundle_mismatch: ")) == (2, True)


def test_a_users_bundle_is_found_by_its_id(tmp_path: Path) -> None:
    """The user's folder is looked at after the shipped bundles; only the command knows where it is."""
    if sys.platform != "linux":
        pytest.skip("the variable that moves the folder is one of Linux")
    copy = tmp_path / "context-planner" / "bundles" / "mine"
    copy.mkdir(parents=True)
    for path in (ROOT / "model_bundles" / "reference").iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((copy / "bundle.json").read_text("utf-8"))
    (copy / "bundle.json").write_text(json.dumps(manifest | {"id": "mine"}), encoding="utf-8")
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    rows = {row["id"]: row for row in planner("bundle", "list", "--json", env=env).json}
    assert (rows["mine"]["shipped"], rows["mine"]["ready"]) == (False, True)
    assert planner("count", "--text", "hello", "--bundle", "mine", env=env).code == 0


def test_doctor_names_versions_and_weaknesses() -> None:
    """The report holds what a bug report needs."""
    done = planner("doctor", "--json")
    subjects = {row[0]: row[1] for row in done.json}
    assert done.code == 0
    assert {"planner", "python", "tokenizers", "jinja2", "limits of the template probe"} <= subjects.keys()
    assert "tokenizers" in planner("doctor").text


def test_doctor_says_where_limits_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system without resource limits the report says weaker, not ok."""
    from planner.cli import doctor

    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    rows = {row.subject: row for row in doctor._platform()}
    assert rows["limits of the template probe"].state == "weaker"


def test_every_code_is_explained() -> None:
    """The table, one row of it and the page say the same."""
    assert [row["name"] for row in planner("reasons", "--json").json] == list(CODES)
    assert CODES["template_drops"].meaning.split()[0] in planner("reasons", "template_drops:tools").text
    page = planner("reasons", "--markdown").text
    assert [name for name in CODES if f"`{name}`" not in page] == []
    unknown = planner("reasons", "template_drop")
    assert (unknown.code, "template_drops" in unknown.err) == (2, True)


def test_a_stale_page_is_refused(tmp_path: Path) -> None:
    """--check tells a changed page from the current one."""
    page = tmp_path / "reasons.md"
    page.write_bytes(planner("reasons", "--markdown").out)
    assert planner("reasons", "--check", page).code == 0
    page.write_bytes(page.read_bytes().replace(b"Correct", b"Ignore", 1))
    assert planner("reasons", "--check", page).code == 2
    schema = tmp_path / "schema.json"
    schema.write_bytes(planner("schema").out)
    assert planner("schema", "--check", schema).code == 0
    schema.write_bytes(b"{}")
    assert planner("schema", "--check", schema).code == 2


def test_the_demo_shows_the_account_that_ids_and_spans_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure of the drawn table is recomputed from the ids and their owners, nothing else."""
    # Spans are kept on demand only; with them every id of the prompt has an owner, in order.
    monkeypatch.setattr(Encoder, "certified", partialmethod(Encoder.certified, keep_spans=True))
    answer = Planner("qwen3-0.6b").plan(parse_request(REQUEST.read_bytes()))
    assert isinstance(answer, Plan)
    assert answer.removed, "the demo must force a cut"
    letters = {"policy": "P", "scope": "P", "schema": "S", "tool": "T", "turn": "H", "passage": "R",
               "request": "Q", "preference": "Q", "parameter": "Q", "framing": "F"}  # fmt: skip
    expected = dict.fromkeys("PTSQHRF", 0)
    for owner, tokens in answer.spans:
        expected[letters[owner.partition("/")[0]]] += tokens
    assert sum(expected.values()) == len(answer.ids)
    done = planner("demo", "--require", "qwen3-0.6b")
    shown = {}
    for line in done.text.splitlines():
        words = line.split()
        if len(words) > 3 and words[-1] == "%":
            shown[words[0]] = int(words[-3].replace(",", ""))
    assert {letter: shown[letter] for letter in expected} == expected
    assert sum(shown.values()) == 8192
    assert answer.receipt.final_input_digest is not None
    assert answer.receipt.final_input_digest in done.text


def test_the_demo_falls_back_and_says_so_but_not_in_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the files of qwen3 a person sees the embedded bundle; CI sees a failure."""
    code = (
        "import planner.bundles.open as o, planner.values.reasons as r\n"
        "def absent(origin): raise r.PlannerFault('bundle_unavailable', 'run: something')\n"
        "o.distribution_root = absent\n"
        "from planner.cli.main import run\n"
        "raise SystemExit(run(['demo']))"
    )
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    for variables, wanted in ((env, 0), ({**env, "CI": "true"}, 2)):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT, env=variables, text=True
        )
        assert done.returncode == wanted, done.stderr
        if wanted:
            assert done.stderr == "context plan rejected: bundle_unavailable: run: something\n"
        else:
            assert "embedded bundle reference instead" in done.stdout
            assert "for reference: accepted" in done.stdout


def test_the_bar_fills_its_width_and_shows_every_part() -> None:
    """A part of one token still has a letter; the widths add up."""
    answer = Planner("reference").plan(parse_request(REQUEST.read_bytes()))
    assert isinstance(answer, Plan) or answer.account is not None
    assert answer.account is not None
    for width in (20, 64, 200):
        cells = bar(account_lines(answer.account), width)
        assert sum(count for _, count in cells) == width
        assert all(count >= 1 for _, count in cells)
