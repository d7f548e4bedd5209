"""Compaction: what a summary may say, and when it may stand for its turns."""
