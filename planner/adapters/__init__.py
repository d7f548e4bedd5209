"""Shapes of other people to PlanRequest."""
