"""Activating, falling back and going one step back, as a user and an application see it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.bundles.add import Wanted, add_bundle
from planner.bundles.open import open_bundle
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.request import CurrentRequest, Options, OutputSchema, TextItem
from planner.values.turn import Message
from planner.wire.dump import dump_request
from tests.activation.conftest import BUILT_IN, NEWER, SHIPPED, Desk, asked, cell, planned, sha256
from tests.bundles.add.conftest import plain_copy
from tests.cli.support import ROOT


def shipped_bytes() -> dict[str, bytes]:
    """Return every shipped file of the bundle."""
    folder = ROOT / "model_bundles" / "reference"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_another_template_is_another_bundle(desk: Desk) -> None:
    """Digest, ids and cache key differ; the shipped folder is as it was (R42)."""
    files = shipped_bytes()
    before = planned(desk.plan(asked()))
    assert 0 == desk.activate(NEWER).code
    after = planned(desk.plan(asked()))
    assert BUILT_IN == before.receipt.bundle_digest != after.receipt.bundle_digest
    assert before.receipt.cache_key != after.receipt.cache_key
    assert len(before.ids) < len(after.ids)
    assert files == shipped_bytes()
    assert after.receipt.bundle_digest == open_bundle("reference", user_folder=desk.folder).manifest.digest
    assert BUILT_IN == open_bundle("reference").manifest.digest


def test_R176_remote_template_activation_gate(desk: Desk) -> None:
    """R176: nothing is active before the budget was computed in every target cell and all of it passed."""
    uncovered = desk.matrix(cell(BUILT_IN), cell(BUILT_IN, abi="x86_64", status="uncovered"))
    done = desk.activate(NEWER, "--matrix", uncovered, "--json")
    assert (2, ["uncovered_cell"]) == (done.code, [one["code"] for one in done.json["findings"]])
    assert [["2.1/llama.cpp-b9/android/x86_64/acme"]] == [one["ids"] for one in done.json["findings"]]
    assert BUILT_IN == planned(desk.plan(asked())).receipt.bundle_digest

    heavy = SHIPPED.replace("{{- '<|begin|>' }}", "{{- '<|begin|>' }}{{- '" + "note " * 4100 + "' }}")
    covered = desk.matrix(cell(BUILT_IN), cell(BUILT_IN, appVersion="2.2", limits=["4k", "32k"]))
    done = desk.activate(heavy, "--matrix", covered, "--json")
    assert (2, {"nothing_planned", "no_plan"}) == (done.code, {one["code"] for one in done.json["findings"]})
    named = {name for one in done.json["findings"] for name in one["ids"]}
    assert {"2.1/4k", "2.2/4k"} == named - {"plain", "called"}
    assert BUILT_IN == planned(desk.plan(asked())).receipt.bundle_digest

    done = desk.activate(NEWER, "--matrix", covered, "--json")
    assert (0, [], True) == (done.code, done.json["findings"], done.json["active"])
    places = {(run["appVersion"], run["limit"]) for run in done.json["evidence"]["runs"]}
    assert {("2.1", "4k"), ("2.2", "4k"), ("2.2", "32k")} == places
    # Measured with the template before is no measurement of this one (R180, R210).
    assert {"simulated"} == {one["status"] for one in done.json["cells"]}
    assert BUILT_IN != planned(desk.plan(asked())).receipt.bundle_digest


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--min-app", "2", "--app-version", "1.9"), "app_version_out_of_range"),
        (("--min-app", "2"), "app_version_unknown"),
        (("--min-app", "2", "--app-version", "2-beta"), "app_version_unknown"),
        (("--min-app", "3", "--max-app", "2", "--app-version", "2"), "bounds_reversed"),
        (("--min-app", "2-beta", "--app-version", "2"), "bounds_unreadable"),
    ],
)
def test_bounds_that_exclude_the_activating_app_refuse(desk: Desk, options: tuple[str, ...], code: str) -> None:
    """A template is not activated by an app it is not meant for; the nearest legal version is."""
    done = desk.activate(NEWER, *options, "--json")
    assert (2, [code]) == (done.code, [one["code"] for one in done.json["findings"]])
    assert "context plan rejected: activation_blocked: 1 findings; the template in force stays\n" == done.err
    assert [] == list((desk.folder / "reference").glob("activated/*"))
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2.0").code


def test_a_matrix_without_this_bundle_covers_nothing(desk: Desk) -> None:
    """Cells of another bundle, or of versions outside the bounds, are no target."""
    other, old = cell("0" * 64), cell(BUILT_IN, appVersion="1.0")
    done = desk.activate(NEWER, "--matrix", desk.matrix(other, old), "--min-app", "2", "--json")
    assert (2, ["no_target_cell"]) == (done.code, sorted({one["code"] for one in done.json["findings"]} - {
        "not_measured"}))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        (SHIPPED.replace("{%- if tools %}", "{%- if false %}"), "carries_less", ["tools"]),
        (SHIPPED.replace("'<|developer|>'", "raise_exception('no')"), "carries_less", ["developer", "late_developer"]),
        ("{{ messages[0].content", "probe_refused", []),
        ("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}x", "probe_refused", []),
        (SHIPPED.replace("{{- message.content }}", "{{- message.content | upper }}"), "probe_refused", []),
    ],
)
def test_a_template_that_loses_or_endangers_is_refused(desk: Desk, text: str, code: str, names: list[str]) -> None:
    """The probe compares what is carried with the template in force; words of the template are shown nowhere."""
    done = desk.activate(text, "--json")
    first = done.json["findings"][0]
    assert (2, code, names) == (done.code, first["code"], first["ids"])
    assert BUILT_IN == planned(desk.plan(asked())).receipt.bundle_digest


def test_a_template_with_another_digest_is_never_looked_at(desk: Desk) -> None:
    """One changed byte: neither probed nor planned, and the record says why without its text."""
    path = desk.write(NEWER + " ")
    done = desk.run("activate", "reference", path, "--sha256", sha256(NEWER), "--json")
    assert (2, ["digest_differs"]) == (done.code, [one["code"] for one in done.json["findings"]])
    assert (None, None) == (done.json["evidence"]["probed"], done.json["evidence"]["runs"])
    row = json.loads(desk.record.read_text())["audit"][-1]
    assert ("refuse", ["digest_differs"]) == (row["action"], row["findings"])


def test_one_step_back_is_one_command_and_touches_no_ledger(desk: Desk) -> None:
    """R212: the template goes back alone; the conversation's file is the same, byte for byte, and so are the ids."""
    path = desk.root / "chat.db"
    with Ledger.open(path) as ledger:
        ledger.append("c1", "t1", [Message("user", "m1", "Which room is free?")])
    kept = path.read_bytes()
    first = planned(desk.plan(asked()))
    third = SHIPPED.replace("{{- '<|begin|>' }}", "{{- '<|begin|>' }}{{- 'note note' }}")
    assert 0 == desk.activate(NEWER).code
    second = planned(desk.plan(asked()))
    assert 0 == desk.activate(third).code
    assert 0 == desk.run("rollback", "reference").code
    assert (second.ids, second.receipt.bundle_digest) == (
        planned(desk.plan(asked())).ids, planned(desk.plan(asked())).receipt.bundle_digest,
    )  # fmt: skip
    done = desk.run("rollback", "reference")
    assert (2, True) == (done.code, done.err.startswith("context plan rejected: no_step_back: "))
    assert 0 == desk.activate(third).code
    assert 0 == desk.run("rollback", "reference").code
    assert second.ids == planned(desk.plan(asked())).ids
    assert first.ids != second.ids
    assert kept == path.read_bytes()
    actions = [row["action"] for row in json.loads(desk.record.read_text())["audit"]]
    assert ["activate", "activate", "rollback", "activate", "rollback"] == actions


def test_the_step_before_the_first_template_is_the_built_in_one(desk: Desk) -> None:
    """After one activation a rollback leaves the bundle as it was shipped."""
    first = planned(desk.plan(asked()))
    assert 0 == desk.activate(NEWER).code
    shown = desk.run("rollback", "reference", "--json").json
    assert (None, False) == (shown["active"], shown["canStepBack"])
    assert (first.ids, None) == (planned(desk.plan(asked())).ids, planned(desk.plan(asked())).receipt.template_fallback)


def test_check_judges_and_changes_nothing(desk: Desk) -> None:
    """No record, no file, and the answer of the real run."""
    done = desk.activate(NEWER, "--check")
    assert (0, False) == (done.code, desk.record.exists())
    assert "would be activated for reference" in done.out
    assert not desk.folder.exists()


def test_samples_are_the_users_and_a_vanished_id_blocks(desk: Desk) -> None:
    """System text, schema and tools may change with the template: what is gone is named (R175)."""
    rule = TextItem("safety", "Never open a panel.")
    old, new = desk.root / "old.json", desk.root / "desk.request.json"
    tree: dict[str, Any] = {
        "schemaVersion": "1.0", "modelBundleId": "reference", "request": {"id": "q", "text": "Hello?"},
        "policy": [{"id": "tone", "text": "Be brief."}], "reservedOutputTokens": 8,
    }  # fmt: skip
    new.write_text(json.dumps(tree))
    before = tree | {"policy": [*tree["policy"], {"id": rule.id, "text": rule.text}]}
    old = desk.root / "published" / "desk.request.json"
    old.parent.mkdir()
    old.write_text(json.dumps(before))
    done = desk.activate(NEWER, "--samples", new, "--published", old, "--json")
    assert [("id_vanished", ["policy/safety"])] == [(one["code"], one["ids"]) for one in done.json["findings"]]
    done = desk.activate(NEWER, "--samples", old, "--published", new, "--json")
    assert (0, []) == (done.code, done.json["findings"])
    done = desk.activate(NEWER, "--samples", old, "--published", desk.write("{}", "other.json"))
    assert 2 == done.code
    done = desk.activate(NEWER, "--samples", old.parent)
    assert (2, True) == (done.code, "desk.request.json: lies beside the families' folders" in done.err)
    (desk.root / "empty").mkdir()
    done = desk.activate(NEWER, "--samples", desk.root / "empty")
    assert (2, True) == (done.code, "--samples names a folder without samples" in done.err)
    family = ROOT / "fixtures" / "samples" / "permission_withdrawn"
    (desk.root / "samples").mkdir()
    (desk.root / "samples" / family.name).symlink_to(family)
    done = desk.activate(NEWER, "--samples", desk.root / "samples", "--check", "--json")
    assert len(list(family.glob("*.json"))) == len({run["sample"] for run in done.json["evidence"]["runs"]})
    done = desk.activate(NEWER, "--samples", old, "--samples", new)
    assert (2, True) == (done.code, "--samples names a sample twice" in done.err)
    done = desk.activate(NEWER, "--samples", new, "--published", ROOT / "fixtures/demo/building_desk.request.json")
    assert (2, True) == (done.code, "--published holds 1 samples that --samples does not" in done.err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("activate", "reference", "x.jinja", "--sha256", "ABC"), "--sha256 takes 64 lower-case hex digits"),
        (("activate", "reference", "x.jinja"), "--sha256 is missing"),
        (("activate", "nobody", "x.jinja", "--sha256", "0" * 64), "bundle_not_found: "),
        (("activate", "./reference", "x.jinja", "--sha256", "0" * 64), "bundle_not_found: "),
        (("activate", "reference", "x.jinja", "--sha256", "0" * 64, "--version", "two words"), "--version is no"),
        (
            ("activate", "reference", "x.jinja", "--sha256", "0" * 64, "--renderer", "llama"),
            "environment: no --llama-url",
        ),
        (("rollback", ".."), "no_step_back: "),
        (("rollback", "reference"), "no_step_back: "),
        (("status", "nobody"), "bundle_not_found: "),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(desk: Desk, arguments: tuple[str, ...], says: str) -> None:
    """One line on stderr, exit 2, and nothing is written."""
    done = desk.run(*arguments)
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert says in done.err
    assert not desk.folder.exists()


def test_an_output_schema_is_part_of_what_may_not_vanish(desk: Desk) -> None:
    """The schema of a plan is among the ids that never leave."""
    schema = OutputSchema("answer", {"type": "object"})
    kept = planned(desk.plan(replace(asked(), request=CurrentRequest(id="q", text="Go."), output_schema=schema))).kept
    assert "schema/answer" in kept


def test_a_user_folder_that_cannot_be_written_is_a_fault(desk: Desk) -> None:
    """The folder's place is taken by a file: one line, and the template in force stays."""
    desk.folder.mkdir(parents=True)
    (desk.folder / "reference").write_text("in the way")
    done = desk.activate(NEWER)
    assert (2, True) == (done.code, done.err.startswith("context plan rejected: file_not_readable: "))


def test_a_record_that_cannot_be_written_activates_nothing(desk: Desk) -> None:
    """The template's file is written first and the record last: between the two the old template is in force."""
    desk.record.mkdir(parents=True)
    done = desk.activate(NEWER)
    assert (2, True) == (done.code, done.err.startswith("context plan rejected: file_not_readable: "))
    assert [f"{sha256(NEWER)}.jinja"] == [path.name for path in desk.record.parent.glob("activated/*")]
    receipt = planned(desk.plan(asked())).receipt
    assert (BUILT_IN, "template_state_damaged") == (receipt.bundle_digest, receipt.template_fallback)
    desk.record.rmdir()
    receipt = planned(desk.plan(asked())).receipt
    assert (BUILT_IN, None) == (receipt.bundle_digest, receipt.template_fallback)


def test_a_bundle_whose_runtime_takes_no_ids_gets_a_template_too(desk: Desk) -> None:
    """What it costs is counted all the same, for samples in any mode; a plan then needs a certificate as ever."""
    folder = plain_copy(desk.root / "model")
    added = add_bundle(Wanted(folder, id="mine", runtime="litert-lm@2025-06"), desk.folder)
    sample = desk.root / "text.json"
    sample.write_bytes(dump_request(replace(asked(max_input_tokens=4_096), options=Options(mode="text"))))
    done = desk.activate(NEWER, "--samples", sample, "--json", bundle="mine")
    assert (0, "") == (done.code, done.err)
    (run,) = done.json["evidence"]["runs"]
    assert run["before"]["tokens"] < run["after"]["tokens"]
    again = desk.activate(NEWER.replace("note", "memo"), "--min-app", "2", "--app-version", "2.3", bundle="mine")
    assert (0, "") == (again.code, again.err)
    planner = Planner("mine", user_folder=desk.folder)
    assert added.manifest.digest == planner.encoder().bundle.manifest.digest
    refused = planner.plan(replace(asked("2.3"), model_bundle_id="mine"))
    assert ("runtime_takes_no_ids", False) == (refused.receipt.reason, refused.accepted)
