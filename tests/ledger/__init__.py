"""The durable ledger: what is stored stays, what is read is what was stored."""
