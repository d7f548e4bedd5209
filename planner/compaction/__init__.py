"""Pure rules of compaction; built by their own issue."""
