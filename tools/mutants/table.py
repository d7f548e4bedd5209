"""Every mutant, by what it is about."""

from __future__ import annotations

from tools.mutants import bundles, compaction, evidence, gate, ledger, planning

MUTANTS = (*evidence.MUTANTS, *compaction.MUTANTS, *ledger.MUTANTS, *planning.MUTANTS, *gate.MUTANTS, *bundles.MUTANTS)
