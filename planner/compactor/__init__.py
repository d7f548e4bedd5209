"""Compaction over a ledger: the effectful twin of the rules in `compaction`."""
