"""A bundle as one runtime runs it: its own files, and a runtime of the reviewed table in its manifest."""

from __future__ import annotations

from planner.bundles.restated import Restated
from planner.values.bundle import Bundle
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES


class Deployed(Restated):
    """Everything of a bundle but its manifest's runtime and tiers."""

    def __init__(self, bundle: Bundle, name: str, context: int) -> None:
        """Name an engine of the table, in the version it was reviewed for, started with `context` tokens."""
        runtime = Runtime(RUNTIMES[name], RUNTIMES[name].versions[0], context_tokens=context)
        super().__init__(bundle, runtime=runtime, tiers=())
