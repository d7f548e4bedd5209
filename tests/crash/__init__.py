"""Processes that die, disks that fill, calls that fail: what was acknowledged is there (threats.md §1)."""
