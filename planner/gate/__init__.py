"""The release gate; built by its own issue."""
