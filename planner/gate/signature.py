"""A gate's result as one statement that can be signed with a key of one's own and checked without a network.

The statement names candidate, verdict and the sha256 of every file that goes with it. A signature says who stated
it, and proves nothing else: it makes a pass no broader, and it approves nothing (R178, R179).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.gate.verdict import CLAIM
from planner.values.digest import digest
from planner.values.gate import GateResult, Verdict
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.wire.dump import dump_record
from planner.wire.parse import parse_record

RESULT = "result"
"""The name of the result among the files of a statement."""
_DOMAIN = b"context-planner gate statement 1\n"


@dataclass(frozen=True, slots=True)
class Statement:
    """What is signed: its canonical JSON. `files` is the sha256 of each file's bytes by its name."""

    candidate_id: str
    verdict: Verdict
    files: Mapping[str, str]
    claim: str
    schema_version: str = "1.0"


@dataclass(frozen=True, slots=True)
class Signature:
    """An Ed25519 signature in hex; `key_id` is the sha256 of the raw public key, which is not in it."""

    key_id: str
    value: str
    algorithm: Literal["ed25519"]


@dataclass(frozen=True, slots=True)
class Signed:
    """The file: a statement, and its signature or none."""

    statement: Statement
    signature: Signature | None = field(default=None)
    schema_version: str = "1.0"


def statement_of(result: bytes, files: Mapping[str, bytes]) -> Statement:
    """State a result of `planner gate run --json` with the files that go with it, by name.

    Raises RefusalSignal invalid-input where it is no such result.
    """
    parsed = parse_record(GateResult, result)
    return Statement(parsed.candidate_id, parsed.verdict, _digests(result, files), CLAIM)


def sign(statement: Statement, private_pem: bytes) -> Signature:
    """Sign with an Ed25519 key in PEM. Raises PlannerFault key_unusable, environment without the `sign` extra."""
    ed25519, serialization = _library()
    try:
        key = serialization.load_pem_private_key(private_pem, password=None)
    except (ValueError, TypeError):
        raise PlannerFault("key_unusable", "the key is no private key in PEM, or it has a password") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise PlannerFault("key_unusable", "the key is of another kind than Ed25519")
    return Signature(_key_id(key.public_key()), key.sign(_signed_bytes(statement)).hex(), "ed25519")


def dump_signed(signed: Signed) -> bytes:
    """Return the file."""
    return dump_record(signed) + b"\n"


def parse_signed(data: bytes) -> Signed:
    """Read a file. Raises RefusalSignal invalid-input."""
    return parse_record(Signed, data)


def check_signed(signed: Signed, result: bytes, files: Mapping[str, bytes], public_pem: bytes) -> Statement:
    """Return the statement where the key signed it and every file is the one it names.

    Raises PlannerFault signature_invalid, key_unusable, environment without the `sign` extra.
    """
    _check_key(signed, public_pem)
    statement, found = signed.statement, _digests(result, files)
    odd = sorted(name for name in statement.files.keys() | found if statement.files.get(name) != found.get(name))
    if odd:
        gone = odd[0] not in found or odd[0] not in statement.files
        raise PlannerFault("signature_invalid", f"{odd[0]}: {'is not on both sides' if gone else 'differs'}")
    try:
        again = statement_of(result, files)
    except RefusalSignal:
        raise PlannerFault("signature_invalid", "result: is no result of the gate") from None
    if again != statement:
        raise PlannerFault("signature_invalid", "the statement says something else than its result")
    return statement


def _check_key(signed: Signed, public_pem: bytes) -> None:
    ed25519, serialization = _library()
    if signed.signature is None:
        raise PlannerFault("signature_invalid", "the statement is unsigned")
    try:
        key = serialization.load_pem_public_key(public_pem)
    except (ValueError, TypeError):
        raise PlannerFault("key_unusable", "the key is no public key in PEM") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise PlannerFault("key_unusable", "the key is of another kind than Ed25519")
    if signed.signature.key_id != _key_id(key):
        raise PlannerFault("signature_invalid", "another key signed it than the one that is named")
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(bytes.fromhex(signed.signature.value), _signed_bytes(signed.statement))
    except (InvalidSignature, ValueError):
        raise PlannerFault("signature_invalid", "the signature is not that of the statement") from None


def _digests(result: bytes, files: Mapping[str, bytes]) -> dict[str, str]:
    found = {name: digest(data) for name, data in files.items()}
    return dict(sorted({**found, RESULT: digest(result)}.items()))


def _signed_bytes(statement: Statement) -> bytes:
    return _DOMAIN + dump_record(statement)


def _key_id(key: Any) -> str:
    return digest(key.public_bytes_raw())


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise PlannerFault("environment", "cryptography is not installed; it is the extra named sign") from None
    return ed25519, serialization
