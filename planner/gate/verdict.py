"""From cells to a verdict over one candidate: any loss blocks, and so does what was not run (R190..R196, R209)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from planner.gate.identity import IDENTITY
from planner.values.candidate import Candidate, Evidence, MatrixCell
from planner.values.gate import FAMILIES, CellResult, Coverage, GateResult, Reason
from planner.values.integration import PlatformCheck

CLAIM = (
    "Structure and token budget only. This proves neither that a summary is complete nor that a model obeys, and it "
    "authorises nothing: the tool gateway checks every call itself."
)
"""Printed with every verdict (R178, R179, R196)."""

MOST_REASONS = 10_000
"""Reasons a verdict lists; each is a line somebody reads, and a million of them would be held in memory."""


def reason_id(result: CellResult, reason: Reason) -> str:
    """Return how the verdict names the place of a cell's reason."""
    return f"{result.sample_id} on {result.bundle_id}: {reason.id}"


class Tally:
    """The running verdict: cells come one by one and are not kept, so a million of them need no memory."""

    def __init__(
        self, candidate: Candidate, bundles: Sequence[tuple[str, str]], runtimes: Mapping[str, str] | None = None
    ) -> None:
        """Begin; `bundles` are (id, digest) of what is run, `runtimes` the reviewed one that each digest names."""
        self._candidate = candidate
        self._bundles = bundles
        self._runtimes = runtimes or {}
        self._families: Counter[tuple[str, str]] = Counter()
        self._samples: Counter[str] = Counter()
        self._compared: Counter[str] = Counter()
        self._tiers: set[str] = set()
        self._ran: set[tuple[str, str]] = set()
        self._codes: dict[Reason, None] = {}
        self.cells = self.blocked = self.reused = self._unlisted = 0

    def add(self, result: CellResult, *, reused: bool = False) -> None:
        """Count one cell."""
        self.cells += 1
        self.reused += reused
        self._tiers.add(result.tier)
        self._ran.add((result.bundle_digest, result.tier))
        self._compared.update(result.compared)
        self._families[result.family, result.bundle_id] += 1
        self._samples[result.family] += 1
        if result.verdict == "block":
            self.blocked += 1
            # A block that says no cause is still one, and may not leave the verdict without a reason.
            for reason in result.reasons or (Reason("outcome_differs"),):
                self._block(Reason(reason.code, reason_id(result, reason)))

    def _block(self, reason: Reason) -> None:
        """List a reason; beyond `MOST_REASONS` distinct ones they are counted, the results hold each of them."""
        if reason in self._codes or len(self._codes) < MOST_REASONS:
            self._codes[reason] = None
        else:
            self._unlisted += 1

    def result(
        self,
        *,
        receipts: Iterable[Reason] = (),
        matrix: Sequence[MatrixCell] = (),
        evidence: tuple[Evidence, ...] = (),
        integration: tuple[PlatformCheck, ...] = (),
    ) -> GateResult:
        """Close: what is missing blocks like what failed (R191, R194).

        receipts  what is wrong with the device receipts that were handed in.
        matrix    the cells the app is meant for; what is not measured is listed (R209), and so is what another
                  candidate measured, or what may use a tier that was not run.
        """
        reasons = [*self._codes, *receipts, *self._missing(), *self._unverified(matrix)]
        stated = (cell if self._could_be(cell) else replace(cell, status="uncovered") for cell in matrix)
        uncovered = tuple(cell for cell in stated if cell.status != "measured")
        return GateResult(
            candidate_id=self._candidate.candidate_id,
            verdict="block" if reasons else "pass",
            reasons=tuple(dict.fromkeys(reasons)),
            cells=self.cells,
            blocked=self.blocked,
            reused=self.reused,
            coverage=Coverage(
                {family: self._samples[family] for family in FAMILIES},
                tuple(bundle_id for bundle_id, _ in self._bundles),
                tuple(sorted(self._tiers)),
                uncovered,
                len(matrix),
            ),
            evidence=evidence,
            claim=CLAIM,
            integration=integration,
            unlisted=self._unlisted,
            compared={name: self._compared[name] for name in IDENTITY},
        )

    def _could_be(self, cell: MatrixCell) -> bool:
        """Whether a target is one of this candidate, planned for within every tier that it may use there (X59)."""
        ran = all((cell.bundle_digest, tier) in self._ran for tier in cell.limits)
        ours = cell.app_version == self._candidate.app_version and cell.bundle_digest in self._candidate.bundle_digests
        return cell.status != "measured" or (ran and ours)

    def _unverified(self, matrix: Sequence[MatrixCell]) -> list[Reason]:
        """A target's window is a reviewed runtime's, or nobody knows where it ends (peers.md T19, R173)."""
        ids = {digest: bundle_id for bundle_id, digest in self._bundles}
        return [
            Reason("runtime_not_verified", f"{cell.runtime} for {ids[cell.bundle_digest]}")
            for cell in matrix
            if cell.bundle_digest in ids and self._runtimes.get(cell.bundle_digest) != cell.runtime
        ]

    def _missing(self) -> list[Reason]:
        if not self.cells:
            return [Reason("nothing_run")]
        found = [
            Reason("family_missing", f"{family} on {bundle_id}")
            for bundle_id, _ in self._bundles
            for family in FAMILIES
            if not self._families[family, bundle_id]
        ]
        wanted, run = set(self._candidate.bundle_digests), {digest for _, digest in self._bundles}
        return found + [Reason("bundle_missing", digest) for digest in sorted(wanted ^ run)]
