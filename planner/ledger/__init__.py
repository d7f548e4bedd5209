"""The durable conversation ledger; built by its own issue."""
