"""A template that comes from elsewhere, on the device: what must hold before it is used, and what stands in for it."""

from __future__ import annotations

import pytest

from tests.activation.conftest import BUILT_IN, NEWER, SHIPPED, Desk, asked, cell, planned, sha256

TARGET = {"appVersion": "2.1"}


def in_force(desk: Desk, version: str = "2.1") -> tuple[str, str | None]:
    """Return the digest of the template an app plans with, and why the built-in one stands in."""
    receipt = planned(desk.plan(asked(version))).receipt
    return receipt.template_digest or "", receipt.template_fallback


def test_life_capability_matrix_before_remote_template(desk: Desk) -> None:
    """One target of the matrix nobody planned for is enough: nothing is active, and the target is named."""
    holes = (
        {"status": "uncovered"},
        {"status": "uncovered", "abi": "x86_64"},
        {"status": "uncovered", "vendor": "other"},
        {"status": "uncovered", "os": "ios"},
    )
    for hole in holes:
        matrix = desk.matrix(cell(BUILT_IN, **TARGET), cell(BUILT_IN, **TARGET, **hole))
        done = desk.activate(NEWER, "--matrix", matrix, "--json")
        named = [name for one in done.json["findings"] for name in one["ids"]]
        assert (2, ["uncovered_cell"]) == (done.code, [one["code"] for one in done.json["findings"]])
        assert [hole.get("abi", hole.get("vendor", hole.get("os", "acme"))) in name for name in named] == [True]
        assert (sha256(SHIPPED), None) == in_force(desk)
    done = desk.activate(NEWER, "--matrix", desk.matrix(cell(BUILT_IN, **TARGET)), "--json")
    assert (0, {"4k"}) == (done.code, {one["limit"] for one in done.json["evidence"]["runs"]})
    assert (sha256(NEWER), None) == in_force(desk)


def test_life_template_fetch_failure_uses_builtin(desk: Desk) -> None:
    """Nothing fetched, half of it fetched, lost afterwards: the app plans with the template it was built with."""
    before = planned(desk.plan(asked("2.1"))).ids
    absent = desk.run("activate", "reference", desk.root / "absent.jinja", "--sha256", sha256(NEWER))
    half = desk.run("activate", "reference", desk.write(NEWER[:-40]), "--sha256", sha256(NEWER))
    assert (2, 2) == (absent.code, half.code)
    assert (sha256(SHIPPED), None) == in_force(desk)
    assert 0 == desk.activate(NEWER).code
    assert sha256(NEWER) == in_force(desk)[0]
    (desk.folder / "reference" / "activated" / f"{sha256(NEWER)}.jinja").unlink()
    assert (sha256(SHIPPED), "template_missing") == in_force(desk)
    assert before == planned(desk.plan(asked("2.1"))).ids


@pytest.mark.parametrize(("version", "inside"), [("1.9", False), ("2", True), ("2.9.9", True), ("3.0", False)])
def test_life_template_version_out_of_range_uses_builtin(desk: Desk, version: str, inside: bool) -> None:
    """An app older or newer than the template is made for gets the built-in one, and its receipt says so."""
    assert 0 == desk.activate(NEWER, "--min-app", "2", "--max-app", "2.9.9", "--app-version", "2.1").code
    expected = (sha256(NEWER), None) if inside else (sha256(SHIPPED), "app_version_out_of_range")
    assert expected == in_force(desk, version)
    digest = planned(desk.plan(asked(version))).receipt.bundle_digest
    assert (digest == BUILT_IN) is not inside
