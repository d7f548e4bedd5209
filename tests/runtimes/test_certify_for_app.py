"""A template that is activated for some versions of the app: certificates and drift of its own, reached by name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from planner.bundles.activated import dump_state
from planner.bundles.add import Wanted, add_bundle
from planner.bundles.candidate import open_candidate
from planner.bundles.certificates import certificates
from planner.bundles.open import open_bundle
from planner.bundles.records import Records
from planner.cli.files import user_folder
from planner.cli.main import run
from planner.planner import Planner
from planner.values.activation import TemplateState, TemplateVersion
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import Options
from tests.bundles.add.conftest import plain_copy
from tests.runtimes.test_certify import CHAT, serving


def test_a_template_with_bounds_is_certified_blocked_and_lifted_for_its_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It has a digest of its own, and so records of its own: the app's version names them on the command line."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    own = user_folder()
    text = plain_copy(tmp_path / "model").joinpath("chat_template.jinja").read_text("utf-8") + "{# newer #}"
    add_bundle(Wanted(tmp_path / "model", id="mine", runtime="mlx-lm@1.0"), own)
    version = TemplateVersion(hashlib.sha256(text.encode()).hexdigest(), "", min_app="2")
    bundle, full = open_candidate("mine", version, text, user_folder=own, cache_dir=None)
    built_in = open_bundle("mine", user_folder=own).manifest.digest
    (own / "mine" / "activated").mkdir()
    (own / "mine" / "activated" / f"{full.sha256}.jinja").write_text(text, encoding="utf-8")
    (own / "mine" / "activation.json").write_bytes(dump_state(TemplateState("mine", built_in, full)))

    def done(*arguments: str) -> tuple[int, str]:
        code = run(["bundle", *arguments])
        return code, capsysbinary.readouterr().out.decode()

    def asks(mode: str) -> Plan | Refusal:
        planner = Planner("mine", user_folder=own)
        options = Options(mode="text" if mode == "text" else "ids")
        return planner.plan(messages=CHAT, options=options, max_completion_tokens=32, app_version="2.4")

    records = Records(own, bundle.manifest.digest)
    with serving() as (url, _):
        assert 0 == done("certify", "mine", "--url", url, "--mode", "text", "--app-version", "2.4")[0]
        assert asks("text").accepted
        assert ["text"] == list(certificates(records))
        assert {} == certificates(Records(own, built_in))
        records.write("drift", {"plannedTokens": 9, "reportedTokens": 8})
        with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
            asks("ids")
        assert "bundle_blocked_by_drift" in done("show", "mine", "--app-version", "2.4", "--json")[1]
        assert 0 == done("check", "mine", "--remeasure")[0]
        with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
            asks("ids")
        assert 0 == done("check", "mine", "--remeasure", "--url", url, "--app-version", "2.4")[0]
    assert asks("ids").accepted


def test_a_server_with_a_key_is_asked_again_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What was certified with a key can be measured again with it, and not without."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("OUR_KEY", "k-1")
    add_bundle(Wanted(plain_copy(tmp_path / "model"), id="mine", runtime="mlx-lm@1.0"), user_folder())
    keyed = ["--api-key-env", "OUR_KEY"]
    with serving() as (url, server):
        server.key = "k-1"
        assert 0 == run(["bundle", "certify", "mine", "--url", url, "--mode", "text", *keyed])
        check = ["bundle", "check", "mine", "--remeasure", "--url", url]
        assert (2, 0) == (run(check), run([*check, *keyed]))
    assert 2 == run(["bundle", "check", "mine", *keyed])
    assert b"k-1" not in b"".join(capsysbinary.readouterr())
