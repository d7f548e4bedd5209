"""Clients of model servers, and engines of other runtimes that render the same templates."""
