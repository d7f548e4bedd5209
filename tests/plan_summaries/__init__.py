"""Requirements of compaction that a plan decides, with summaries and constraints in the request."""
