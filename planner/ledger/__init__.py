"""The durable record of conversations: one SQLite file, facts in the order of commits (design.md §8)."""
