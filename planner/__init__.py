"""context-planner: which token ids go to the model, what was left out, and why."""

__version__ = "0.1.0"
