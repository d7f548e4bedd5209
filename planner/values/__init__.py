"""Frozen values that every other package speaks in; imports nothing of ours."""
