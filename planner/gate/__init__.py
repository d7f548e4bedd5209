"""The release gate: samples x bundles x tiers to a verdict, and what proves a single plan or call."""
