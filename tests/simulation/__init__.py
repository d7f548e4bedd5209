"""Random histories under a simulated disk, and against a naive model (threats.md §1.2 rows 6 and 7)."""
