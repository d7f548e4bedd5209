"""A result that is signed, checked without a network, and every way in which it is not what it says."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cli.main import run as command
from planner.gate.signature import Signed, dump_signed, parse_signed, statement_of
from planner.gate.verdict import CLAIM, Tally
from planner.values.digest import digest
from planner.values.gate import FAMILIES, GateResult
from planner.values.reasons import RefusalSignal
from planner.wire.dump import dump_record
from tests.gate.gate_support import candidate, cell, sample

needs_keys = pytest.mark.skipif(importlib.util.find_spec("cryptography") is None, reason="cryptography is absent")
Capture = pytest.CaptureFixture[str]


def verdict(outcome: str = "pass") -> GateResult:
    """Return a verdict over one cell of each family."""
    from planner.gate.cells import run_cell
    from tests.gate.gate_support import subject

    tally = Tally(candidate(), [("reference", candidate().bundle_digests[0])])
    for family in FAMILIES if outcome == "pass" else FAMILIES[1:]:
        tally.add(run_cell(cell(sample(family, family=family)), subject()))
    return tally.result()


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A result, a candidate, two receipts, and two pairs of keys where they can be made."""
    (tmp_path / "result.json").write_bytes(dump_record(verdict()))
    (tmp_path / "candidate.json").write_bytes(dump_record(candidate()))
    (tmp_path / "receipts").mkdir()
    for name in ("a", "b"):
        (tmp_path / "receipts" / f"{name}.json").write_text(json.dumps({"name": name}))
    if importlib.util.find_spec("cryptography") is not None:
        for name in ("ours", "theirs"):
            keys(tmp_path, name)
    return tmp_path


def keys(folder: Path, name: str) -> None:
    """Write a pair of Ed25519 keys as openssl does."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)


def sign(desk: Path, *more: str) -> int:
    """Sign what is on the desk."""
    return command(["gate", "sign", str(desk / "result.json"), "--out", str(desk / "signed.json"), "--receipts",
                    str(desk / "receipts"), "--with", str(desk / "candidate.json"), *more])  # fmt: skip


def check(desk: Path, key: str = "ours.pub") -> int:
    """Check it."""
    return command(["gate", "check-signature", str(desk / "signed.json"), str(desk / "result.json"), "--public-key",
                    str(desk / key), "--receipts", str(desk / "receipts"), "--with",
                    str(desk / "candidate.json")])  # fmt: skip


def changed(tree: Any, path: str, value: Any) -> Any:
    """Return a JSON tree with one value changed."""
    *inner, last = path.split(".")
    place = tree
    for name in inner:
        place = place[name]
    place[last] = value
    return tree


@needs_keys
def test_what_is_signed_is_found_to_be(desk: Path, capsys: Capture) -> None:
    """Exit 0, the candidate and the claim; the same key signs the same bytes."""
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    assert "signed by key" in capsys.readouterr().out
    first = (desk / "signed.json").read_bytes()
    assert 0 == check(desk)
    out = capsys.readouterr().out.replace("\n", " ")
    assert candidate().candidate_id in out
    assert "authorises nothing" in out
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    assert first == (desk / "signed.json").read_bytes()


@needs_keys
def test_one_changed_byte_is_found(desk: Path, capsys: Capture) -> None:
    """In every file that goes with it, wherever in the file; an absent and an additional one too."""
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    for path in (desk / "result.json", desk / "candidate.json", *sorted((desk / "receipts").iterdir())):
        sound = path.read_bytes()
        for at in (0, len(sound) // 2, len(sound) - 1):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
            assert 2 == check(desk), path.name
            assert "signature_invalid" in capsys.readouterr().err
        path.write_bytes(sound)
    (desk / "receipts" / "c.json").write_text("{}")
    assert 2 == check(desk)
    assert "receipts/c.json: is not on both sides" in capsys.readouterr().err
    (desk / "receipts" / "c.json").unlink()
    (desk / "receipts" / "a.json").unlink()
    assert 2 == check(desk)


@needs_keys
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("statement.candidateId", "0" * 64), ("statement.verdict", "block"), ("statement.claim", "Approved."),
        ("statement.files.result", "0" * 64), ("signature.value", "00" * 64), ("signature.value", "no hex"),
        ("signature.keyId", "0" * 64), ("signature.algorithm", "none"), ("signature", None), ("extra", 1),
        ("statement.schemaVersion", "9.0"),
    ],
)  # fmt: skip
def test_a_statement_that_was_edited_is_found(desk: Path, capsys: Capture, path: str, value: Any) -> None:
    """Every field of it, and the signature's own."""
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    tree = changed(json.loads((desk / "signed.json").read_bytes()), path, value)
    (desk / "signed.json").write_text(json.dumps(tree))
    assert 2 == check(desk)
    err = capsys.readouterr().err
    assert "signature_invalid" in err or "invalid-input" in err


@needs_keys
def test_a_signature_is_of_one_statement(desk: Path, capsys: Capture) -> None:
    """Put under another statement of the same candidate and verdict it is none."""
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    ours = json.loads((desk / "signed.json").read_bytes())["signature"]
    (desk / "receipts" / "a.json").write_text('{"name": "swapped"}')
    assert 0 == sign(desk)
    tree = json.loads((desk / "signed.json").read_bytes()) | {"signature": ours}
    (desk / "signed.json").write_text(json.dumps(tree))
    assert 2 == check(desk)
    assert "the signature is not that of the statement" in capsys.readouterr().err


@needs_keys
def test_another_key_and_what_is_no_key(desk: Path, capsys: Capture) -> None:
    """Whoever else signed it, a private key where a public one is asked for, and the other way round."""
    assert 0 == sign(desk, "--key", str(desk / "theirs.pem"))
    capsys.readouterr()
    for key, code in (("ours.pub", "another key signed it"), ("ours.pem", "key_unusable"), ("result.json", "key_un")):
        assert 2 == check(desk, key)
        assert code in capsys.readouterr().err
    for key in ("ours.pub", "result.json"):
        assert 2 == sign(desk, "--key", str(desk / key))
        assert "key_unusable" in capsys.readouterr().err


def test_unsigned_is_said_to_be(desk: Path, capsys: Capture) -> None:
    """A statement without a key, and the check of it with one."""
    assert 0 == sign(desk)
    assert "unsigned" in capsys.readouterr().out
    signed = parse_signed((desk / "signed.json").read_bytes())
    assert (None, CLAIM) == (signed.signature, signed.statement.claim)
    assert digest((desk / "result.json").read_bytes()) == signed.statement.files["result"]
    if importlib.util.find_spec("cryptography") is not None:
        assert 2 == check(desk)
        assert "signature_invalid: the statement is unsigned" in capsys.readouterr().err


@needs_keys
def test_a_signed_block_is_no_release(desk: Path, capsys: Capture) -> None:
    """The signature holds and the exit code is 2."""
    (desk / "result.json").write_bytes(dump_record(verdict("block")))
    assert 0 == sign(desk, "--key", str(desk / "ours.pem"))
    assert 2 == check(desk)
    assert "release_blocked" in capsys.readouterr().err


def test_without_the_library_one_line_says_so(desk: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing needs it, stating does not."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    (desk / "any.pem").write_text("x")
    assert 2 == sign(desk, "--key", str(desk / "any.pem"))
    assert "environment: cryptography is not installed; it is the extra named sign" in capsys.readouterr().err
    assert not (desk / "signed.json").exists()
    assert 0 == sign(desk)


def test_what_is_no_result_is_not_stated(desk: Path) -> None:
    """A candidate in its place, and what the gate printed with a field more; what the gate prints is read."""
    for data in (dump_record(candidate()), dump_record(verdict())[:-1] + b',"approvedBy":"me"}', b"", b"[]"):
        with pytest.raises(RefusalSignal):
            statement_of(data, {})
    stated = statement_of(dump_record(verdict()), {"x": b"1"})
    assert stated == parse_signed(dump_signed(Signed(stated))).statement
    assert replace(stated, verdict="block") != stated


def test_what_the_command_prints_is_a_result(desk: Path, capsys: Capture) -> None:
    """`planner gate run --json` gives what is signed."""
    folder = desk / "release"
    assert 0 == command(["gate", "init", str(folder), "--app-version", "1", "--bundles", "reference"])
    capsys.readouterr()
    command(["gate", "run", "--candidate", str(folder / "candidate.json"), "--samples", str(folder / "samples"),
             "--bundles", "reference", "--json"])  # fmt: skip
    (desk / "result.json").write_text(capsys.readouterr().out)
    assert 0 == sign(desk)
