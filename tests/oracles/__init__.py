"""Naive oracles, at most 40 lines each: slow, obvious, and independent of the planner."""
