"""Policies before they are published, and what-if tables."""
