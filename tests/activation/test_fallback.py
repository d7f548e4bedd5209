"""Which template serves an app, what the receipt says of it, and when the built-in one stands in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli.main import run
from planner.planner import Planner
from planner.values.observation import Reported
from planner.values.plan import Refusal
from planner.values.reasons import PlannerFault
from tests.activation.conftest import BUILT_IN, NEWER, SHIPPED, Desk, asked, planned, sha256
from tests.cli.support import ROOT


def test_R174_template_provenance(desk: Desk) -> None:
    """R174: the receipt names entry point, template version, app version and the fallback value."""
    before = planned(desk.plan(asked("2.1"))).receipt
    bounds = ("--min-app", "2", "--max-app", "2.9", "--app-version", "2.1")
    assert 0 == desk.activate(NEWER, "--version", "7.1", "--entry", "remote", *bounds).code
    receipt = planned(desk.plan(asked("2.1"))).receipt
    assert ("remote", "7.1", "2.1", None) == (
        receipt.template_entry, receipt.template_version, receipt.app_version, receipt.template_fallback,
    )  # fmt: skip
    assert (sha256(NEWER), sha256(SHIPPED)) == (receipt.template_digest, before.template_digest)
    fallen = planned(desk.plan(asked("3"))).receipt
    assert ("default", "1", "3", "app_version_out_of_range", sha256(SHIPPED)) == (
        fallen.template_entry, fallen.template_version, fallen.app_version, fallen.template_fallback,
        fallen.template_digest,
    )  # fmt: skip


def test_R177_template_fetch_failure_uses_builtin(desk: Desk) -> None:
    """R177: not fetched, lost, altered or out of range: the built-in template plans, and the receipt says why."""
    built_in = planned(desk.plan(asked("2.1")))
    done = desk.run("activate", "reference", desk.root / "absent.jinja", "--sha256", "0" * 64)
    assert (2, "not_fetched: the template's file is not at hand\n") == (done.code, done.out)
    assert (built_in.ids, None) == (planned(desk.plan(asked("2.1"))).ids, built_in.receipt.template_fallback)

    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2.1").code
    assert built_in.ids != planned(desk.plan(asked("2.1"))).ids
    for version, reason in (("1.9", "app_version_out_of_range"), (None, "app_version_unknown")):
        answer = planned(desk.plan(asked(version)))
        assert (built_in.ids, BUILT_IN, reason) == (
            answer.ids, answer.receipt.bundle_digest, answer.receipt.template_fallback,
        )  # fmt: skip
    kept = desk.folder / "reference" / "activated" / f"{sha256(NEWER)}.jinja"
    kept.write_text(NEWER + "\n", encoding="utf-8")
    for reason in ("template_altered", "template_missing"):
        answer = planned(desk.plan(asked("2.1")))
        assert (built_in.ids, reason) == (answer.ids, answer.receipt.template_fallback)
        kept.unlink(missing_ok=True)


def test_a_record_that_cannot_serve_falls_back_by_name(desk: Desk) -> None:
    """A damaged record, and one made for another version of the bundle."""
    assert 0 == desk.activate(NEWER).code
    good = desk.record.read_text()
    changed = json.loads(good) | {"baseDigest": "0" * 64}
    for text, reason in ((json.dumps(changed), "template_base_changed"), (good[:-9], "template_state_damaged")):
        desk.record.write_text(text)
        answer = planned(desk.plan(asked()))
        assert (BUILT_IN, reason) == (answer.receipt.bundle_digest, answer.receipt.template_fallback)
        assert reason in desk.run("status", "reference").out
    assert 2 == desk.run("rollback", "reference").code
    assert 0 == desk.activate(NEWER).code
    assert planned(desk.plan(asked())).receipt.template_fallback is None


def test_a_conversation_of_another_app_is_refused(desk: Desk) -> None:
    """A conversation keeps its template; an app outside the bounds must open one of its own."""
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2").code
    planner = Planner("reference", user_folder=desk.folder)
    chat = planner.conversation(app_version="2.5")
    refused = chat.plan(asked("1.0"))
    assert isinstance(refused, Refusal)
    assert "app_version_out_of_range" == refused.reason
    assert planned(chat.plan(asked("2.5"))).ids == planned(planner.plan(asked("2.5"))).ids
    assert planned(chat.plan(asked())).ids == planned(planner.plan(asked("2.5"))).ids
    older = planner.conversation(app_version="1.0")
    assert planned(older.plan(asked("1.0"))).ids == planned(planner.plan(asked("1.0"))).ids


def test_status_says_what_an_app_gets(desk: Desk) -> None:
    """Before anything, with an activated template, and for an app outside its bounds."""
    assert desk.run("status", "reference", "--json").json["record"] is None
    assert 0 == desk.activate(NEWER, "--version", "7", "--min-app", "2", "--app-version", "2").code
    inside = desk.run("status", "reference", "--app-version", "2.4", "--json").json["inForce"]
    assert (False, "7", None) == (inside["builtIn"], inside["templateVersion"], inside["templateFallback"])
    outside = desk.run("status", "reference", "--app-version", "1", "--json").json["inForce"]
    assert (True, "app_version_out_of_range") == (outside["builtIn"], outside["templateFallback"])
    text = desk.run("status", "reference", "--app-version", "2.4").out
    assert "one step back  the built-in template" in text
    assert "activate" in text


def test_a_planner_keeps_the_templates_it_opened(desk: Desk) -> None:
    """A decision meanwhile changes nothing for who plans already; the next planner has it."""
    planner = Planner("reference", user_folder=desk.folder)
    first = planned(planner.plan(asked("2.1")))
    assert 0 == desk.activate(NEWER).code
    assert first.ids == planned(planner.plan(asked("2.1"))).ids
    second = Planner("reference", user_folder=desk.folder)
    kept = planned(second.plan(asked("2.1")))
    assert first.ids != kept.ids
    assert 0 == desk.run("rollback", "reference").code
    assert kept.ids == planned(second.plan(asked("7"))).ids
    assert second.encoder(app_version="2.1") is second.encoder(app_version="7")


def test_the_command_line_plans_with_it_and_says_where_it_fell_back(desk: Desk) -> None:
    """`planner plan` by id, and the note that a person reads."""
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2").code
    request = desk.root / "request.json"
    for version, digest, note in (("2.1", sha256(NEWER), False), ("1", sha256(SHIPPED), True)):
        request.write_text(json.dumps({
            "modelBundleId": "reference", "appVersion": version, "request": {"id": "q", "text": "Hello?"},
            "reservedOutputTokens": 8,
        }))  # fmt: skip
        code = run(["plan", str(request), "--receipt", str(desk.root / "receipt.json")])
        out, _ = desk.capsys.readouterr()
        receipt = json.loads((desk.root / "receipt.json").read_text())
        assert (0, digest, version) == (code, receipt["templateDigest"], receipt["appVersion"])
        assert note == ("app_version_out_of_range" in out)


def test_the_gate_runs_the_template_of_the_candidates_app(desk: Desk) -> None:
    """A release is judged with the template its app version gets, under that bundle's digest (R180)."""
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2").code
    inside = desk.run("status", "reference", "--app-version", "2.1", "--json").json["inForce"]["bundleDigest"]
    name = Path("turn_truncation") / "turns-calls-and-results.json"
    samples = desk.root / "samples"
    (samples / name).parent.mkdir(parents=True)
    (samples / name).write_bytes((ROOT / "fixtures" / "samples" / name).read_bytes())
    for version, digest in (("2.1", inside), ("1.0", BUILT_IN)):
        candidate = {
            "appVersion": version, "bundleDigests": [digest], "templateVersion": "1", "toolSetDigest": "0" * 64,
            "summarySchemaVersion": "1.0", "hardeningDigest": "0" * 64, "policyDigest": "0" * 64,
        }  # fmt: skip
        (desk.root / "candidate.json").write_text(json.dumps(candidate))
        results = desk.root / f"{version}.jsonl"
        run(["gate", "run", "--candidate", str(desk.root / "candidate.json"), "--samples", str(samples),
             "--bundles", "reference", "--results", str(results)])  # fmt: skip
        desk.capsys.readouterr()
        found = [json.loads(line) for line in results.read_text().splitlines()]
        assert found
        assert {(digest, digest)} == {
            (one["bundleDigest"], receipt["bundleDigest"]) for one in found for receipt in one["receipts"]
        }


def test_a_drift_blocks_the_template_for_every_app_that_gets_it(desk: Desk) -> None:
    """Two versions outside the bounds get one built-in bundle for two reasons: one drift blocks it for both."""
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--app-version", "2").code
    planner = Planner("reference", user_folder=desk.folder)
    answers = {version: planned(planner.plan(asked(version))) for version in (None, "1.0", "2.5")}
    assert {BUILT_IN} == {answers[version].receipt.bundle_digest for version in (None, "1.0")}
    assert "drift" == planner.observe(answers["1.0"], Reported(99_999, meaning="whole_prompt")).verdict
    for version in (None, "1.0"):
        with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
            planner.plan(asked(version))
    assert planned(planner.plan(asked("2.5"))).ids == answers["2.5"].ids
