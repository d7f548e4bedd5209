"""What users of other planners complain about, as tests of this one (peers.md §4)."""
