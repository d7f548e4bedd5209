"""One pure verb per file, from recall to seal (style.md §3)."""
