"""The planner's compaction before an outside judge, the compaction-conformance-kit."""
