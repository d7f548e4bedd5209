"""Exact ids of a framed message list: rendering, ownership, runs, the three speeds (design.md §4)."""
