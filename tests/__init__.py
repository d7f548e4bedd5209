"""Tests of the planner; `support` and `oracles` share no code with it."""
