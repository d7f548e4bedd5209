"""Pure rules of compaction: what to cover, the prompt, the checks, the record."""
