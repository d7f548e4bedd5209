"""What each engine does to a prompt; built by its own issue."""
