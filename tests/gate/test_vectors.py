"""The kit with which a port proves itself: our own planner answers it, and a changed vector is found (R44, R218)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from planner.cli.main import run as run_command
from planner.gate.numbers import fragile_numbers
from planner.gate.reading import read_samples
from planner.values.gate import FAMILIES
from tests.gate.vector_reader import Kit, final_input, written

SAMPLES = Path(__file__).resolve().parents[2] / "fixtures" / "samples"


def command(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command in this process: exit code and the two streams."""
    capfd.readouterr()
    code = run_command([str(one) for one in arguments])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped samples for the embedded bundle."""
    folder = tmp_path_factory.mktemp("kit")
    assert 0 == run_command(["gate", "export-vectors", str(folder / "kit"), "--samples", str(SAMPLES)])
    return folder / "kit"


def vectors(kit: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every vector with its file."""
    return Kit(kit).vectors()


def test_every_shipped_sample_has_a_vector(kit: Path) -> None:
    """One per sample, one per plan of a lifecycle; all six families and every kind of answer are there."""
    there = {vector["id"].partition(".")[0] for _, vector in vectors(kit)}
    assert {one.id for one in read_samples(SAMPLES)} == there
    assert set(FAMILIES) == {vector["family"] for _, vector in vectors(kit)}
    reasons = {vector["expected"]["reason"] for _, vector in vectors(kit)}
    assert {None, "context_policy_overflow", "insufficient_evidence", "open_turn_overflow"} <= reasons


def test_our_planner_answers_every_vector(kit: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The kit as a port's CI would run it."""
    code, out, err = command(capfd, "gate", "check-vectors", kit)
    count = len(Kit(kit).head["files"])
    assert (0, f"{count} vectors, {count} as expected\n", "") == (code, out, err)


def test_the_page_is_enough_to_make_every_digest(kit: Path) -> None:
    """A reader that knows the README and kit.json alone makes the digests, accounts and plan ids of all vectors."""
    reader = Kit(kit)
    bundles = {row["id"]: row["digest"] for row in reader.head["bundles"]}
    for row in reader.head["canonicalExamples"]:
        assert row["canonical"] == written(row["value"])
    for name, vector in reader.vectors():
        request, expected, prints = vector["request"], vector["expected"], vector["fingerprints"]
        assert prints == reader.fingerprints(request), name
        assert expected["requestDigest"] == reader.request_digest(request, prints["turnChain"]), name
        digest = bundles[vector["bundle"]]
        assert expected["planId"] == reader.plan_id(digest, expected["requestDigest"]), name
        if expected["outcome"] != "accepted":
            assert expected["finalInputDigest"] is None
            assert "ids" not in expected
            continue
        assert expected["finalInputDigest"] == final_input(digest, expected["ids"]), name
        lines = ("policyTokens", "toolTokens", "requestTokens", "historyTokens", "retrievalTokens", "framingTokens")
        assert len(expected["ids"]) == sum(expected["account"][line] for line in lines), name


def test_numbers_that_readers_change_are_marked(kit: Path) -> None:
    """1.0, 1e-7, a number beyond 2^53 and minus zero, with the spelling our template prints; no other."""
    vector = next(vector for _, vector in vectors(kit) if vector["id"] == "turns-numbers-in-calls")
    found = {row["path"].rpartition("arguments.")[2]: (row["kind"], row["text"]) for row in vector["fragileNumbers"]}
    assert {
        "share": ("integral", "1.0"), "tiny": ("exponent", "1e-07"), "serial": ("beyond_double", "9007199254740993"),
        "below": ("negative_zero", "-0.0"),
    } == found  # fmt: skip
    for _, text in found.values():
        assert text in vector["expected"]["prompt"]
    assert ["exponent", "integral"] == [row["kind"] for row in fragile_numbers([2.5e9, 2.5e6])]
    assert [] == fragile_numbers({"a": [1, 0.5, 2**53, True, None, "1.0"]})


def small_copy(kit: Path, to: Path) -> Path:
    """Return a copy of the kit with three of its vectors."""
    head = Kit(kit).head
    head["files"] = [row for row in head["files"] if "turn_truncation/turns-t" in row["path"]]
    for row in head["files"]:
        (to / row["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kit / row["path"], to / row["path"])
    (to / "kit.json").write_text(json.dumps(head))
    return to


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("expected.ids", lambda ids: [*ids[:-1], ids[-1] + 1]),
        ("expected.kept", lambda kept: kept[1:]),
        ("expected.account.policyTokens", lambda tokens: tokens + 1),
        ("fingerprints.turnChain", lambda digest: digest[::-1]),
        ("request.reservedOutputTokens", lambda tokens: tokens + 1),
        ("request.turns", lambda turns: turns[1:]),
    ],
)
def test_a_changed_vector_is_found(
    kit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], place: str, change: Any
) -> None:
    """By its digest in kit.json, and by our answer where that was written anew."""
    copy = small_copy(kit, tmp_path / "kit")
    name, vector = next((n, v) for n, v in vectors(kit) if v["id"] == "turns-tail")
    *way, last = place.split(".")
    inner = vector
    for step in way:
        inner = inner[step]
    inner[last] = change(inner[last])
    data = json.dumps(vector, ensure_ascii=False).encode()
    (copy / name).write_bytes(data)
    wanted = f"context plan rejected: vectors_differ: 1 of {len(Kit(copy).head['files'])} vectors\n"
    code, out, err = command(capfd, "gate", "check-vectors", copy, "--json")
    assert (2, wanted) == (code, err)
    assert [{"file": name, "path": "is not the file that kit.json lists"}] == json.loads(out)["differences"]
    head = Kit(copy).head
    for row in head["files"]:
        row["sha256"] = sha256(data).hexdigest() if row["path"] == name else row["sha256"]
    (copy / "kit.json").write_text(json.dumps(head))
    code, out, err = command(capfd, "gate", "check-vectors", copy, "--json")
    assert (2, wanted) == (code, err)
    found = json.loads(out)["differences"]
    assert {name} == {one["file"] for one in found}
    assert place.startswith("request") or any(one["path"].startswith(f"$.{place}") for one in found)


def test_answers_of_a_port_are_compared_without_planning(
    kit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Right answers pass; a wrong id, a missing field and a missing file are each named."""
    for name, vector in vectors(kit):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps({key: vector[key] for key in ("expected", "fingerprints")}))
    assert 0 == command(capfd, "gate", "check-vectors", kit, "--answers", tmp_path)[0]
    (first, one), (second, other), (third, _) = list(vectors(kit))[:3]
    one["expected"]["ids"][0] += 1
    del other["expected"]["kept"]
    (tmp_path / first).write_text(json.dumps(one))
    (tmp_path / second).write_text(json.dumps(other))
    (tmp_path / third).unlink()
    code, out, _ = command(capfd, "gate", "check-vectors", kit, "--answers", tmp_path, "--json")
    paths = [(row["file"], row["path"]) for row in json.loads(out)["differences"]]
    assert (2, [(first, "$.expected.ids[0]"), (second, "$.expected.kept"), (third, "cannot be read")]) == (code, paths)


def test_the_same_kit_is_written_twice(kit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every byte, ledgers of lifecycle samples included; a folder with files in it is left alone."""
    assert 0 == command(capfd, "gate", "export-vectors", tmp_path / "kit", "--samples", SAMPLES)[0]
    for path in kit.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "kit" / path.relative_to(kit)).read_bytes()
    code, _, err = command(capfd, "gate", "export-vectors", tmp_path / "kit", "--samples", SAMPLES)
    assert (2, True) == (code, "DIR holds files already" in err)


def test_a_kit_of_another_bundle_is_refused(kit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Before a vector is planned: its answers could not be the same."""
    head = Kit(kit).head
    head["bundles"][0]["digest"] = "0" * 64
    (tmp_path / "kit.json").write_text(json.dumps(head))
    code, _, err = command(capfd, "gate", "check-vectors", tmp_path)
    assert (2, True) == (code, "bundle_mismatch" in err)
