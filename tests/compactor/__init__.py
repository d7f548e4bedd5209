"""Compaction over a real ledger: propose, ask, judge, store, plan."""
