"""Every mutant, by what it is about."""

from __future__ import annotations

from tools.mutants import bundles, compaction, core, evidence, gate, ledger, planning, privacy

MUTANTS = (
    *evidence.MUTANTS, *compaction.MUTANTS, *ledger.MUTANTS, *planning.MUTANTS, *gate.MUTANTS, *bundles.MUTANTS,
    *core.MUTANTS, *privacy.MUTANTS,
)  # fmt: skip
