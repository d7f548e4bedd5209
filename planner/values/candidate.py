"""What a release is: the candidate a verdict is tied to, and the cells it is measured in (R190, R194, X59)."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from planner.values.digest import canonical
from planner.values.policy_file import Caps

CellStatus = Literal["measured", "simulated", "uncovered"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version of an app with everything whose change demands the families again (R190).

    bundle_digests  of every model bundle it ships: model, adapter, tokenizer, template and runtime are in them.
    template_version  what its bundles call their templates; several with commas between, where they differ.
    tool_set_digest, policy_digest, hardening_digest  sha256 in hex of what the app ships, as the app counts it.
    """

    app_version: str
    bundle_digests: tuple[str, ...]
    template_version: str
    tool_set_digest: str
    summary_schema_version: str
    hardening_digest: str
    policy_digest: str
    caps: Caps = field(default_factory=Caps)

    @property
    def template_versions(self) -> tuple[str, ...]:
        """The versions that its bundles' templates may have."""
        return tuple(self.template_version.split(","))

    @property
    def candidate_id(self) -> str:
        """sha256 of the canonical JSON; the order of the bundles does not matter."""
        ordered = (
            self.app_version, tuple(sorted(self.bundle_digests)), self.template_version, self.tool_set_digest,
            self.summary_schema_version, self.hardening_digest, self.policy_digest, self.caps,
        )  # fmt: skip
        return sha256(canonical(ordered)).hexdigest()


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One combination an app runs in; `limits` are the tier ids it may use there (X59, R209)."""

    app_version: str
    bundle_digest: str
    runtime: str
    runtime_version: str
    os: str
    abi: str
    vendor: str
    limits: tuple[str, ...] = ()
    status: CellStatus = "uncovered"


EvidencePart = Literal["summary_test_set", "device_receipts", "tool_gateway_refusals", "output_validation"]
EVIDENCE_PARTS: tuple[EvidencePart, ...] = get_args(EvidencePart)
"""What stands beside the structure before a release is proven (R195)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One part: the digest of the file that holds it, None where there is none, and how many cases it speaks of."""

    name: EvidencePart
    digest: str | None = None
    detail: str = "not evidenced"
    cases: int = 0
